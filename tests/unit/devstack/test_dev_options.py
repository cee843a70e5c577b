"""`headgate dev` uses the ports that the user chose, and waits for children that make progress."""

from __future__ import annotations

import logging
import re
import socket
import sys
import time
from pathlib import Path

import pytest

from headgate.cli import main, parser
from headgate.commands.dev import _with_ports, leave_out_known_lines
from headgate.devstack.child import Child, StartError
from headgate.devstack.session import _choose_ports
from support.process.stack import free_port

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def chosen(overlay: dict[str, object], environ: dict[str, str], *words: str) -> tuple[int, int]:
    args = parser(["dev"]).parse_args(["dev", *words])
    ports = _choose_ports(_with_ports(overlay, args, environ), lambda line: None)
    return ports.gateway, ports.management


def test_ports_of_the_command_line_the_environment_and_the_file() -> None:
    first, second, third = (free_port() for _ in range(3))
    http = {"http": {"port": first, "management_port": second}}
    environ = {"HEADGATE_HTTP__PORT": str(third), "HEADGATE_HTTP__WORKERS": "1"}
    assert chosen(http, {}) == (first, second)
    assert chosen(http, dict(environ)) == (third, second)
    words = ("--port", str(second), "--management-port", str(first))
    assert chosen(http, environ, *words) == (second, first)
    # else the gateway's process would use this one
    assert environ == {"HEADGATE_HTTP__WORKERS": "1"}


def test_a_port_that_is_taken_or_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(StartError, match=f"http.port: port {port} is taken"):
            chosen({}, {}, "--port", str(port))
    with pytest.raises(SystemExit):
        main(["dev", "--port", "70000"])
    assert "a number from 1 to 65535" in capsys.readouterr().err
    monkeypatch.setenv("HEADGATE_HTTP__PORT", "web")
    assert main(["dev", "--state", str(tmp_path)]) == 2
    assert "HEADGATE_HTTP__PORT" in capsys.readouterr().err


def test_a_child_that_makes_progress_is_waited_for(tmp_path: Path) -> None:
    """Longer than it may be idle: there is no deadline."""
    child, log = Child("child", SLEEP, tmp_path / "log"), tmp_path / "log"
    end = time.monotonic() + 4

    def ready() -> bool:
        with log.open("a") as progress:
            progress.write("one step further\n")
        return time.monotonic() > end

    try:
        child.wait_until(ready, idle_s=1.5)
    finally:
        child.kill()


def test_a_child_that_does_nothing_is_given_up(tmp_path: Path) -> None:
    child = Child("child", SLEEP, tmp_path / "log")
    try:
        with pytest.raises(StartError, match="child is not ready, and has done nothing for 3 s"):
            child.wait_until(lambda: False, idle_s=3)
    finally:
        child.kill()


def test_processor_time_is_progress(tmp_path: Path) -> None:
    busy = [sys.executable, "-c", "while True: pass"]
    child = Child("child", busy, tmp_path / "log")
    try:
        before = child._work()
        end = time.monotonic() + 60
        while child._work() == before:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        child.kill()


def test_the_wait_shows_the_last_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headgate.devstack.child._STILL_S", 0.2)
    talking = [sys.executable, "-uc", "import time; print('loading logs'); time.sleep(600)"]
    child, said = Child("broker", talking, tmp_path / "log"), list[str]()
    try:
        end = time.monotonic() + 60
        child.wait_until(
            lambda: "loading logs" in "".join(said) or time.monotonic() > end, say=said.append
        )
    finally:
        child.kill()
    assert any("waiting for broker (" in line for line in said)
    assert any("ends with: loading logs" in line for line in said)


def test_only_unknown_errors_of_libraries_reach_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loggers = [logging.getLogger(name) for name in ("headgate", "aiokafka")]
    for logger in loggers:
        monkeypatch.setattr(logger, "propagate", False)  # to handlers of earlier tests
    before = [logger.handlers[:] for logger in loggers]
    try:
        for logger in loggers:
            logger.handlers.clear()  # those of earlier tests
        leave_out_known_lines()
        loggers[0].warning("consumer rejoins its group")
        loggers[1].error("Unable connect to node with id %s: %s", 1, "refused")
        loggers[1].error("something new")
    finally:
        for logger, handlers in zip(loggers, before, strict=True):
            logger.handlers[:] = handlers
    line = capsys.readouterr().err
    assert re.fullmatch(r"\d\d:\d\d:\d\d ERROR aiokafka: something new\n", line)
