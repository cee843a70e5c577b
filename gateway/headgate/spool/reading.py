"""What lies in a spool, for people and for a start: beside whoever owns it, or instead."""

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headgate.core.spool.chunk import DamagedChunk, Label, Packed, unpack, unpack_topic
from headgate.core.topics.topic import TopicState
from headgate.spool.database import (
    FILE,
    JournalDamagedError,
    JournalError,
    connect,
    cost,
    translated,
)

TABLES: Final = ("aside", "chunks")


class Placed(NamedTuple):
    """What of one lane was placed by one partition count. first: the number of its first chunk."""

    events: int
    first: int


class LaneFigures(NamedTuple):
    """What of one lane lies on disk. bytes: with what the journal itself needs.

    partitions: by the partition count that they were placed by.
    """

    topic: str
    partition: int
    chunks: int
    events: int
    bytes: int
    oldest_ms: int
    partitions: dict[int, Placed]


class Aside(NamedTuple):
    """What of one lane was set aside for one reason. oldest_ms: when the first was spooled."""

    topic: str
    partition: int
    events: int
    oldest_ms: int
    reason: str


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

    def unpacked(self) -> list[Packed] | None:
        """None where it is damaged."""
        label = Label(self.topic, self.partition, self.partitions, self.events, self.at_ms)
        try:
            return unpack(self.packed, self.checksum, label)
        except DamagedChunk:
            return None


class Gap(NamedTuple):
    """Chunks that cannot be read, by number. last: None = to the end."""

    table: str
    first: int
    last: int | None


class Contents:
    """What lies in a spool's file. Raises JournalError.

    gaps: what could not be read of what was read one after the other (`rows`).
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self.gaps: list[Gap] = []

    @classmethod
    def of(cls, folder: Path) -> "Contents":
        """Of a folder, whoever owns it now."""
        try:
            return cls(connect(folder / FILE, is_reader=True))
        except JournalDamagedError:
            raise
        except JournalError as error:
            if os.access(folder, os.W_OK):
                raise
            text = f"{error}: who reads it must be able to write there, so copy the whole folder"
            raise JournalError(text) from error

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def newest(self) -> int:
        """The number of the newest chunk."""
        with translated(certain=True):
            found = self._database.execute("SELECT coalesce(max(number), 0) FROM chunks")
            return int(found.fetchone()[0])

    def lanes(self) -> list[LaneFigures]:
        """What lies here, by topic and partition."""
        with translated(certain=True):
            rows = self._database.execute(
                'SELECT topic, "partition", partitions, count(*), sum(count), '
                "sum(length(events)), min(at_ms), min(number) "
                "FROM chunks JOIN lanes ON lanes.id = lane "
                'GROUP BY lane, partitions ORDER BY topic, "partition"'
            ).fetchall()
        return _figures(rows)

    def readable(self) -> tuple[list[LaneFigures], list[Aside]]:
        """`lanes` and `aside`, of what can be read where the file is damaged (`gaps`)."""
        try:
            return self.lanes(), self.aside()
        except JournalDamagedError:
            lanes = _figures(
                (*one[1:4], 1, one.events, len(one.packed), one.at_ms, one.number)
                for one in self.rows("chunks")
            )
            aside = Counter[tuple[str, int]]()
            for one in self.rows("aside"):
                aside[one.topic, one.partition] += one.events
            return lanes, [Aside(*lane, events, 0, "") for lane, events in aside.items()]

    def topics(self) -> list[TopicState]:
        """What Kafka last said of the topics that spool."""
        with translated(certain=True):
            rows = self._database.execute("SELECT state FROM topics").fetchall()
        found = (unpack_topic(state) for (state,) in rows)
        return [one for one in found if one is not None]

    def aside(self) -> list[Aside]:
        """What was set aside, by lane and reason, the oldest first."""
        with translated(certain=True):
            rows = self._database.execute(
                'SELECT topic, "partition", sum(count), min(at_ms), reason FROM aside '
                "JOIN lanes ON lanes.id = lane GROUP BY lane, reason ORDER BY min(number)"
            )
            return [Aside(*row) for row in rows]

    def events(self, topic: str | None = None) -> Iterator[tuple[str, int, int, Packed | None]]:
        """Topic, partition, when it was spooled (ms), and the event, of all that lies here and
        aside; None for a chunk that is damaged. topic: only its."""
        for table in TABLES:
            for one in self.rows(table, topic):
                unpacked: Sequence[Packed | None] = one.unpacked() or (None,)
                for event in unpacked:
                    yield one.topic, one.partition, one.at_ms, event

    def rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        """The chunks of one of `TABLES`, in order. What SQLite cannot read is left out, and noted
        in `gaps`."""
        after = 0
        while True:
            try:
                rows = self._some(table, topic, after)
            except JournalDamagedError:
                rows = self._next(table, topic, after)
            if not rows:
                return
            yield from rows
            after = rows[-1].number

    def missing(self) -> list[tuple[str, int]]:
        """Topic and partition of each chunk in `gaps`, as far as anything tells of them."""
        found = list[tuple[str, int]]()
        for gap in self.gaps:
            if gap.table == "chunks":
                with contextlib.suppress(JournalDamagedError), translated(certain=True):
                    found += self._database.execute(
                        'SELECT topic, "partition" FROM chunks INDEXED BY chunks_of_lane '
                        "CROSS JOIN lanes ON lanes.id = lane WHERE number BETWEEN ? AND ?",
                        (gap.first, gap.last or 1 << 62),
                    ).fetchall()
        return found

    def _some(self, table: str, topic: str | None, after: int) -> list[Raw]:
        """A read that goes on keeps the gateway's WAL from being used again: so, some at a time."""
        return self._where("number > ?2 ORDER BY number LIMIT 20", table, topic, after)

    def _one(self, table: str, topic: str | None, number: int) -> list[Raw]:
        return self._where("number = ?2", table, topic, number)

    def _where(self, which: str, table: str, topic: str | None, number: int) -> list[Raw]:
        partitions = "partitions" if table == "chunks" else "0"
        with translated(certain=True):
            rows = self._database.execute(
                f'SELECT number, topic, "partition", {partitions}, count, at_ms, checksum, events '
                f"FROM {table} "
                "CROSS JOIN lanes ON lanes.id = lane "  # in this order, or all would be sorted
                f"WHERE (?1 IS NULL OR topic = ?1) AND {which}",
                (topic, number),
            ).fetchall()
        return [Raw(*row) for row in rows]

    def _next(self, table: str, topic: str | None, after: int) -> list[Raw]:
        """The next one that can be read, looked for one by one."""
        last = self._last(table)
        if last is None:
            self._miss(table, after + 1, None)
            return []
        for number in range(after + 1, last + 1):
            try:
                found = self._one(table, topic, number)
            except JournalDamagedError:
                self._miss(table, number, number)
                continue
            if found:
                return found
        return []

    def _last(self, table: str) -> int | None:
        """The number of the last one, by whatever can be read."""
        found = list[int]()
        for query in (
            f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'",
            f"SELECT max(number) FROM {table}",
            f"SELECT max(number) FROM {table} INDEXED BY {table}_of_lane",
        ):
            with contextlib.suppress(JournalError), translated(certain=True):
                found += [row[0] for row in self._database.execute(query) if row[0] is not None]
        return max(found, default=None)

    def _miss(self, table: str, first: int, last: int | None) -> None:
        before = self.gaps[-1] if self.gaps else None
        if before is not None and before.table == table and before.last == first - 1:
            self.gaps[-1] = Gap(table, before.first, last)
        else:
            self.gaps.append(Gap(table, first, last))


def _figures(rows: Iterable[tuple[str, int, int, int, int, int, int, int]]) -> list[LaneFigures]:
    """Of topic, partition, partition count; chunks, events, bytes; oldest, and the first number."""
    found: dict[tuple[str, int], LaneFigures] = {}
    for topic, partition, placed_by, chunks, events, size, oldest, first in rows:
        nothing = LaneFigures(topic, partition, 0, 0, 0, oldest, {})
        before = found.get((topic, partition), nothing)
        some = before.partitions.get(placed_by, Placed(0, first))
        before.partitions[placed_by] = Placed(some.events + events, min(some.first, first))
        found[topic, partition] = before._replace(
            chunks=before.chunks + chunks,
            events=before.events + events,
            bytes=before.bytes + cost(size, chunks),
            oldest_ms=min(before.oldest_ms, oldest),
        )
    return list(found.values())
