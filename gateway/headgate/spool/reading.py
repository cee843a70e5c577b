"""What lies in a spool, for people and for a start: beside whoever owns it, or instead."""

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headgate.core.spool.chunk import DamagedChunk, Packed, unpack, unpack_topic
from headgate.core.topics.topic import TopicState
from headgate.spool.database import FILE, connect, cost, translated


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
    """A chunk that was set aside, and why."""

    number: int
    topic: str
    partition: int
    events: int
    at_ms: int
    reason: str


class Contents:
    """What lies in a spool's file. Raises JournalError."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @classmethod
    def of(cls, folder: Path) -> "Contents":
        """Of a folder, whoever owns it now."""
        return cls(connect(folder / FILE, is_reader=True))

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
        found: dict[int, LaneFigures] = {}
        with translated(certain=True):
            rows = self._database.execute(
                'SELECT lane, topic, "partition", partitions, count(*), sum(count), '
                "sum(length(events)), min(at_ms), min(number) "
                "FROM chunks JOIN lanes ON lanes.id = lane "
                'GROUP BY lane, partitions ORDER BY topic, "partition"'
            ).fetchall()
        for lane, topic, partition, count, chunks, events, size, oldest, first in rows:
            before = found.get(lane)
            size += cost(0, chunks)
            if before is not None:
                chunks, size = chunks + before.chunks, size + before.bytes
                oldest = min(oldest, before.oldest_ms)
            by_count = {**(before.partitions if before else {}), count: Placed(events, first)}
            total = sum(one.events for one in by_count.values())
            found[lane] = LaneFigures(topic, partition, chunks, total, size, oldest, by_count)
        return list(found.values())

    def topics(self) -> list[TopicState]:
        """What Kafka last said of the topics that spool."""
        with translated(certain=True):
            rows = self._database.execute("SELECT state FROM topics").fetchall()
        found = (unpack_topic(state) for (state,) in rows)
        return [one for one in found if one is not None]

    def aside(self) -> list[Aside]:
        """What was set aside, the oldest first."""
        with translated(certain=True):
            rows = self._database.execute(
                'SELECT number, topic, "partition", count, at_ms, reason FROM aside '
                "JOIN lanes ON lanes.id = lane ORDER BY number"
            )
            return [Aside(*row) for row in rows]

    def events(self, topic: str | None = None) -> Iterator[tuple[str, int, int, Packed | None]]:
        """Topic, partition, when it was spooled (ms), and the event, of all that lies here and
        aside; None for a chunk that is damaged. topic: only its."""
        for table in ("aside", "chunks"):
            after = 0
            while rows := self._some(table, topic, after):
                after = rows[-1][0]
                for _, name, partition, at_ms, checksum, packed in rows:
                    try:
                        unpacked: Sequence[Packed | None] = unpack(packed, checksum)
                    except DamagedChunk:
                        unpacked = (None,)
                    for event in unpacked:
                        yield name, partition, at_ms, event

    def _some(self, table: str, topic: str | None, after: int) -> list[tuple[Any, ...]]:
        """A read that goes on keeps the gateway's WAL from being used again: so, some at a time."""
        with translated(certain=True):
            return self._database.execute(
                f'SELECT number, topic, "partition", at_ms, checksum, events FROM {table} '
                "CROSS JOIN lanes ON lanes.id = lane "  # in this order, or all would be sorted
                "WHERE number > ?2 AND (?1 IS NULL OR topic = ?1) ORDER BY number LIMIT 20",
                (topic, after),
            ).fetchall()
