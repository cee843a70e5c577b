"""Tables on a terminal, JSON for scripts, colours only where they are wanted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from headgate.cli import main
from headgate.commands.terminal import width
from support.root import ROOT
from support.terminal.terminal import Terminal

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b1;1H名前"
REPLAY: dict[str, Any] = {
    "id": "r1", "state": "copying", "control": "run", "reason": None, "name": HOSTILE,
    "topic": "orders", "from": {"relative": "-2h"}, "deliver": {"mode": "topic"}, "by": "ann",
    "created_at": "2026-01-31T12:00:00.000Z", "changed_at": None, "expires_at": None,
    "planned": {"records": 1000, "bytes": 1_250_000, "covered": True, "seconds": 75.0},
    "done": {"read": 500, "records": 12, "bytes": 4000, "event_time": None}, "result": None,
}  # fmt: skip
READY = REPLAY | {
    "id": "r2", "state": "ready", "done": {**REPLAY["done"], "read": 1000},
    "result": {"topic": "headgate.replay.r2", "bootstrap_servers": "b:1",
               "offsets": {"0": {"start": 0, "end": 12}}},
}  # fmt: skip
PAUSED = REPLAY | {"id": "r3", "control": "pause"}
TRANSLATED = {
    "offsets": {
        "0": [
            {"source": 5, "offset": 7, "result": "exact"},
            {"source": 6, "offset": None, "result": "out_of_range", "deleted": True},
        ]
    }
}
PAGES = {
    "/v1/replays?": {
        "replays": [REPLAY, READY, PAUSED],
        "unavailable": [{"cluster": "old", "detail": "away"}],
    },
    "/v1/replays/r2": READY,
    "/v1/offsets/translate": TRANSLATED,
}
TRANSLATE = ["offsets", "translate", "--topic", "orders", "0:5,6"]


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(PAGES[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate", *arguments]


ENVIRONMENT = {"PYTHONPATH": str(ROOT / "gateway")}


def on_terminal(*arguments: str, **variables: str) -> Terminal:
    with answering() as url:
        started = Terminal(
            command(*arguments), {**ENVIRONMENT, "HEADGATE_URL": url, **variables}, columns=160
        )
        with started as terminal:
            assert terminal.ended() == 0, terminal.screen.text
    return terminal


def test_replays_are_a_table_on_a_terminal() -> None:
    screen = on_terminal("replay", "list").screen
    lines = screen.lines()
    assert " ".join(lines[0].split()) == "ID STATE TOPIC MODE DONE RECORDS BY CREATED NAME"
    assert [line.split()[:6] for line in lines[1:4]] == [
        ["r1", "copying", "orders", "topic", "50", "%"],
        ["r2", "ready", "orders", "topic", "100", "%"],
        ["r3", "paused", "orders", "topic", "50", "%"],
    ]
    assert lines[4] == "not asked  cluster old, detail away"
    assert "32" in screen.inks  # ready is green


def test_no_name_acts_on_the_terminal() -> None:
    screen = on_terminal("replay", "list").screen
    assert (screen.foreign, screen.is_overrun) == ([], False)
    assert r"\x1b]0;owned\x07\x1b[2J\x9b1;1H名前" in screen.text
    assert len({line.index("\\x1b") for line in screen.lines() if "\\x1b" in line}) == 1


def test_one_replay_is_a_list_of_facts() -> None:
    text = on_terminal("replay", "show", "r2").screen.text
    assert "planned      1.00k records, 1.25 MB, covered, about 1 min 15 s to copy" in text
    assert "result       topic headgate.replay.r2 at b:1" in text
    assert "partition 0  start 0, end 12" in text


def test_translated_offsets_are_a_table() -> None:
    lines = on_terminal(*TRANSLATE).screen.lines()
    assert [line.split() for line in lines[:3]] == [
        ["PARTITION", "GIVEN", "OFFSET", "RESULT"],
        ["0", "5", "7", "exact"],
        ["0", "6", "-", "out_of_range,", "deleted"],
    ]


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_where_nobody_wants_them(variables: dict[str, str]) -> None:
    terminal = on_terminal("replay", "list", **variables)
    assert "\x1b" not in terminal.written
    assert "STATE" in terminal.written


@pytest.mark.parametrize(
    ("arguments", "page"),
    [(["replay", "list"], PAGES["/v1/replays?"]), (["replay", "show", "r2"], READY),
     (TRANSLATE, TRANSLATED)],
)  # fmt: skip
def test_scripts_get_the_answer_as_it_came(arguments: list[str], page: Any) -> None:
    assert json.loads(on_terminal(*arguments, "--json").written) == page
    with answering() as url:
        piped = command(*arguments, "--url", url)
        run = subprocess.run(piped, capture_output=True, check=True, text=True, timeout=60)
        assert json.loads(run.stdout) == page
        run = subprocess.run(
            [*piped, "--table"], capture_output=True, check=True, text=True, timeout=60
        )
    assert "{" not in run.stdout
    assert "\x1b" not in run.stdout


def test_check_colours_its_levels(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text('[clusters.main]\nbootstrap_servers = "127.0.0.1:9"\n[topics.orders]\n')
    with Terminal(command("check", "--config", str(file)), ENVIRONMENT) as terminal:
        terminal.ended()
        assert "\x1b[32mOK   \x1b[0m configuration: " in terminal.written


def test_init_tells_machines_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "headgate.toml"
    file.write_text(
        '[clusters.main]\nbootstrap_servers = "127.0.0.1:1"\n'
        '[topics.deals]\nkey = ["/id"]\nfacts = true\n'
    )
    assert main(["init", "--config", str(file), "--check", "--json"]) == 1
    (line,) = json.loads(capsys.readouterr().out)["topics"]
    assert line["word"] == line["level"] == "error"
    assert "does not answer" in line["text"]


def test_a_wide_name_keeps_the_columns_in_line() -> None:
    lines = [line for line in on_terminal("replay", "list").screen.lines() if "名前" in line]
    assert len(lines) == 3
    assert len({width(line) for line in lines}) == 1
