"""Reads /proc: who is alive, since when, and in whose session (Linux)."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _START_TIME = (
    3,
    11,
    12,
    19,
)  # fields of /proc/PID/stat, counted after the command's name
_POLL_S = 0.02


def boot_id() -> str:
    """Return the text that names this boot of the machine: pids mean nothing after it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone."""
    fields = _stat(pid)
    return int(fields[_START_TIME]) if fields else None


def session_members(session: int) -> list[int]:
    """Return the live processes of a session; its leader may be dead already."""
    pids = (int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit())
    stats = ((pid, _stat(pid)) for pid in pids)
    return [pid for pid, fields in stats if fields and int(fields[_SESSION]) == session]


def session_ticks(session: int) -> int:
    """Return the processor time that the live processes of a session have used, in clock ticks."""
    stats = (_stat(pid) for pid in session_members(session))
    return sum(int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS]) for stat in stats if stat)


def signal_session(session: int, number: signal.Signals) -> None:
    """Send a signal to every member of a session."""
    for pid in session_members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for_session(session: int, deadline_s: float) -> bool:
    """Wait until a session has no live member; tell whether that came about in time."""
    end = time.monotonic() + deadline_s
    while session_members(session):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def kill_session(session: int, deadline_s: float = 5.0) -> None:
    """SIGKILL all of a session, also what its members start meanwhile."""
    end = time.monotonic() + deadline_s
    while session_members(session) and time.monotonic() < end:
        signal_session(session, signal.SIGKILL)
        time.sleep(_POLL_S)


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the command's name; None for a process that is gone or a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields
