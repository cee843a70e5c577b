"""`headgate groups`, `pause`, `resume` and `log`, against the real management pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from headgate.cli import main
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason
from headgate.supervisor.installation_log import InstallationLog
from support.gateway.admin_world import KeptInMemory, admin_of
from support.terminal import management
from support.terminal.management import Management, group


@pytest.fixture
def log() -> InstallationLog:
    return InstallationLog(None)


@pytest.fixture
def port(log: InstallationLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Management]:
    with_parts = partial(admin_of, store=KeptInMemory(), log=log)  # type: ignore[arg-type]
    monkeypatch.setattr(management, "admin_of", with_parts)
    with Management() as running:
        monkeypatch.setenv("HEADGATE_URL", running.url)
        yield running


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    output = capsys.readouterr()
    return output.out if code == 0 else output.err


def test_groups_are_shown_the_worst_first(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.groups = [group("billing", "STOP", 2304), group("search")]
    table = said(capsys, "groups", "--table")
    assert [line.split()[:4] for line in table.splitlines()] == [
        ["STATE", "GROUP", "CLUSTER", "LAG"],
        ["STOP", "billing", "main", "2,304"],
        ["OK", "search", "main", "0"],
    ]
    page: dict[str, Any] = json.loads(said(capsys, "groups", "--json"))
    assert [row["group"] for row in page["groups"]] == ["billing", "search"]


def test_a_group_is_paused_and_resumed(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.groups = [group("billing")]
    reason = ("billing", "--reason", "deploy")
    page = json.loads(said(capsys, "pause", *reason))
    assert [(row["scope"], row["reason"]) for row in page["intents"]] == [("all", "deploy")]
    part = ("--topic", "orders", "--partition", "3")
    table = said(capsys, "pause", *reason, *part, "--table")
    assert [line.split()[:2] for line in table.splitlines()[1:]] == [
        ["all", "deploy"],
        ["orders-3", "deploy"],
    ]
    assert len(json.loads(said(capsys, "resume", *reason))["intents"]) == 1
    assert json.loads(said(capsys, "resume", *reason, *part))["intents"] == []
    assert "is not paused" in said(capsys, "resume", *reason, code=1)
    assert "--topic" in said(capsys, "pause", *reason, "--partition", "3", code=2)


def test_a_group_begins_with_its_diagnosis(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = {"sentence": "Partition 7 stands.", "causes": ["a", "b"], "next": ["c"]}
    details = {"diagnosis": diagnosis, "partitions": [], "hints": ["d"], "pauses": []}
    port.instance.groups = [group("billing", "STOP", paused=True, **details), group("old")]
    assert said(capsys, "groups", "billing", "--table").splitlines()[:4] == [
        "diagnosis  Partition 7 stands.", "cause  a", "cause  b", "next  c",
    ]  # fmt: skip
    assert "paused" in said(capsys, "groups", "--table").splitlines()[1]


def test_a_pause_that_members_do_not_obey_is_reported(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.groups = [group("billing", deaf_members=2), group("ours", deaf_members=0)]
    for name, warning in (
        ("billing", "headgate: 2 of 3 members will go on reading: "),
        ("ours", ""),
    ):
        assert main(["pause", name, "--reason", "deploy"]) == 0
        output = capsys.readouterr()
        assert len(json.loads(output.out)["intents"]) == 1
        assert output.err.startswith(warning)
        assert bool(output.err) == bool(warning)


def test_an_unknown_group_is_paused_only_by_force(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.groups = [group("billing")]
    reason = ("biling", "--reason", "deploy")
    shown = said(capsys, "pause", *reason, code=1)
    assert 'no consumer group "biling" is known to the monitor. Did you mean "billing"?' in shown
    assert "--force" in shown
    assert "is not paused" in said(capsys, "resume", *reason, code=1)
    assert len(json.loads(said(capsys, "pause", *reason, "--force"))["intents"]) == 1


def test_without_a_monitor_every_group_is_paused(
    port: Management, capsys: pytest.CaptureFixture[str]
) -> None:
    port.instance.failure = Failure(Reason.MONITOR_UNAVAILABLE, "no monitor answers")
    page = json.loads(said(capsys, "pause", "anything", "--reason", "deploy"))
    assert len(page["intents"]) == 1


def test_the_log_is_shown_by_kind(
    port: Management, log: InstallationLog, capsys: pytest.CaptureFixture[str]
) -> None:
    log.note(NewEntry(Kind.STARTED, "gateway", "with 2 workers"))
    log.note(NewEntry(Kind.OUTAGE_BEGAN, "redis", "no connection"))
    table = said(capsys, "log", "--table")
    assert [line.split()[1:4] for line in table.splitlines()] == [
        ["LEVEL", "KIND", "SUBJECT"],
        ["warning", "outage_began", "redis"],
        ["info", "started", "gateway"],
    ]
    entries = json.loads(said(capsys, "log", "--kind", "started", "--limit", "5"))["entries"]
    assert [entry["text"] for entry in entries] == ["with 2 workers"]
    assert "kind" in said(capsys, "log", "--kind", "nothing", code=1)
