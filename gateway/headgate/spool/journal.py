"""The spool's file: SQLite in WAL mode, with one transaction for each group of events.

One thread at a time uses a `Journal`, and one process owns its folder (`lock`). When `commit`
returns, its chunks are on disk: the WAL is synced before (synchronous = FULL). If the process is
killed or the machine loses power, a commit is on disk as a whole or not at all.

Chunks of a lane are read in the order of their numbers. Events that Kafka refuses for good, and
damaged events, are set aside for people (`headgate spool list`).
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from headgate.model.topics import TopicState
from headgate.spool.carve import carve
from headgate.spool.database import (
    BUSY_S,
    FILE,
    Append,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    Raw,
    Stored,
    checksum_of,
    connect,
    cost,
    in_folder,
    pack,
    pack_topic,
    translated,
)
from headgate.spool.folders import JournalFolder
from headgate.spool.reading import CHECK_S, Contents

Execute = Callable[..., sqlite3.Cursor]
Result = TypeVar("Result")

_ADD: Final = (
    "INSERT INTO chunks (number, lane, count, at_ms, checksum, events, partitions) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"  # SQLite assigns the next number if it is null
)
_ADD_ASIDE: Final = (
    "INSERT INTO aside (lane, count, at_ms, checksum, events, reason) VALUES (?, ?, ?, ?, ?, ?)"
)
_PAGES: Final = 2000  # of 4 kB, freed in one step: other calls wait for it


class Journal:
    """The spool's file in its folder, both created if necessary. All methods raise JournalError.

    Attributes:
        is_missing: An earlier file of this folder was gone when this one was created.
    """

    def __init__(self, folder: Path) -> None:
        self._lanes: dict[tuple[str, int], int] = {}
        self.newest = 0  # number of the newest chunk that is certainly on disk
        self._reads = ""  # SQL clause of reads: empty for the index, unless it is damaged
        self._is_in_doubt = False  # a failed commit may be on disk
        with contextlib.ExitStack() as undo, in_folder(folder):
            self._files = JournalFolder(folder)
            undo.callback(self._files.close)
            self.is_missing = self._files.is_missing
            self._database = self._with_room(lambda: connect(folder / FILE, is_reader=False))
            undo.callback(self._database.close)
            self.contents = Contents(self._database)
            self.newest = self.contents.newest()
            self._files.opened()
            undo.pop_all()

    def close(self) -> None:
        """Close the file and unlock the folder."""
        if self._is_in_doubt:
            with contextlib.suppress(JournalError):
                self.commit((), ())
        with self._files.spared():
            self._database.close()
        self._files.close()

    def commit(
        self,
        appends: Sequence[Append],
        done: Sequence[int],
        aside: Sequence[tuple[Append, str]] = (),
    ) -> list[tuple[int, int]]:
        """Write chunks and delete others, in one transaction that is on disk when this returns.

        Args:
            appends: Chunks to write.
            done: Numbers of the chunks to delete.
            aside: Chunks to set aside, each with its reason.

        Returns:
            Number and bytes of each chunk in `appends`.
        """
        if appends:
            self._files.check(certain=True)
            self._files.keep_room()
            return self._commit(appends, done, aside)
        return self._mended(lambda: self._with_room(lambda: self._commit((), done, aside)))

    def _commit(
        self,
        appends: Sequence[Append],
        done: Sequence[int],
        aside: Sequence[tuple[Append, str]],
    ) -> list[tuple[int, int]]:
        written = list[tuple[int, int]]()
        try:
            with self._transaction(certain=not appends) as execute:
                if self._is_in_doubt:  # events answered `unknown` must not be published much later
                    execute("DELETE FROM chunks WHERE number > ?", (self.newest,))
                for append in appends:
                    row, size = self._row(append, append.partitions)
                    number = execute(_ADD, (None, *row, append.partitions)).lastrowid
                    assert number is not None
                    written.append((number, size))
                for append, reason in aside:
                    row, _ = self._row(append, 0)
                    execute(_ADD_ASIDE, (*row, reason))
                for number in done:
                    execute("DELETE FROM chunks WHERE number = ?", (number,))
            if appends:
                self._files.check(certain=False)
        except JournalError as error:
            self._is_in_doubt |= not error.is_certain
            raise
        self._is_in_doubt = False
        self.newest = max([self.newest, *(number for number, _ in written)])
        return written

    def read(
        self,
        topic: str,
        partition: int,
        after: int,
        before: int | None,
        max_events: int,
        max_bytes: int,
    ) -> list[Stored]:
        """Read the next chunks of a lane, at least one.

        Args:
            topic: Topic of the lane.
            partition: Partition of the lane.
            after: Only chunks with a higher number.
            before: Only chunks with a lower number; None for all that are certainly on disk.
            max_events: Most events of the chunks together.
            max_bytes: Most bytes of the chunks together.
        """
        chunks, events, size = list[Stored](), 0, 0
        try:
            with translated(certain=True):
                lane = self._lane(topic, partition)
                rows = self._database.execute(
                    "SELECT number, partitions, at_ms, checksum, count, events "
                    f"FROM chunks {self._reads} "
                    "WHERE lane = ? AND number > ? AND number < ? ORDER BY number LIMIT ?",
                    (lane, after, self.newest + 1 if before is None else before, max_events),
                )
                for number, partitions, at_ms, checksum, count, packed in rows:
                    if number <= (chunks[-1].number if chunks else after):
                        self._distrust_index()  # the order of the index is wrong
                        return self.read(topic, partition, after, before, max_events, max_bytes)
                    events, size = events + count, size + len(packed)
                    if chunks and (events > max_events or size > max_bytes):
                        break
                    if chunks and partitions != chunks[0].partitions:
                        break
                    raw = Raw(number, topic, partition, partitions, count, at_ms, checksum, packed)
                    length = cost(len(packed))
                    chunks.append(Stored(number, partitions, count, at_ms, raw.unpacked(), length))
        except JournalError:
            if not chunks:  # otherwise return the chunks before the fault
                raise
        return chunks

    def overlooked(self, topic: str, partition: int) -> list[Stored]:
        """Return the chunks of a lane in the table, after the index has no more of them.

        If there are any, the index is damaged. The chunks are returned without their events.
        """
        with translated(certain=True):
            rows = self._database.execute(
                "SELECT number, partitions, count, length(events) FROM chunks NOT INDEXED "
                "WHERE lane = ? AND number <= ? ORDER BY number",
                (self._lane(topic, partition), self.newest),
            ).fetchall()
        if rows:
            self._distrust_index()
        return [
            Stored(number, partitions, events, 0, None, cost(size))
            for number, partitions, events, size in rows
        ]

    def count(self) -> int:
        """Count the chunks in the table."""
        with translated(certain=True):
            [[count]] = self._database.execute(
                "SELECT count(*) FROM chunks NOT INDEXED WHERE number <= ?", (self.newest,)
            )
        return int(count)

    @property
    def distrusts_index(self) -> bool:
        """Return whether the index of chunks is damaged."""
        return bool(self._reads)

    def _distrust_index(self) -> None:
        """Read without the index from now on, and rebuild it if the rest of the file is sound.

        SQLite deletes a row only if its index entry is right.
        """
        self._reads = "NOT INDEXED"
        with contextlib.suppress(JournalError):
            if self.contents.check(CHECK_S, is_of_indexes=False):
                with translated(certain=True):
                    self._database.execute("REINDEX chunks_of_lane")

    def set_aside(self, number: int, reason: str) -> None:
        """Set a chunk aside for people: it is not published any more."""
        self._mended(lambda: self._set_aside(number, reason))

    def _set_aside(self, number: int, reason: str) -> None:
        with self._transaction() as execute:
            execute(
                "INSERT INTO aside (lane, count, at_ms, checksum, events, reason) "
                "SELECT lane, count, at_ms, checksum, events, ? FROM chunks WHERE number = ?",
                (reason, number),
            )
            execute("DELETE FROM chunks WHERE number = ?", (number,))

    def adopt(self, chunks: Sequence[Raw], aside: Sequence[tuple[Raw, str]]) -> None:
        """Take over chunks of another file.

        Args:
            chunks: Chunks to publish, which keep their numbers.
            aside: Chunks to set aside, each with its reason.
        """
        with self._transaction() as execute:
            for chunk in chunks:
                execute(_ADD, (chunk.number, *self._adopted(chunk), chunk.partitions))
            for chunk, reason in aside:
                execute(_ADD_ASIDE, (*self._adopted(chunk), reason))
        self.newest = max([self.newest, *(chunk.number for chunk in chunks)])

    def remember(self, topics: Sequence[TopicState]) -> None:
        """Replace the stored states of topics."""
        with self._transaction() as execute:
            execute("DELETE FROM topics")
            for state in topics:
                row = (state.name, pack_topic(state))
                execute("INSERT INTO topics (name, state) VALUES (?, ?)", row)

    def drop(self, topic: str | None, *, aside_only: bool = False) -> int:
        """Delete events for good.

        Args:
            topic: Only events of this topic; None for all.
            aside_only: Delete only events that were set aside.

        Returns:
            The number of deleted events.
        """
        dropped = self._with_room(lambda: self._drop(topic, aside_only))
        while self.shrink():
            continue
        return dropped

    def _drop(self, topic: str | None, aside_only: bool) -> int:
        dropped = 0
        with self._transaction() as execute:
            for table in ("aside",) if aside_only else ("aside", "chunks"):
                which = "lane IN (SELECT id FROM lanes WHERE ?1 IS NULL OR topic = ?1)"
                counted = execute(
                    f"SELECT coalesce(sum(count), 0) FROM {table} WHERE {which}",
                    (topic,),
                )
                dropped += int(counted.fetchone()[0])
                execute(f"DELETE FROM {table} WHERE {which}", (topic,))
        return dropped

    def shrink(self) -> bool:
        """Free some unused pages of the file; return whether there are more.

        It does not wait for readers; the next call frees the rest of the log.
        """
        execute = self._database.execute
        with translated(certain=True):
            # As a script: each page is a row without columns, and a cursor stops at the first row.
            self._database.executescript(f"PRAGMA incremental_vacuum({_PAGES})")
            if execute("PRAGMA freelist_count").fetchone()[0]:
                return True
            execute("PRAGMA busy_timeout = 0")
            try:
                execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                execute(f"PRAGMA busy_timeout = {BUSY_S * 1000:.0f}")
        return False

    def _mended(self, call: Callable[[], Result]) -> Result:
        """Call again without the index if it is damaged: published chunks must be deleted."""
        try:
            return call()
        except JournalDamagedError:
            if self._reads:
                raise
        self._distrust_index()
        return call()

    def _with_room(self, call: Callable[[], Result]) -> Result:
        """Call again with the reserved room if the disk is full: the call frees room."""
        try:
            return call()
        except JournalFullError:
            if not self._files.give_room():
                raise
        return call()

    def _lane(self, topic: str, partition: int) -> int:
        key = (topic, partition)
        lane = self._lanes.get(key)
        if lane is None:
            row = self._database.execute(
                'SELECT id FROM lanes NOT INDEXED WHERE topic = ? AND "partition" = ?', key
            ).fetchone()
            if row is None:
                made = 'INSERT INTO lanes (topic, "partition") VALUES (?, ?) RETURNING id'
                row = self._database.execute(made, key).fetchone()
            lane = self._lanes[key] = int(row[0])
        return lane

    def _row(self, append: Append, partitions: int) -> tuple[tuple[int, int, int, int, bytes], int]:
        """Return the row of a chunk and its bytes on disk.

        Args:
            append: Chunk to write.
            partitions: Partition count of the chunk; 0 if it is set aside.

        Returns:
            Lane, count, time, checksum and events; and the bytes.
        """
        topic, partition, count = append.topic, append.partition, len(append.records)
        events = pack(append.records)
        checksum = checksum_of(events, topic, partition, partitions, count, append.at_ms)
        lane = self._lane(topic, partition)
        return (lane, count, append.at_ms, checksum, events), cost(len(events))

    def _adopted(self, chunk: Raw) -> tuple[int, int, int, int, bytes]:
        lane = self._lane(chunk.topic, chunk.partition)
        return lane, chunk.events, chunk.at_ms, chunk.checksum, chunk.packed

    @contextlib.contextmanager
    def _transaction(self, *, certain: bool = True) -> Iterator[Execute]:
        """Run a transaction, which is on disk at the end, or rolled back.

        Args:
            certain: Nothing is on disk even if the commit fails.
        """
        execute = self._database.execute
        try:
            with translated(certain=True):
                execute("BEGIN IMMEDIATE")
                yield execute
            with translated(certain=certain):
                execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        self._lanes.clear()
        with contextlib.suppress(sqlite3.Error):
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")


# ---- salvage of the readable chunks of a damaged journal


_AT_ONCE: Final = 50  # chunks in one transaction
_DAMAGED: Final = "damaged"
_LOST: Final = "its page on disk is damaged: one event or more, see the folder damaged-*"


class Salvage(NamedTuple):
    """The result of a salvage.

    Attributes:
        events: Number of events that will be published.
        aside: Topic and number of the events that will not be published.
        is_complete: All events of the damaged journal are accounted for.
    """

    events: int
    aside: list[tuple[str, int]]
    is_complete: bool


def salvage(kept: Path, journal: Journal) -> Salvage:
    """Take over the readable chunks of a damaged journal.

    Args:
        kept: Folder of the damaged journal.
        journal: New journal.

    Raises:
        JournalError: The new journal cannot be written, or the old one cannot be opened.
    """
    with in_folder(kept):
        wreck = carve(kept)
    try:
        events, aside = 0, list[tuple[str, int]]()
        good, bad = list[Raw](), list[tuple[Raw, str]]()
        for chunk in wreck.chunks():
            if chunk.unpacked() is None:
                bad.append((chunk, _DAMAGED))
                aside.append((chunk.topic, chunk.events))
            else:
                good.append(chunk)
                events += chunk.events
            if len(good) + len(bad) >= _AT_ONCE:
                journal.adopt(good, bad)
                good, bad = [], []
        journal.adopt(good, bad)
        journal.adopt((), list(wreck.reasons()))
        journal.adopt((), [(Raw(0, *lane, 0, 1, 0, 0, b""), _LOST) for lane in wreck.lost])
        aside += [(chunk.topic, chunk.events) for chunk in wreck.unplaced]
        aside += [(topic, 1) for topic, _ in wreck.lost]
        journal.remember(wreck.topics)
        return Salvage(events, aside, wreck.is_ours and wreck.is_complete)
    finally:
        wreck.close()
