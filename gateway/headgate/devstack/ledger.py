"""What a state folder has running, on disk, so that the next start can end what a kill -9 left."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_SESSION, _START_TIME = 3, 19  # fields of /proc/PID/stat, counted after the command's name
_POLL_S = 0.05
_KILL_DEADLINE_S = 5.0


class Entry(NamedTuple):
    """A child that leads a session of its own; pid and start time (clock ticks) name it."""

    name: str
    pid: int
    started: int
    grace_s: float  # how long it may take after a SIGTERM; 0 = SIGKILL at once


class Ledger:
    """The file `children.json` of a state folder; valid until the machine is booted again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: list[Entry] = []

    def add(self, name: str, pid: int, grace_s: float) -> None:
        """Write down a child that has just been started."""
        self._entries.append(Entry(name, pid, _start_time(pid) or 0, grace_s))
        self._write()

    def clear(self) -> None:
        """Write down that nothing runs."""
        self._entries.clear()
        self._write()

    def end_leftovers(self) -> list[str]:
        """End what an earlier process wrote down and did not end; return the names."""
        ended = []
        for entry in self._read():
            if list(_members(entry)):
                _end(entry)
                ended.append(f"{entry.name} (pid {entry.pid})")
        self.clear()
        return ended

    def _read(self) -> list[Entry]:
        try:
            stored = json.loads(self._file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return []
        if stored["boot_id"] != _boot_id():
            return []
        return [Entry(*entry) for entry in stored["children"]]

    def _write(self) -> None:
        text = json.dumps({"boot_id": _boot_id(), "children": self._entries})
        partial = self._file.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self._file)


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the command's name, None for a process that is gone or a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] == "Z" else fields


def _start_time(pid: int) -> int | None:
    fields = _stat(pid)
    return int(fields[_START_TIME]) if fields else None


def _members(entry: Entry) -> Iterator[int]:
    """Yield the live processes of the entry's session, its leader perhaps dead already.

    The kernel gives no new process the number of a session that still has members, so a leader
    with another start time means that the session is gone and the number is someone else's.
    """
    started = _start_time(entry.pid)
    if started is not None and started != entry.started:
        return
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            fields = _stat(int(folder.name))
            if fields and int(fields[_SESSION]) == entry.pid:
                yield int(folder.name)


def _end(entry: Entry) -> None:
    _signal_all(entry, signal.SIGCONT)
    if entry.grace_s:
        _signal_all(entry, signal.SIGTERM)
        _wait_until_gone(entry, entry.grace_s)
    _signal_all(entry, signal.SIGKILL)
    _wait_until_gone(entry, _KILL_DEADLINE_S)


def _signal_all(entry: Entry, number: signal.Signals) -> None:
    for pid in _members(entry):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _wait_until_gone(entry: Entry, deadline_s: float) -> None:
    end = time.monotonic() + deadline_s
    while list(_members(entry)) and time.monotonic() < end:
        time.sleep(_POLL_S)
