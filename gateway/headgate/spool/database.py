"""The spool's SQLite file: its tables, how it is opened, and what its errors mean."""

import contextlib
import functools
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn
from zlib import crc32

import msgspec

from headgate.core.record import Header, Record
from headgate.core.topics.topic import TopicState

# Spooled events as they lie on disk: some of one lane's, in order, packed together.
#
# A chunk is one MessagePack array of records, and a CRC-32 stands beside it: of that, and of what
# the chunk's row says of it, so that nothing is published to another place than it was meant for.
# Events are packed by the chunk because they are written, read and done by the chunk: a row for
# each would cost the journal three times as much.


# key, value, headers, timestamp_ms
Packed = tuple[bytes | None, bytes | None, list[Header], int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_topic: Final = msgspec.msgpack.Decoder(TopicState).decode
_decode: Final = msgspec.msgpack.Decoder(list[Packed]).decode


class DamagedChunk(ValueError):
    """A chunk is not what was written."""


class Label(NamedTuple):
    """What a chunk's row says of it. partitions: the count that its events were placed by; 0 of
    what was set aside.  at_ms: milliseconds since 1970, when they were spooled."""

    topic: str
    partition: int
    partitions: int
    events: int
    at_ms: int

    def checksum(self, packed: bytes) -> int:
        """Of both together."""
        return crc32(packed, crc32(repr(tuple(self)).encode()))


def pack(records: Sequence[Record]) -> bytes:
    """The records of one chunk."""
    return _encode([(one.key, one.value, one.headers, one.timestamp_ms) for one in records])


def unpack(packed: bytes, checksum: int, label: Label) -> list[Packed]:
    """Raises DamagedChunk."""
    if label.checksum(packed) != checksum:
        raise DamagedChunk("its checksum is another")
    try:
        return _decode(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedChunk(str(error)) from error


def pack_topic(state: TopicState) -> bytes:
    """What Kafka said of a topic: a gateway that begins while Kafka is away has to know it."""
    return _encode(state)


def unpack_topic(packed: bytes) -> TopicState | None:
    """None where another version, which knew less or more of topics, has written it; or damage."""
    try:
        return _decode_topic(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return None


# What goes into a journal, and what comes out of it.


class Append(NamedTuple):
    """A chunk to be written. partitions: the count that its events were placed by.

    at_ms: milliseconds since 1970, when they were spooled.
    """

    topic: str
    partition: int
    partitions: int
    at_ms: int
    records: Sequence[Record]


class Stored(NamedTuple):
    """A chunk of so many events as it lies in the journal. packed: None where it is damaged."""

    number: int
    partitions: int
    events: int
    at_ms: int
    packed: list[Packed] | None
    bytes: int


class Overlooked(NamedTuple):
    """A chunk of so many events and bytes that the index does not have."""

    number: int
    partitions: int
    events: int
    bytes: int


class Raw(NamedTuple):
    """A chunk as it lies there. partitions: see `Label`."""

    number: int
    topic: str
    partition: int
    partitions: int
    events: int
    at_ms: int
    checksum: int
    packed: bytes

    def is_whole(self) -> bool:
        """Whether it has its checksum."""
        return self._label.checksum(self.packed) == self.checksum

    def unpacked(self) -> list[Packed] | None:
        """None where it is damaged."""
        try:
            return unpack(self.packed, self.checksum, self._label)
        except DamagedChunk:
            return None

    @property
    def _label(self) -> Label:
        return Label(self.topic, self.partition, self.partitions, self.events, self.at_ms)


# Makes this version's file of an earlier version's.


def upgrade(database: sqlite3.Connection) -> None:
    """From version 1, whose checksums were of a chunk's bytes alone. In a transaction."""
    rows = database.execute(
        'SELECT number, topic, "partition", partitions, count, at_ms, checksum, events '
        "FROM chunks JOIN lanes ON lanes.id = lane"
    )
    for number, *label, checksum, packed in rows:
        if crc32(packed) == checksum:
            found = Label(*label).checksum(packed)
            database.execute("UPDATE chunks SET checksum = ? WHERE number = ?", (found, number))
    rows = database.execute(
        'SELECT number, topic, "partition", count, at_ms, checksum, events '
        "FROM aside JOIN lanes ON lanes.id = lane"
    )
    for number, topic, partition, count, at_ms, checksum, packed in rows:
        if crc32(packed) == checksum:
            found = Label(topic, partition, 0, count, at_ms).checksum(packed)
            database.execute("UPDATE aside SET checksum = ? WHERE number = ?", (found, number))


FILE: Final = "spool.db"
_VERSION: Final = 2
# `application_id`, less the version: a bit changed in either is not taken for another version.
_MARK: Final = 0x48475300  # "HGS"
_MARKS: Final = (
    f"PRAGMA user_version = {_VERSION}",
    f"PRAGMA application_id = {_MARK + _VERSION}",
)
_ROW_BYTES: Final = 96  # what a chunk costs beside its events: row, index, page ends
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NO_TEXT: Final = "Could not decode to UTF-8"  # says Python's module, without a code
BUSY_S: Final = 5.0  # `headgate spool` reads meanwhile, which holds nobody up for long

_SCHEMA = """
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
            _use(database, path, is_reader=is_reader)
        except BaseException:
            database.close()
            raise
    return database


def _use(database: sqlite3.Connection, path: Path, *, is_reader: bool) -> None:
    """Make or upgrade its tables. Raises JournalError: it is of another version, or damaged."""
    [[version]], [[mark]] = (
        database.execute(f"PRAGMA {name}").fetchall() for name in ("user_version", "application_id")
    )
    if not (version or mark or _schema(database)) and not is_reader:
        # At once: it may be killed.
        database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {';'.join(_MARKS)}; COMMIT")
        return
    if mark != _MARK + version and (mark or version not in (1, _VERSION)):  # 1 and 2 had no mark
        raise JournalDamagedError(f"{path}: its version is {version}, and its mark {mark:#x}")
    if version > _VERSION or (version == 1 and is_reader):
        _refuse(path, version)
    if _schema(database) != _expected_schema():
        raise JournalDamagedError(f"{path}: its schema is not what was written")
    if is_reader or mark:
        return
    database.execute("BEGIN IMMEDIATE")
    if version == 1:
        upgrade(database)
    for statement in (*_MARKS, "COMMIT"):
        database.execute(statement)


def look_at_header(path: Path, *, has_log: bool) -> None:
    """Raises JournalDamagedError: a header that SQLite would take for another file, or for one
    without a log. OSError."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        return
    page_bytes = int.from_bytes(head[16:18], "big")
    modes = (2,) if has_log else (1, 2)  # 2 = with a log
    is_ours = (
        len(head) == 100
        and head[:16] == b"SQLite format 3\0"
        and (page_bytes == 1 or (page_bytes >= 512 and page_bytes & (page_bytes - 1) == 0))
        and head[18] in modes
        and head[19] in modes
        and head[20:24] == b"\0\x40\x20\x20"
        and int.from_bytes(head[44:48], "big") in (0, 4)  # schema format
        and int.from_bytes(head[56:60], "big") in (0, 1)  # UTF-8
        and not any(head[72:92])
    )
    if not is_ours:
        raise JournalDamagedError(f"{path}: the header was changed")


def _schema(database: sqlite3.Connection) -> list[tuple[str, str, str, str | None]]:
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


@functools.cache
def _expected_schema() -> list[tuple[str, str, str, str | None]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(_SCHEMA)
        return _schema(database)


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
        if code in _DAMAGED or text.startswith(_NO_TEXT):
            raise JournalDamagedError(text) from error
        raise JournalError(text, is_certain=certain) from error
    except UnicodeDecodeError as error:  # a schema's, in a message about it
        raise JournalDamagedError(f"a text is not UTF-8: {error}") from error
