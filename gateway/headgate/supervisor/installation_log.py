"""The installation log: events of this gateway, in memory and, over restarts, in a file.

The log never harms the gateway. If the file cannot be written, the log warns once and continues in
memory. A thread does the writing, because a disk may hang. It is a daemon of its own, because a
process waits at its end for the threads of an executor.
"""

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import orjson

from headgate.config.settings import LogSettings
from headgate.core.installation import (
    Happening,
    LogEntry,
    as_document,
    entry_of,
    read_entry,
)
from headgate.core.reply import json_text

log = logging.getLogger("headgate.installation_log")

KEPT = 2_000  # entries in memory: 1 MiB, or a year of a quiet installation
_LAST_WRITE_S = 2.0  # time limit of the last write: a disk that hangs must not delay the end


class EntryFile(Protocol):
    """The file that keeps entries over restarts."""

    def read(self) -> list[LogEntry]:
        """Return the newest entries, oldest first."""
        ...

    def append(self, entries: Iterable[LogEntry]) -> bool:
        """Append entries; return whether they were written."""
        ...


class InstallationLog:
    """The entries in memory, and their file.

    Call `run` for as long as the gateway lives, and `close` at its end.

    Args:
        file: File of the entries; None to keep them only in memory.
        clock_ms: Milliseconds since 1970.
    """

    def __init__(
        self,
        file: EntryFile | None,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._file = file
        self._clock_ms = clock_ms
        self._entries = deque(() if file is None else file.read(), maxlen=KEPT)
        self._unwritten: deque[LogEntry] = deque(maxlen=KEPT)
        self._wake = asyncio.Event()
        self._under_way: asyncio.Future[None] | None = None

    @classmethod
    def of(cls, logs: LogSettings) -> "InstallationLog":
        """Return the log that the settings ask for."""
        path = logs.installation_file
        return cls(None if path is None else LogFile(Path(path), logs.installation_max_bytes))

    def note(self, what: Happening) -> None:
        """Add an entry."""
        number = self._entries[-1].number + 1 if self._entries else 1
        entry = entry_of(number, self._clock_ms(), what)
        self._entries.append(entry)
        if self._file is not None:
            self._unwritten.append(entry)
            self._wake.set()

    def recent(self, limit: int = KEPT) -> Sequence[LogEntry]:
        """Return the newest entries, newest first."""
        newest = list(self._entries)[-limit:] if limit > 0 else []
        return newest[::-1]

    async def run(self) -> None:
        """Write new entries until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._write()

    async def close(self) -> None:
        """Write the remaining entries, in bounded time."""
        try:
            async with asyncio.timeout(_LAST_WRITE_S):
                await self._write()
        except TimeoutError:
            log.warning("%d entries were not written in time", len(self._unwritten))

    async def _write(self) -> None:
        """Write the entries noted so far.

        A write continues if its caller is cancelled, so that the next one follows it and repeats
        none of its entries.
        """
        while self._under_way is not None:
            await asyncio.shield(self._under_way)
        if self._file is None or not self._unwritten:
            return
        entries = list(self._unwritten)
        self._under_way = done = asyncio.get_running_loop().create_future()
        append = partial(self._append, self._file, entries, done)
        threading.Thread(target=append, name="installation log", daemon=True).start()
        await asyncio.shield(done)

    def _append(
        self, file: EntryFile, entries: Sequence[LogEntry], done: "asyncio.Future[None]"
    ) -> None:
        """Write the entries, in a thread, and report to the event loop."""
        is_written = False
        try:
            is_written = file.append(entries)
        finally:
            last = entries[-1].number if is_written else 0
            with suppress(RuntimeError):  # the loop has ended: the disk took too long
                done.get_loop().call_soon_threadsafe(self._appended, last, done)

    def _appended(self, last: int, done: "asyncio.Future[None]") -> None:
        while self._unwritten and self._unwritten[0].number <= last:
            self._unwritten.popleft()
        self._under_way = None
        done.set_result(None)


class LogFile:
    """A file of JSON lines. At half of `max_bytes` it is renamed to `NAME.1`, which is replaced.

    The file is for one gateway: two writers are not detected, and their numbers would mix.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._before = path.with_name(path.name + ".1")
        self._half = max_bytes // 2
        self._trouble = ""

    def read(self) -> list[LogEntry]:
        """Return the newest entries, oldest first; lines that are no entry are skipped."""
        entries: list[LogEntry] = []
        for path in (self._before, self._path):
            try:
                entries += _entries_of(_tail(path, self._half))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._say(error)
        entries.sort(key=lambda entry: entry.number)
        return entries[-KEPT:]

    def append(self, entries: Iterable[LogEntry]) -> bool:
        """Append entries; return whether they were written. The log has the reason of a failure."""
        lines = "".join(f"{json_text(as_document(entry))}\n" for entry in entries).encode()
        try:
            self._rotate(len(lines))
            self._append(lines)
        except OSError as error:
            self._say(error)
            return False
        if self._trouble:
            log.warning("%s is writable again", self._path)
            self._trouble = ""
        return True

    def _rotate(self, more: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size and size + more > self._half:
            self._path.replace(self._before)

    def _append(self, lines: bytes) -> None:
        """Append all of the lines or none: after a failed write the file is truncated again."""
        self._path.touch(mode=0o600)
        with self._path.open("r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            # the previous writer was killed
            if end and os.pread(file.fileno(), 1, end - 1) != b"\n":
                lines = b"\n" + lines
            try:
                written = 0
                while written < len(lines):
                    written += file.write(lines[written:]) or 0
            except OSError:
                with suppress(OSError):
                    file.truncate(end)
                raise

    def _say(self, error: OSError) -> None:
        """Log a write error, once for each kind however long it lasts."""
        trouble = error.strerror or str(error)
        if trouble != self._trouble:
            log.warning(
                "logs.installation_file %s: %s; the installation log is kept in memory",
                self._path, trouble,
            )  # fmt: skip
            self._trouble = trouble


def _tail(path: Path, most: int) -> bytes:
    """Return the end of a file, bounded so that a wrong path cannot fill the memory."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - most))
        return file.read(most)


def _entries_of(data: bytes) -> list[LogEntry]:
    entries = []
    for line in data.split(b"\n"):
        try:
            entry = read_entry(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
        if entry is not None:
            entries.append(entry)
    return entries
