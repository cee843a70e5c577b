"""The installation log: what happened to this gateway, in memory and, over restarts, in a file.

Nothing here may harm the gateway: a file that cannot be written is said once, and the log goes on
in memory. Writing is done in a thread, for a disk may hang; of its own and a daemon, for a process
waits at its end for those of an executor.
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
_LAST_WRITE_S = 2.0  # at the end; a disk that hangs must not hold it up


class EntryFile(Protocol):
    """Where entries are kept over restarts."""

    def read(self) -> list[LogEntry]:
        """The newest entries, oldest first."""
        ...

    def append(self, entries: Iterable[LogEntry]) -> bool:
        """Write them behind what is there; False: not now."""
        ...


class InstallationLog:
    """file: None = memory alone.

    Call `run` for as long as the gateway lives, and `close` at its end.
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
        """As the settings want it."""
        path = logs.installation_file
        return cls(None if path is None else LogFile(Path(path), logs.installation_max_bytes))

    def note(self, what: Happening) -> None:
        """Something has happened."""
        number = self._entries[-1].number + 1 if self._entries else 1
        entry = entry_of(number, self._clock_ms(), what)
        self._entries.append(entry)
        if self._file is not None:
            self._unwritten.append(entry)
            self._wake.set()

    def recent(self, limit: int = KEPT) -> Sequence[LogEntry]:
        """The newest entries, newest first."""
        newest = list(self._entries)[-limit:] if limit > 0 else []
        return newest[::-1]

    async def run(self) -> None:
        """Write what is noted, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._write()

    async def close(self) -> None:
        """Write the rest, in bounded time."""
        try:
            async with asyncio.timeout(_LAST_WRITE_S):
                await self._write()
        except TimeoutError:
            log.warning("%d entries were not written in time", len(self._unwritten))

    async def _write(self) -> None:
        """Write what is noted by now. A write goes on when nobody waits for it any more, so that
        the next one comes behind it and has none of its entries again."""
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
        """In a thread."""
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
    """JSON lines. At half of max_bytes the file becomes `NAME.1`, in place of the one before.

    For one gateway: nothing is said if two write to one file, and their numbers would mix.
    """

    def __init__(self, path: Path, max_bytes: int) -> None:
        self._path = path
        self._before = path.with_name(path.name + ".1")
        self._half = max_bytes // 2
        self._trouble = ""

    def read(self) -> list[LogEntry]:
        """The newest entries, oldest first. What is no entry, such as a torn line, is left out."""
        found: list[LogEntry] = []
        for path in (self._before, self._path):
            try:
                found += _entries_of(_tail(path, self._half))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._say(error)
        found.sort(key=lambda entry: entry.number)
        return found[-KEPT:]

    def append(self, entries: Iterable[LogEntry]) -> bool:
        """Write them behind what is there; False: not now, and why is in the log."""
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
        """All of the lines, or none: what a full disk took of them is cut off again."""
        self._path.touch(mode=0o600)
        with self._path.open("r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            # whoever wrote before was killed
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
        """Once for each kind of trouble, however long it lasts."""
        trouble = error.strerror or str(error)
        if trouble != self._trouble:
            log.warning(
                "logs.installation_file %s: %s; the installation log is kept in memory",
                self._path, trouble,
            )  # fmt: skip
            self._trouble = trouble


def _tail(path: Path, most: int) -> bytes:
    """The end of a file; who names a wrong one must not fill our memory."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - most))
        return file.read(most)


def _entries_of(data: bytes) -> list[LogEntry]:
    found = []
    for line in data.split(b"\n"):
        try:
            entry = read_entry(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
        if entry is not None:
            found.append(entry)
    return found
