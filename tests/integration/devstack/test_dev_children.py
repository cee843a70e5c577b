"""Child processes end with their parent, and the ledger ends what a kill -9 left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from headgate.devstack.child import Child, Ledger, StartError
from support.process.stack import eventually

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
# A leader that starts a member of its session and says its pid.
LEADER = (
    "import subprocess, time; print(subprocess.Popen({sleep}).pid, flush=True); time.sleep(600)"
)


def killed_parent(log: Path) -> int:
    """Start a process that starts a child, kill it, and return the child's pid."""
    script = (
        "import pathlib, time\n"
        "from headgate.devstack.child import Child\n"
        f"print(Child('c', {SLEEP!r}, pathlib.Path({str(log)!r})).pid, flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    return pid


async def test_child_dies_with_a_killed_parent(tmp_path: Path) -> None:
    pid = killed_parent(tmp_path / "log")
    await eventually(lambda: not psutil.pid_exists(pid))


async def test_kill_reaches_other_process_groups_of_the_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    leader = Child("leader", [sys.executable, "-c", LEADER.format(sleep=SLEEP)], log)
    try:
        member = int(await eventually(lambda: log.read_text().strip()))
    finally:
        leader.kill()
    await eventually(lambda: not psutil.pid_exists(member))


async def test_ledger_ends_a_whole_session_whose_leader_is_dead(tmp_path: Path) -> None:
    log = tmp_path / "log"
    leader = Child("leader", [sys.executable, "-c", LEADER.format(sleep=SLEEP)], log)
    try:
        Ledger(tmp_path / "children.json").add("leader", leader.pid, 0.0)
        member = int(await eventually(lambda: log.read_text().strip()))
        leader.signal(signal.SIGKILL)
        await eventually(lambda: leader.exit_code is not None)
        assert psutil.pid_exists(member)
        ended = Ledger(tmp_path / "children.json").end_leftovers()
        assert ended == [f"leader (pid {leader.pid})"]
        await eventually(lambda: not psutil.pid_exists(member))
    finally:
        leader.kill()
    assert Ledger(tmp_path / "children.json").end_leftovers() == []


@pytest.mark.parametrize("changed", ["started", "boot_id"])
def test_ledger_leaves_strangers_alone(tmp_path: Path, changed: str) -> None:
    file = tmp_path / "children.json"
    child = Child("stranger", SLEEP, tmp_path / "log")
    try:
        Ledger(file).add("stranger", child.pid, 0.0)
        stored = json.loads(file.read_text())
        if changed == "boot_id":
            stored["boot_id"] = "another boot"
        else:
            stored["children"][0][2] -= 1
        file.write_text(json.dumps(stored))
        assert Ledger(file).end_leftovers() == []
        assert child.exit_code is None
    finally:
        child.kill()


def test_start_error_shows_the_end_of_this_runs_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a line of an earlier run\n")
    child = Child("teller", ["sh", "-c", "echo the reason; exit 3"], log)
    with pytest.raises(StartError) as failed:
        child.wait_until(lambda: False, 10.0)
    end = f"teller ended (exit code 3, pid {child.pid})"
    assert str(failed.value) == f"{end}\n--- {log}\nthe reason"


def test_long_waits_show_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headgate.devstack.child._STILL_S", 0.05)
    child = Child("sleeper", ["sleep", "60"], tmp_path / "log")
    lines: list[str] = []
    try:
        child.wait_until(lambda: len(lines) >= 2, 30.0, lines.append)
    finally:
        child.kill()
    assert "waiting for sleeper" in lines[0]


def test_stop_ends_a_paused_child_and_what_it_started(tmp_path: Path) -> None:
    child = Child("paused", SLEEP, tmp_path / "log")
    child.signal(signal.SIGSTOP)
    child.stop(10.0)
    assert child.exit_code == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
