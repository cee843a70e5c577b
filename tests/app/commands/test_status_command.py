"""`headgate status`, against the real management pages: what it prints, and its exit codes."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from headgate.cli import main
from headgate.model.outcome import Failure, Reason
from support.process.stack import free_port
from support.terminal.management import HOST, Management, group


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[Management]:
    with Management() as running:
        monkeypatch.setenv("HEADGATE_URL", running.url)
        yield running


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int) -> str:
    assert main(["status", *arguments]) == code
    output = capsys.readouterr()
    return output.out or output.err


def test_all_is_well(port: Management, capsys: pytest.CaptureFixture[str]) -> None:
    page = json.loads(said(capsys, "--json", code=0))
    assert (page["state"], page["reasons"]) == ("ok", [])
    assert said(capsys, "--table", code=0).startswith("All is well since 20")


def test_a_stopped_group_degrades_it(port: Management, capsys: pytest.CaptureFixture[str]) -> None:
    port.instance.groups = [group("billing", "STOP", 2304), group("search")]
    lines = said(capsys, "--table", code=1).splitlines()
    assert lines[0].startswith("Degraded since 20")
    assert lines[1].startswith("critical Group billing on main has lag and commits nothing. Since")
    assert lines[2:] == ["  lag 2,304", f"  {port.url}/console/groups/billing"]
    page = json.loads(said(capsys, "--json", code=1))
    assert [reason["subject"] for reason in page["reasons"]] == ["billing"]


def test_a_gateway_that_is_not_ready_is_down(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.is_ready = False
    assert "Down since" in said(capsys, "--table", code=2)


def test_an_unknown_monitor_is_a_reason(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.failure = Failure(Reason.MONITOR_UNAVAILABLE, "no monitor answers")
    assert "the monitor cannot be asked" in said(capsys, "--table", code=1)


def test_a_gateway_that_cannot_be_asked(
    port: Management, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = f"http://{HOST}:{free_port()}"
    assert "does not answer" in said(capsys, "--url", away, code=3)
    monkeypatch.setattr("headgate.commands.status._ANSWER_S", 0.1)
    with socket.create_server((HOST, 0)) as hung:  # the kernel accepts, no program answers
        url = f"http://{HOST}:{hung.getsockname()[1]}"
        silent = said(capsys, "--url", url, code=3)
    assert f"--url {url} does not answer in time; correct the address" in silent
    assert "expected http://HOST:PORT" in said(capsys, "--url", "nonsense", code=3)
    assert "--token-file" in said(capsys, "--token-file", "/nonexistent", code=3)
