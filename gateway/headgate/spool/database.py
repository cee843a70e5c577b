"""The spool's SQLite file: its tables, how it is opened, and what its errors mean."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

from headgate.spool.upgrade import upgrade

FILE: Final = "spool.db"
_VERSION: Final = 2
_ROW_BYTES: Final = 96  # what a chunk costs beside its events: row, index, page ends
BUSY_S: Final = 5.0  # `headgate spool` reads meanwhile, which holds nobody up for long

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE lanes (id INTEGER PRIMARY KEY, topic TEXT NOT NULL, "partition" INTEGER NOT NULL,
                    UNIQUE (topic, "partition"));
CREATE TABLE chunks (number INTEGER PRIMARY KEY AUTOINCREMENT, lane INTEGER NOT NULL,
                     partitions INTEGER NOT NULL, count INTEGER NOT NULL, at_ms INTEGER NOT NULL,
                     checksum INTEGER NOT NULL, events BLOB NOT NULL);
CREATE INDEX chunks_of_lane ON chunks (lane, number);
CREATE TABLE aside (number INTEGER PRIMARY KEY, lane INTEGER NOT NULL, count INTEGER NOT NULL,
                    at_ms INTEGER NOT NULL, checksum INTEGER NOT NULL, events BLOB NOT NULL,
                    reason TEXT NOT NULL);
CREATE TABLE topics (name TEXT PRIMARY KEY, state BLOB NOT NULL);
"""


class JournalError(Exception):
    """The disk does not take it, or the file cannot be used.

    is_certain: nothing of it is on disk. Where the commit itself failed it may be.
    """

    def __init__(self, detail: str, *, is_certain: bool = True) -> None:
        super().__init__(detail)
        self.is_certain = is_certain


class JournalInUseError(JournalError):
    """Another process has the folder."""


class JournalFullError(JournalError):
    """The disk is full."""


class JournalGoneError(JournalError):
    """Its files were deleted or replaced while they were open."""


class JournalDamagedError(JournalError):
    """The file is none of ours, or SQLite finds it damaged."""


def cost(chunk_bytes: int, chunks: int = 1) -> int:
    """Bytes on disk of so many chunks that have so many together."""
    return chunk_bytes + chunks * _ROW_BYTES


def connect(path: Path, *, is_reader: bool) -> sqlite3.Connection:
    """Open or (unless only to read) make the file. Raises JournalError."""
    mode = "ro" if is_reader else "rwc"
    with translated(certain=True):
        database = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if not is_reader:
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                database.execute("PRAGMA journal_mode = WAL")
                database.execute("PRAGMA synchronous = FULL")
            version = int(database.execute("PRAGMA user_version").fetchone()[0])
            if version == 0 and not is_reader:  # at once: it may be killed
                database.executescript(f"{_SCHEMA} PRAGMA user_version = {_VERSION}; COMMIT")
            elif version == 1 and not is_reader:
                database.execute("BEGIN IMMEDIATE")
                upgrade(database)
                database.execute(f"PRAGMA user_version = {_VERSION}")
                database.execute("COMMIT")
            elif version != _VERSION:
                _refuse(path, version)
        except BaseException:
            database.close()
            raise
    return database


def _refuse(path: Path, version: int) -> NoReturn:
    raise JournalError(
        f"{path}: its version is {version}, and this Headgate's is {_VERSION}: "
        "nothing is taken or published until one that knows it has emptied it"
    )


@contextlib.contextmanager
def translated(*, certain: bool) -> Iterator[None]:
    """Errors of SQLite become ours. certain: nothing of what is done here is on disk then."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error) or type(error).__name__
        extended = getattr(error, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise JournalFullError(text, is_certain=certain) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise JournalDamagedError(text) from error
        raise JournalError(text, is_certain=certain) from error
