"""The spool's SQLite file: its tables, its chunks and its errors."""

import contextlib
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn
from zlib import crc32

import msgspec

from headgate.model.publish import Record
from headgate.model.record import Header
from headgate.model.topics import TopicState

# Functions that use sqlite3 import it themselves: processes without a spool save its 1 MiB.
if TYPE_CHECKING:
    import sqlite3

# ---- chunks of spooled events: some events of one lane, in order, packed together
#
# A chunk is one MessagePack array of records. Its CRC-32 covers the array and the columns of the
# row, so that no event is published to a wrong partition. Events are written, read and deleted by
# the chunk: a row for each event would cost the journal three times as much.


# key, value, headers, timestamp_ms
Packed = tuple[bytes | None, bytes | None, list[Header], int]

_encode: Final = msgspec.msgpack.Encoder().encode
_decode_topic: Final = msgspec.msgpack.Decoder(TopicState).decode
_decode: Final = msgspec.msgpack.Decoder(list[Packed]).decode


def checksum_of(
    packed: bytes, topic: str, partition: int, partitions: int, events: int, at_ms: int
) -> int:
    """Return the checksum of packed events and the other columns of their row together.

    Args:
        packed: Packed events.
        topic: Topic of the lane.
        partition: Partition of the lane.
        partitions: Partition count that the events were placed by; 0 if they were set aside.
        events: Number of events.
        at_ms: Time of spooling, in milliseconds since 1970.
    """
    return crc32(packed, crc32(repr((topic, partition, partitions, events, at_ms)).encode()))


def pack(records: Sequence[Record]) -> bytes:
    """Pack the records of one chunk."""
    return _encode(
        [(record.key, record.value, record.headers, record.timestamp_ms) for record in records]
    )


def pack_topic(state: TopicState) -> bytes:
    """Pack the state of a topic, for a gateway that starts while Kafka is away."""
    return _encode(state)


def unpack_topic(packed: bytes) -> TopicState | None:
    """Unpack the state of a topic; return None if it is damaged or another version's."""
    try:
        return _decode_topic(packed)
    except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
        return None


# ---- rows of a journal: chunks to write, and chunks that were read


class Append(NamedTuple):
    """A chunk to be written.

    Attributes:
        partitions: Partition count that the events were placed by.
        at_ms: Time of spooling, in milliseconds since 1970.
    """

    topic: str
    partition: int
    partitions: int
    at_ms: int
    records: Sequence[Record]


class Stored(NamedTuple):
    """A chunk in the journal.

    Attributes:
        partitions: Partition count that placed its events.
        events: Number of its events.
        at_ms: Time of the write, in milliseconds since 1970.
        packed: Its events; None if the chunk is damaged.
        bytes: Bytes on disk.
    """

    number: int
    partitions: int
    events: int
    at_ms: int
    packed: list[Packed] | None
    bytes: int


class Raw(NamedTuple):
    """A row of a chunk as stored; the fields are those of `checksum_of`.

    Attributes:
        events: Number of the events in `packed`.
    """

    number: int
    topic: str
    partition: int
    partitions: int
    events: int
    at_ms: int
    checksum: int
    packed: bytes

    def is_whole(self) -> bool:
        """Return whether the checksum matches."""
        checksum = checksum_of(
            self.packed, self.topic, self.partition, self.partitions, self.events, self.at_ms
        )
        return checksum == self.checksum

    def unpacked(self) -> list[Packed] | None:
        """Return the events; None if the chunk is damaged."""
        if not self.is_whole():
            return None
        try:
            return _decode(self.packed)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None


# ---- upgrades of files of earlier versions


def upgrade(database: "sqlite3.Connection") -> None:
    """Upgrade from version 1, whose checksums covered only a chunk's bytes. In a transaction."""
    rows = database.execute(
        'SELECT number, topic, "partition", partitions, count, at_ms, checksum, events '
        "FROM chunks JOIN lanes ON lanes.id = lane"
    )
    for number, *columns, checksum, packed in rows:
        if crc32(packed) == checksum:
            fresh = checksum_of(packed, *columns)
            database.execute("UPDATE chunks SET checksum = ? WHERE number = ?", (fresh, number))
    rows = database.execute(
        'SELECT number, topic, "partition", count, at_ms, checksum, events '
        "FROM aside JOIN lanes ON lanes.id = lane"
    )
    for number, topic, partition, count, at_ms, checksum, packed in rows:
        if crc32(packed) == checksum:
            fresh = checksum_of(packed, topic, partition, 0, count, at_ms)
            database.execute("UPDATE aside SET checksum = ? WHERE number = ?", (fresh, number))


FILE: Final = "spool.db"
_VERSION: Final = 2
# `application_id` minus the version: a flipped bit in either does not look like another version.
_MARK: Final = 0x48475300  # "HGS"
_MARKS: Final = (
    f"PRAGMA user_version = {_VERSION}",
    f"PRAGMA application_id = {_MARK + _VERSION}",
)
_ROW_BYTES: Final = 96  # cost of a chunk besides its events: row, index, page ends
_NO_TEXT: Final = "Could not decode to UTF-8"  # an error of Python's module without a code
BUSY_S: Final = 5.0  # a concurrent read of `headgate spool` is short

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
    """A failure of the disk, or a file that cannot be used.

    Args:
        detail: Description of the failure.
        is_certain: Nothing of the transaction is on disk. After a failed commit it may be.
    """

    def __init__(self, detail: str, *, is_certain: bool = True) -> None:
        super().__init__(detail)
        self.is_certain = is_certain


class JournalInUseError(JournalError):
    """A folder that another process uses."""


class JournalFullError(JournalError):
    """A full disk."""


class JournalGoneError(JournalError):
    """Files that were deleted or replaced while they were open."""


class JournalDamagedError(JournalError):
    """A damaged file, or a file of another program."""


def cost(chunk_bytes: int, chunks: int = 1) -> int:
    """Return the bytes on disk of chunks.

    Args:
        chunk_bytes: Bytes of their events together.
        chunks: Number of chunks.
    """
    return chunk_bytes + chunks * _ROW_BYTES


def connect(path: Path, *, is_reader: bool) -> "sqlite3.Connection":
    """Open the file, and create it if necessary.

    Args:
        path: Path of the file.
        is_reader: Open it only for reading, without creating it.

    Raises:
        JournalError: The file cannot be used.
    """
    import sqlite3

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


def _use(database: "sqlite3.Connection", path: Path, *, is_reader: bool) -> None:
    """Create or upgrade the tables, or check them.

    Raises:
        JournalError: The file is damaged, or another version's.
    """
    [[version]], [[mark]] = (
        database.execute(f"PRAGMA {name}").fetchall() for name in ("user_version", "application_id")
    )
    if not (version or mark or _schema(database)) and not is_reader:
        # In one transaction: the process may be killed.
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
    """Check the file's header for damage that SQLite would misread.

    Args:
        path: Path of the file.
        has_log: The file has a log that is not empty.

    Raises:
        JournalDamagedError: SQLite would take the file for another one, or for one without a log.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(100)
    if not head:
        return
    page_bytes = int.from_bytes(head[16:18], "big")
    modes = (2,) if has_log else (1, 2)  # 2 = write-ahead log
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


def _schema(database: "sqlite3.Connection") -> list[tuple[str, str, str, str | None]]:
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()


@functools.cache
def _expected_schema() -> list[tuple[str, str, str, str | None]]:
    import sqlite3

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
    """Translate errors of SQLite to JournalError.

    Args:
        certain: After an error nothing of the block is on disk.
    """
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        text = str(error) or type(error).__name__
        extended = getattr(error, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if code == sqlite3.SQLITE_FULL or extended == sqlite3.SQLITE_IOERR_SHMSIZE:
            raise JournalFullError(text, is_certain=certain) from error
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or text.startswith(_NO_TEXT):
            raise JournalDamagedError(text) from error
        raise JournalError(text, is_certain=certain) from error
    except UnicodeDecodeError as error:  # from a damaged schema in an error message
        raise JournalDamagedError(f"a text is not UTF-8: {error}") from error


@contextlib.contextmanager
def in_folder(folder: Path) -> Iterator[None]:
    """Translate errors of the operating system to JournalError."""
    try:
        yield
    except OSError as error:
        raise JournalError(f"{folder}: {error.strerror or error}") from error
