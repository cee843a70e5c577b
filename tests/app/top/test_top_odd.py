"""`headgate top` before what no gateway says, on screens that are no screens, and our mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from support.root import ROOT
from support.terminal.management import Management, group
from support.terminal.terminal import Terminal

ENVIRONMENT = {"PYTHONPATH": str(ROOT / "gateway")}
READY = b'{"status": "ready", "dependencies": {}}'
PRODUCER = {
    "producer": "shop", "events_per_s": 1, "bytes_per_s": 1, "last_seen": None,
    "events_total": {}, "received_total": {"events": 1, "bytes": 1}, "bytes_saved_total": 0,
    "topics": [],
}  # fmt: skip


def command(url: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "headgate", "top", "--url", url, "--interval", "1", *arguments]


class Server(ThreadingHTTPServer):
    """Answers /ready as a gateway does, and anything else with one body."""

    daemon_threads = True

    def __init__(self, ready: bytes, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.ready, self.body = ready, body


class Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.server.ready if self.path == "/ready" else self.server.body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(body: bytes, ready: bytes = READY) -> Iterator[str]:
    server = Server(ready, body)
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def producers(**change: object) -> bytes:
    return json.dumps({"producers": [PRODUCER | change]}).encode()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "is not a gateway of this version"),
        (b"null", "is not a gateway of this version"),
        (b"[" * 200_000, "does not answer"),
        (producers(topics=None), "Expected `array`, got `null` - at `$.producers[0].topics`"),
        (producers(last_seen="lately"), "Invalid RFC3339 encoded datetime"),
        (b'{"producers": [], "next": 7}', "at `$.next`"),
    ],
)
def test_an_odd_answer_is_told_and_it_goes_on(body: bytes, said: str) -> None:
    with (
        answering(body) as url,
        Terminal(command(url), ENVIRONMENT, columns=160) as terminal,
    ):
        terminal.shows(said)
        terminal.type("q")
        assert terminal.ended() == 0
        assert "Traceback" not in terminal.written


def test_figures_that_are_none_are_shown_as_none() -> None:
    odd = producers(events_per_s=float("nan"), bytes_per_s=float("inf"))
    with answering(odd) as url, Terminal(command(url), ENVIRONMENT) as terminal:
        screen = terminal.shows("shop")
        assert screen.lines()[1].startswith("ready, 1 producer, ")


def test_ready_that_is_not_ready_s_is_told() -> None:
    with (
        answering(producers(), ready=b'{"status": 3}') as url,
        Terminal(command(url), ENVIRONMENT, columns=160) as terminal,
    ):
        terminal.shows("Expected `str`, got `int` - at `$.status`")


def test_a_page_that_is_followed_by_itself_comes_to_an_end() -> None:
    body = json.dumps({"producers": [PRODUCER], "next": "shop"}).encode()
    with answering(body) as url, Terminal(command(url), ENVIRONMENT) as terminal:
        terminal.shows("1 producer")


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (3, 300), (500, 2), (0, 0)])
def test_a_screen_of_any_size(size: tuple[int, int]) -> None:
    with Management("shop") as management:
        management.instance.groups = [group("billing")]
        with Terminal(command(management.url), ENVIRONMENT) as terminal:
            terminal.shows("shop")
            terminal.resize(*(max(1, one) for one in size))
            for key in ("t", "g", "p", " ", "j", "k"):
                terminal.type(key)
            terminal.resize(80, 24)
            terminal.shows("shop")
            assert not terminal.screen.is_overrun
            terminal.type("q")
            assert terminal.ended() == 0


def test_a_mistake_of_ours_while_asking_ends_it_and_is_seen() -> None:
    broken = "import headgate.commands.top as t, runpy, sys\nt._read = lambda *_: 1 / 0\n"
    given = command("http://127.0.0.1:1")[2:]
    run = f"sys.argv = {given!r}\nrunpy.run_module('headgate', run_name='__main__')"
    with Terminal([sys.executable, "-c", broken + run], ENVIRONMENT) as terminal:
        assert terminal.ended() == 1
        assert "ZeroDivisionError" in terminal.screen.text
        assert terminal.screen.modes == {"25": True, "7": True, "1049": False}
        assert terminal.settings == terminal.settings_before
