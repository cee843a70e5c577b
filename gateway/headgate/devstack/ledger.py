"""What a state folder has running, on disk, so that the next start can end what a kill -9 left."""

import json
import signal
from pathlib import Path
from typing import NamedTuple

from headgate.devstack.processes import (
    boot_id,
    kill_session,
    session_members,
    signal_session,
    start_time,
    wait_for_session,
)


class LedgerEntry(NamedTuple):
    """A child that leads a session of its own; pid and start time (clock ticks) name it."""

    name: str
    pid: int
    started: int
    grace_s: float  # how long it may take after a SIGTERM; 0 = SIGKILL at once


class Ledger:
    """The file `children.json` of a state folder; valid until the machine is booted again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: list[LedgerEntry] = []

    def add(self, name: str, pid: int, grace_s: float) -> None:
        """Write down a child that has just been started."""
        self._entries.append(LedgerEntry(name, pid, start_time(pid) or 0, grace_s))
        self._write()

    def clear(self) -> None:
        """Write down that nothing runs."""
        self._entries.clear()
        self._write()

    def end_leftovers(self) -> list[str]:
        """End what an earlier process wrote down and did not end; return the names."""
        left = [entry for entry in self._read() if _is_alive(entry)]
        for entry in left:
            _end(entry)
        self.clear()
        return [f"{entry.name} (pid {entry.pid})" for entry in left]

    def _read(self) -> list[LedgerEntry]:
        try:
            stored = json.loads(self._file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return []
        if stored["boot_id"] != boot_id():
            return []
        return [LedgerEntry(*entry) for entry in stored["children"]]

    def _write(self) -> None:
        text = json.dumps({"boot_id": boot_id(), "children": self._entries})
        partial = self._file.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self._file)


def _is_alive(entry: LedgerEntry) -> bool:
    # The kernel gives no new process the number of a session that still has members, so a leader
    # with another start time means that the session is gone and the number is someone else's.
    started = start_time(entry.pid)
    is_stranger = started is not None and started != entry.started
    return not is_stranger and bool(session_members(entry.pid))


def _end(entry: LedgerEntry) -> None:
    signal_session(entry.pid, signal.SIGCONT)
    if entry.grace_s:
        signal_session(entry.pid, signal.SIGTERM)
        wait_for_session(entry.pid, entry.grace_s)
    kill_session(entry.pid)
