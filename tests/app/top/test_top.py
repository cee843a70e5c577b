"""`headgate top` on a real pseudo-terminal, against the real management pages."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from headgate.commands.terminal import width
from headgate.config.settings import AuthSettings, Settings
from headgate.model.outcome import Failure, OutcomeName, Reason
from support.gateway.admin_world import TOKENS, TOPICS
from support.root import ROOT
from support.terminal.management import Management, group
from support.terminal.terminal import Screen, Terminal

ENVIRONMENT = {"PYTHONPATH": str(ROOT / "gateway")}
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b1;1H\r\n\u202e名前" + "宽" * 60


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate", "top", "--url", url, "--interval", "1", *arguments]


@pytest.fixture
def management() -> Iterator[Management]:
    with Management("shop", "quiet") as running:
        yield running


def top(management: Management, *arguments: str, columns: int = 80, rows: int = 24) -> Terminal:
    return Terminal(command(management.url, *arguments), ENVIRONMENT, columns, rows)


def row_of(screen: Screen, name: str) -> list[str]:
    return next((line.split() for line in screen.lines() if line.split()[:1] == [name]), [])


def is_restored(terminal: Terminal) -> bool:
    modes = terminal.screen.modes == {"25": True, "7": True, "1049": False}
    return modes and terminal.settings == terminal.settings_before


def test_it_shows_what_goes_on_until_q(management: Management) -> None:
    with top(management) as terminal:
        screen = terminal.shows("shop")
        assert screen.modes == {"25": False, "7": False, "1049": True}
        assert terminal.settings != terminal.settings_before
        management.post("shop", "deals", 300)
        management.post("shop", "deals", 100, OutcomeName.UNCHANGED)
        terminal.until(lambda screen: " 25 % " in " ".join(row_of(screen, "shop")))
        assert "PRODUCER" in screen.text
        assert "ready, " in screen.lines()[1]
        assert screen.lines()[-1].startswith("q quit p producers t topics g groups")
        terminal.type("q")
        assert terminal.ended() == 0
        assert is_restored(terminal)
        assert (screen.foreign, screen.is_overrun) == ([], False)


def test_keys_choose_what_is_listed_and_how_it_is_sorted(management: Management) -> None:
    management.instance.groups = [group("billing", "STOP", 12_345)]
    with top(management) as terminal:
        terminal.shows("producers by rate")
        for keys, text in (
            ("t", "TOPIC "), ("b", "topics by bytes"), ("x", "topics by rejects"),
            ("u", "topics by unchanged"), ("g", "groups by worst"), ("u", "groups by worst"),
            ("r", "groups by rate"), ("p", "producers by rate"), ("n", "producers by name"),
        ):  # fmt: skip
            terminal.type(keys)
            terminal.shows(text)
            if keys == "g":
                row = row_of(terminal.shows("billing"), "STOP")
                assert row[:4] == ["STOP", "billing", "main", "12,345"]
        management.post("quiet", "orders", 50)
        terminal.type("r")
        terminal.until(lambda screen: screen.lines()[4].startswith("quiet"))
        terminal.type("n")
        terminal.until(lambda screen: screen.text.index("quiet") < screen.text.index("shop"))


@pytest.mark.parametrize(
    "end",
    [
        lambda terminal: terminal.process.send_signal(signal.SIGTERM),
        lambda terminal: terminal.process.send_signal(signal.SIGHUP),
        lambda terminal: terminal.type("\x03"),
    ],
    ids=["TERM", "HUP", "ctrl-c"],
)
def test_whatever_ends_it_the_terminal_is_given_back(
    management: Management, end: Callable[[Terminal], None]
) -> None:
    with top(management) as terminal:
        terminal.shows("shop")
        end(terminal)
        assert terminal.ended() == 0
        assert is_restored(terminal)
        assert "Traceback" not in terminal.written


def test_a_mistake_of_ours_gives_the_terminal_back_too(management: Management) -> None:
    broken = "import headgate.top.session as s, runpy, sys\ns.frame = None\n"
    given = command(management.url)[2:]
    run = f"sys.argv = {given!r}\nrunpy.run_module('headgate', run_name='__main__')"
    with Terminal([sys.executable, "-c", broken + run], ENVIRONMENT) as terminal:
        assert terminal.ended() == 1
        assert "TypeError" in terminal.screen.text
        assert is_restored(terminal)


def test_while_it_is_stopped_the_terminal_is_as_it_was(management: Management) -> None:
    with top(management) as terminal:
        terminal.shows("shop")
        terminal.type("\x1a")
        process = psutil.Process(terminal.process.pid)
        terminal.until(lambda _: process.status() == psutil.STATUS_STOPPED)
        terminal.until(lambda screen: not screen.modes["1049"])
        assert is_restored(terminal)
        terminal.process.send_signal(signal.SIGCONT)
        terminal.until(lambda screen: screen.modes["1049"] and "shop" in screen.text)
        terminal.type("q")
        assert terminal.ended() == 0


def test_it_follows_the_size_of_the_terminal(management: Management) -> None:
    management.instance.groups = [group(f"g{number:02}", lag=number) for number in range(40)]
    with top(management, "--view", "groups") as terminal:
        terminal.until(lambda screen: "g18" in screen.text and "g19" not in screen.text)
        terminal.resize(40, 10)
        terminal.until(
            lambda screen: "g04" in screen.text and "g05" not in screen.text
            and "q quit" in screen.lines()[-1]
        )  # fmt: skip
        terminal.resize(120, 60)
        terminal.until(lambda screen: "g39" in screen.text and "q quit" in screen.lines()[-1])
        assert not terminal.screen.is_overrun


def test_rows_that_have_no_room_are_scrolled_to(management: Management) -> None:
    management.instance.groups = [group(f"g{number:02}") for number in range(40)]
    with top(management, "--view", "groups") as terminal:
        terminal.shows("g18")
        terminal.type("\x1b[B")
        terminal.until(lambda screen: "g19" in screen.text and "g00" not in screen.text)
        terminal.type("\x1b[6~\x1b[6~")
        assert "from row 22 on" in terminal.shows("g39").lines()[1]
        terminal.type("k")
        terminal.until(lambda screen: "g39" not in screen.text)


def test_a_hostile_name_stays_in_its_cell(management: Management) -> None:
    management.instance.groups = [group(HOSTILE, "STALL", 7), group("billing", lag=1)]
    with top(management, "--view", "groups") as terminal:
        screen = terminal.shows("billing")
        terminal.until(lambda screen: "\\x1b]0;owned" in screen.text)
        assert (screen.foreign, screen.is_overrun) == ([], False)
        [first, second] = [line for line in screen.lines() if line[:5] in ("STALL", "OK   ")]
        assert width(first[: first.index("main")]) == width(second[: second.index("main")])
        assert all(width(line) <= 80 for line in screen.lines())


def test_a_gateway_that_is_away_is_asked_again(management: Management) -> None:
    with top(management) as terminal:
        terminal.shows("shop")
        management.close()
        screen = terminal.until(lambda screen: screen.lines()[1].startswith("since "))
        assert "does not answer" in screen.lines()[1]
        assert "shop" in screen.text  # what was known last
        terminal.shows("(2 s)")
        management.open()
        terminal.until(lambda screen: screen.lines()[1].startswith("ready"))


def test_it_waits_for_a_gateway_that_is_not_there_yet(management: Management) -> None:
    management.close()
    with top(management) as terminal:
        terminal.shows("does not answer")
        management.open()
        terminal.shows("shop")


def test_a_silent_gateway_holds_no_key_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Terminal(command(url), ENVIRONMENT) as terminal:
            terminal.shows("asking...")
            terminal.type("q")
            assert terminal.ended(5.0) == 0
            assert is_restored(terminal)


def test_top_without_permission_names_the_missing_role(tmp_path: Path) -> None:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    token = tmp_path / "token"
    token.write_text("viewer-token\n")
    with Management(settings=settings) as management:
        with top(management) as terminal:
            terminal.shows("401 unauthenticated")
        with top(management, "--token-file", str(token)) as terminal:
            terminal.shows("operator")


def test_a_monitor_that_does_not_run_is_named(management: Management) -> None:
    management.instance.failure = Failure(
        Reason.MONITOR_UNAVAILABLE, "no monitor answers: start one"
    )
    with top(management, "--view", "groups") as terminal:
        terminal.shows("503 monitor_unavailable: no monitor answers: start one")
        terminal.type("p")
        terminal.shows("shop")


def once(url: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **ENVIRONMENT, **variables}
    return subprocess.run(
        command(url, *arguments), capture_output=True, text=True, timeout=60, env=environment,
        check=False,
    )  # fmt: skip


def test_where_there_is_no_terminal_one_table_is_printed(management: Management) -> None:
    for arguments in ((), ("--once",)):
        printed = once(management.url, *arguments)
        assert printed.returncode == 0, printed.stderr
        lines = printed.stdout.splitlines()
        assert lines[0].split()[0] == "PRODUCER"
        assert [line.split()[0] for line in lines[1:]] == ["quiet", "shop"]
        assert "\x1b" not in printed.stdout


def test_a_terminal_that_can_nothing_gets_one_table(management: Management) -> None:
    dumb = {**ENVIRONMENT, "TERM": "dumb"}
    with Terminal(command(management.url), dumb) as terminal:
        assert terminal.ended() == 0
        assert "\x1b" not in terminal.written
        assert "PRODUCER" in terminal.written


def test_machines_get_figures(management: Management) -> None:
    with subprocess.Popen(
        command(management.url, "--json", "--sort", "name"), stdout=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
    ) as process:  # fmt: skip
        management.until_asked()
        management.post("shop", "orders", 30, size=1000)
        assert process.stdout is not None
        page = json.loads(process.stdout.read())
    assert page["view"] == "producers"
    quiet, shop = page["rows"]
    assert (quiet["producer"], quiet["events_per_s"]) == ("quiet", 0.0)
    assert shop["events_per_s"] == pytest.approx(30, rel=0.5)
    assert shop["bytes_per_s"] == pytest.approx(1000 * shop["events_per_s"])


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--interval", "0.5"], 2, "--interval 0.5: at least 1"),
        (["--view", "groups", "--sort", "bytes"], 2, "--sort bytes: groups are sorted by worst"),
        (["--once"], 1, "does not answer"),
    ],
)
def test_what_cannot_be_done_is_a_sentence(arguments: list[str], code: int, said: str) -> None:
    printed = once("http://127.0.0.1:1", *arguments)
    assert (printed.returncode, said in printed.stderr) == (code, True)
    assert printed.stderr.count("\n") == 1
