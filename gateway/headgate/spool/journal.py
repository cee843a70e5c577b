"""The spool's file: SQLite in WAL mode, one transaction for all that came together.

One thread at a time uses a `Journal`, and one process owns its folder (`lock`). What a `commit`
returned is on disk: the WAL is synced before (synchronous = FULL). A process that is killed, or a
machine that loses power, at any moment leaves all of a commit or nothing.

Chunks of a lane are read in the order of their numbers. What cannot be published, because Kafka
refuses it for good or because it is damaged, is set aside for people (`headgate spool list`).
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from headgate.core.topics.topic import TopicState
from headgate.spool.carve import Wreck
from headgate.spool.database import (
    BUSY_S,
    FILE,
    Append,
    DamagedChunk,
    JournalDamagedError,
    JournalError,
    JournalFullError,
    Label,
    Overlooked,
    Raw,
    Stored,
    connect,
    cost,
    pack,
    pack_topic,
    translated,
    unpack,
)
from headgate.spool.folders import Place
from headgate.spool.reading import CHECK_S, Contents

Execute = Callable[..., sqlite3.Cursor]
Result = TypeVar("Result")

_ADD: Final = (
    "INSERT INTO chunks (number, lane, count, at_ms, checksum, events, partitions) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"  # a number that is null is the next one
)
_ADD_ASIDE: Final = (
    "INSERT INTO aside (lane, count, at_ms, checksum, events, reason) VALUES (?, ?, ?, ?, ?, ?)"
)
_PAGES: Final = 2000  # of 4 kB, that are given back at a time: others wait for that


class Journal:
    """See the module. folder: made if need be. Raises JournalError, from `__init__` on."""

    def __init__(self, folder: Path) -> None:
        self._lanes: dict[tuple[str, int], int] = {}
        self.newest = 0  # number of the newest chunk that is known to be on disk
        self._reads = ""  # how chunks are looked up: by the index, unless it is found damaged
        self._is_in_doubt = False  # whether a commit failed that may be on disk
        try:
            self._place = Place(folder)
        except OSError as error:
            raise JournalError(f"{folder}: {error.strerror or error}") from error
        try:
            self._database = self._with_room(lambda: connect(folder / FILE, is_reader=False))
            try:
                self.contents = Contents(self._database)
                self.newest = self.contents.newest()
                self._place.opened()
            except BaseException:
                self._database.close()
                raise
        except OSError as error:
            self._place.close()
            raise JournalError(f"{folder}: {error.strerror or error}") from error
        except BaseException:
            self._place.close()
            raise

    @property
    def is_missing(self) -> bool:
        """Whether a file was here once, and had gone when this one was made."""
        return self._place.is_missing

    def close(self) -> None:
        """Give the folder back."""
        if self._is_in_doubt:
            with contextlib.suppress(JournalError):
                self.commit((), ())
        with self._place.spared():
            self._database.close()
        self._place.close()

    def commit(
        self,
        appends: Sequence[Append],
        done: Sequence[int],
        aside: Sequence[tuple[Append, str]] = (),
    ) -> list[tuple[int, int]]:
        """Write chunks and forget others, in one transaction that is on disk when this returns.

        aside: written where nobody publishes them, each with the reason.
        Returns number and bytes of each chunk that was written.
        """
        if appends:
            self._place.check(certain=True)
            self._place.keep_room()
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
                if self._is_in_doubt:  # what was answered `unknown` must not come much later
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
                self._place.check(certain=False)
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
        """The next chunks of a lane, until they have so many events or bytes; at least one.

        after, before: only those with a number between.
        """
        found, events, size = list[Stored](), 0, 0
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
                    if number <= (found[-1].number if found else after):
                        self._distrust_index()  # it does not know what comes next
                        return self.read(topic, partition, after, before, max_events, max_bytes)
                    events, size = events + count, size + len(packed)
                    if found and (events > max_events or size > max_bytes):
                        break
                    if found and partitions != found[0].partitions:
                        break
                    label = Label(topic, partition, partitions, count, at_ms)
                    try:
                        unpacked = unpack(packed, checksum, label)
                    except DamagedChunk:
                        unpacked = None
                    length = cost(len(packed))
                    found.append(Stored(number, partitions, count, at_ms, unpacked, length))
        except JournalError:
            if not found:  # else what came before the fault goes first
                raise
        return found

    def overlooked(self, topic: str, partition: int) -> list[Overlooked]:
        """The chunks of a lane by the table, where the index has no more. If there are any, the
        index is damaged."""
        with translated(certain=True):
            rows = self._database.execute(
                "SELECT number, partitions, count, length(events) FROM chunks NOT INDEXED "
                "WHERE lane = ? AND number <= ? ORDER BY number",
                (self._lane(topic, partition), self.newest),
            ).fetchall()
        if rows:
            self._distrust_index()
        return [
            Overlooked(number, partitions, events, cost(size))
            for number, partitions, events, size in rows
        ]

    def count(self) -> int:
        """How many chunks lie here, by the table."""
        with translated(certain=True):
            [[count]] = self._database.execute(
                "SELECT count(*) FROM chunks NOT INDEXED WHERE number <= ?", (self.newest,)
            )
        return int(count)

    @property
    def distrusts_index(self) -> bool:
        """Whether the index of chunks was found damaged."""
        return bool(self._reads)

    def _distrust_index(self) -> None:
        """Read by the table from now on. Rows can only be deleted if their entries are right, so
        the index is made again, if nothing else is wrong with the file."""
        self._reads = "NOT INDEXED"
        with contextlib.suppress(JournalError):
            if self.contents.check(CHECK_S, is_of_indexes=False):
                with translated(certain=True):
                    self._database.execute("REINDEX chunks_of_lane")

    def set_aside(self, number: int, reason: str) -> None:
        """Keep a chunk for people: nobody publishes it any more."""
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
        """Take over chunks of another file, with their numbers; and others aside, each with why."""
        with self._transaction() as execute:
            for one in chunks:
                execute(_ADD, (one.number, *self._adopted(one), one.partitions))
            for one, reason in aside:
                execute(_ADD_ASIDE, (*self._adopted(one), reason))
        self.newest = max([self.newest, *(one.number for one in chunks)])

    def remember(self, topics: Sequence[TopicState]) -> None:
        """What Kafka said of these topics; what was remembered before is forgotten."""
        with self._transaction() as execute:
            execute("DELETE FROM topics")
            for one in topics:
                row = (one.name, pack_topic(one))
                execute("INSERT INTO topics (name, state) VALUES (?, ?)", row)

    def drop(self, topic: str | None, *, aside_only: bool = False) -> int:
        """Delete what lies here (and aside) for good; returns how many events that were."""
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
        """Give the disk back some of what is not needed any more; whether there is more.

        It waits for nobody who reads: then it is the next one's to do."""
        execute = self._database.execute
        with translated(certain=True):
            # As a script: each page is a row without columns, and a cursor ends at the first.
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
        """What was published must be forgotten though the index is damaged."""
        try:
            return call()
        except JournalDamagedError:
            if self._reads:
                raise
        self._distrust_index()
        return call()

    def _with_room(self, call: Callable[[], Result]) -> Result:
        """What makes room must go though the disk is full."""
        try:
            return call()
        except JournalFullError:
            if not self._place.give_room():
                raise
        return call()

    def _lane(self, topic: str, partition: int) -> int:
        place = (topic, partition)
        known = self._lanes.get(place)
        if known is None:
            found = self._database.execute(
                'SELECT id FROM lanes NOT INDEXED WHERE topic = ? AND "partition" = ?', place
            ).fetchone()
            if found is None:
                made = 'INSERT INTO lanes (topic, "partition") VALUES (?, ?) RETURNING id'
                found = self._database.execute(made, place).fetchone()
            known = self._lanes[place] = int(found[0])
        return known

    def _row(self, append: Append, partitions: int) -> tuple[tuple[int, int, int, int, bytes], int]:
        """Lane, count, time, checksum, events; and the bytes that it costs."""
        topic, partition, count = append.topic, append.partition, len(append.records)
        events = pack(append.records)
        checksum = Label(topic, partition, partitions, count, append.at_ms).checksum(events)
        lane = self._lane(topic, partition)
        return (lane, count, append.at_ms, checksum, events), cost(len(events))

    def _adopted(self, one: Raw) -> tuple[int, int, int, int, bytes]:
        lane = self._lane(one.topic, one.partition)
        return lane, one.events, one.at_ms, one.checksum, one.packed

    @contextlib.contextmanager
    def _transaction(self, *, certain: bool = True) -> Iterator[Execute]:
        """All of it is on disk when this ends, or nothing. certain: also if its commit fails."""
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


# Takes over what can be read of a damaged journal.


_AT_ONCE: Final = 50  # chunks of a transaction
_DAMAGED: Final = "damaged"
_LOST: Final = "its page on disk is damaged: one event or more, see the folder damaged-*"


class Salvage(NamedTuple):
    """events: those that are published.  aside: topics and events of what is not.
    is_complete: all that lay there is known."""

    events: int
    aside: list[tuple[str, int]]
    is_complete: bool


def salvage(kept: Path, journal: Journal) -> Salvage:
    """Take over what can be read in a folder. Raises JournalError: the new journal cannot be
    written, or the old one cannot be opened."""
    try:
        wreck = Wreck(kept)
    except OSError as error:
        raise JournalError(f"{kept}: {error.strerror or error}") from error
    try:
        events, aside = 0, list[tuple[str, int]]()
        good, bad = list[Raw](), list[tuple[Raw, str]]()
        for one in wreck.chunks():
            if one.unpacked() is None:
                bad.append((one, _DAMAGED))
                aside.append((one.topic, one.events))
            else:
                good.append(one)
                events += one.events
            if len(good) + len(bad) >= _AT_ONCE:
                journal.adopt(good, bad)
                good, bad = [], []
        journal.adopt(good, bad)
        journal.adopt((), list(wreck.reasons()))
        journal.adopt((), [(Raw(0, *lane, 0, 1, 0, 0, b""), _LOST) for lane in wreck.lost])
        aside += [(one.topic, one.events) for one in wreck.unplaced]
        aside += [(topic, 1) for topic, _ in wreck.lost]
        journal.remember(wreck.topics)
        return Salvage(events, aside, wreck.is_ours and wreck.is_complete)
    finally:
        wreck.close()
