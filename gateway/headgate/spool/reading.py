"""What lies in a spool, for people and for a start: beside whoever owns it, or instead."""

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headgate.core.topics.topic import TopicState
from headgate.spool.carve import Wreck, look_at_log
from headgate.spool.database import (
    FILE,
    JournalDamagedError,
    JournalError,
    Packed,
    Raw,
    connect,
    cost,
    look_at_header,
    translated,
    unpack_topic,
)

TABLES: Final = ("aside", "chunks")
CHECK_S: Final = 1.0  # that a start gives SQLite to check the file
_PRIME: Final = 2_147_483_647  # sums of numbers are compared by their rest, which never overflows
_LANES_INDEX: Final = "sqlite_autoindex_lanes_1"
_IS_SANE: Final = (
    "typeof(lane) || typeof({partitions}) || typeof(count) || typeof(at_ms) || typeof(checksum) = "
    "'integerintegerintegerintegerinteger' AND typeof(events) = 'blob' "
    "AND count BETWEEN 1 AND 1000000 AND at_ms >= 0"
)


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


class Gap(NamedTuple):
    """Chunks that cannot be read, by number. last: None = to the end."""

    table: str
    first: int
    last: int | None


class Contents:
    """What lies in a spool's file. Raises JournalError."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def newest(self) -> int:
        """The number of the newest chunk."""
        with translated(certain=True):
            found = self._database.execute("SELECT coalesce(max(number), 0) FROM chunks")
            return int(found.fetchone()[0])

    def lanes(self) -> list[LaneFigures]:
        """What lies here, by topic and partition. The table of chunks alone is asked.

        Raises JournalDamagedError: it has something impossible.
        """
        return self._scan()[0]

    def verified(self) -> list[LaneFigures]:
        """The same, once the indexes were compared with their tables, which SQLite does not do when
        it reads. Raises JournalDamagedError."""
        figures, by_table = self._scan()
        with translated(certain=True):
            by_index = self._database.execute(
                f"SELECT lane, count(*), sum(number % {_PRIME}) % {_PRIME} "
                "FROM chunks INDEXED BY chunks_of_lane GROUP BY lane"
            )
            if {lane: tuple(sums) for lane, *sums in by_index} != by_table:
                raise JournalDamagedError("the index of chunks and their table differ")
            lanes, indexed = (
                self._database.execute(f'SELECT id, topic, "partition" FROM lanes {how}').fetchall()
                for how in ("NOT INDEXED", f"INDEXED BY {_LANES_INDEX}")
            )
            if set(lanes) != set(indexed) or len(lanes) != len(indexed):
                raise JournalDamagedError("the index of lanes and their table differ")
            is_sane = _IS_SANE.format(partitions="1")
            [[damaged]] = self._database.execute(
                f"SELECT count(*) FROM aside WHERE NOT ({is_sane} AND typeof(reason) = 'text' "
                "AND lane IN (SELECT id FROM lanes NOT INDEXED))"
            )
            if damaged:
                raise JournalDamagedError("what was set aside has impossible columns")
        return figures

    def check(self, limit_s: float | None = None, *, is_of_indexes: bool = True) -> bool:
        """Have SQLite check the file, for so long at most.

        is_of_indexes: with what the indexes have, and not the structure alone.
        Returns whether it came to its end. Raises JournalDamagedError.
        """
        if limit_s == 0.0:
            return False
        check = "integrity_check" if is_of_indexes else "quick_check"
        timer = threading.Timer(limit_s or 0.0, self.interrupt)
        if limit_s is not None:
            timer.start()
        try:
            with translated(certain=True):
                [[text], *_] = self._database.execute(f"PRAGMA {check}(1)").fetchall()
        except JournalError as error:
            if getattr(error.__cause__, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT:
                return False
            raise
        finally:
            timer.cancel()
        if text != "ok":
            raise JournalDamagedError(text)
        return True

    def interrupt(self) -> None:
        """End a check, from another thread."""
        self._database.interrupt()

    def topics(self) -> list[TopicState]:
        """What Kafka last said of the topics that spool."""
        with translated(certain=True):
            rows = self._database.execute("SELECT name, state FROM topics").fetchall()
        found = ((name, unpack_topic(state)) for name, state in rows)
        return [state for name, state in found if state is not None and state.name == name]

    def aside(self) -> list[Aside]:
        """What was set aside, by lane and reason, the oldest first."""
        with translated(certain=True):
            rows = self._database.execute(
                'SELECT topic, "partition", sum(count), min(at_ms), CAST(reason AS BLOB) '
                "FROM aside "
                "JOIN lanes ON lanes.id = lane GROUP BY lane, reason ORDER BY min(number)"
            )
            return [
                Aside(topic, partition, events, oldest_ms, bytes(why).decode(errors="replace"))
                for topic, partition, events, oldest_ms, why in rows
            ]

    def rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        """The chunks of one of `TABLES`, in order."""
        after = 0
        while rows := self._some(table, topic, after):
            yield from rows
            after = rows[-1].number

    def _some(self, table: str, topic: str | None, after: int) -> list[Raw]:
        """A read that goes on keeps the gateway's WAL from being used again: so, some at a time."""
        partitions = "partitions" if table == "chunks" else "0"
        with translated(certain=True):
            rows = self._database.execute(
                f'SELECT number, topic, "partition", {partitions}, count, at_ms, checksum, events '
                f"FROM {table} "
                "CROSS JOIN lanes ON lanes.id = lane "  # in this order, or all would be sorted
                "WHERE (?1 IS NULL OR topic = ?1) AND number > ?2 ORDER BY number LIMIT 20",
                (topic, after),
            ).fetchall()
        return [Raw(*row) for row in rows]

    def _scan(self) -> tuple[list[LaneFigures], dict[int, tuple[int, int]]]:
        """Figures of lanes; and by the id of a lane, how many chunks it has and a sum of their
        numbers."""
        found = dict[tuple[int, int], list[int]]()
        with translated(certain=True):
            lanes = {
                lane: (topic, partition, is_sane)
                for lane, topic, partition, is_sane in self._database.execute(
                    "SELECT id, topic, \"partition\", typeof(topic) = 'text' "
                    "AND typeof(\"partition\") = 'integer' FROM lanes NOT INDEXED"
                )
            }
            rows = self._database.execute(
                "SELECT number, lane, partitions, count, length(events), at_ms, "
                f"{_IS_SANE.format(partitions='partitions')} FROM chunks NOT INDEXED"
            )
            for number, lane, partitions, events, size, at_ms, is_sane in rows:
                if not (is_sane and lane in lanes and lanes[lane][2]):
                    raise JournalDamagedError(f"chunk {number} has impossible columns")
                figures = found.get((lane, partitions))
                if figures is None:
                    found[lane, partitions] = [1, events, size, at_ms, number, number % _PRIME]
                    continue
                figures[0] += 1
                figures[1] += events
                figures[2] += size
                figures[3] = min(figures[3], at_ms)
                figures[5] += number % _PRIME
        sums = dict[int, tuple[int, int]]()
        for (lane, _), (count, *_, total) in found.items():
            before, sum_before = sums.get(lane, (0, 0))
            sums[lane] = (before + count, (sum_before + total) % _PRIME)
        figures_of = _figures(
            (*lanes[lane][:2], partitions, *figures[:5])
            for (lane, partitions), figures in found.items()
        )
        return figures_of, sums


class Reader:
    """What lies in the spool of a folder, for people, whoever owns it now. Raises JournalError.

    If the file is damaged, it has what can be read of it.

    gaps: what cannot be read.  missing: topic and partition of each chunk that is lost.
    """

    def __init__(self, folder: Path) -> None:
        self._contents: Contents | None = None
        self.wreck: Wreck | None = None
        self.gaps: list[Gap] = []
        self.missing: list[tuple[str, int]] = []
        try:
            self._contents = _contents_of(folder)
        except JournalDamagedError as error:
            self._carve(folder, error)

    def close(self) -> None:
        """Close the file."""
        for each in (self._contents, self.wreck):
            if each is not None:
                each.close()

    def lanes(self) -> list[LaneFigures]:
        """See `Contents.lanes`."""
        if self._contents is not None:
            return self._contents.lanes()
        return _figures(
            (*one[1:4], 1, one.events, len(one.packed), one.at_ms, one.number)
            for one in self._rows("chunks")
        )

    def aside(self) -> list[Aside]:
        """See `Contents.aside`."""
        if self._contents is not None:
            return self._contents.aside()
        found: dict[tuple[str, int, str], Aside] = {}
        assert self.wreck is not None
        for one, reason in self.wreck.reasons():
            known = found.get((one.topic, one.partition, reason))
            events, oldest_ms = (0, one.at_ms) if known is None else (known.events, known.oldest_ms)
            found[one.topic, one.partition, reason] = Aside(
                one.topic, one.partition, events + one.events, min(oldest_ms, one.at_ms), reason
            )
        return list(found.values())

    def events(self, topic: str | None = None) -> Iterator[tuple[str, int, int, Packed | None]]:
        """Topic, partition, when it was spooled (ms), and the event, of all that lies here and
        aside; None for a chunk that is damaged. topic: only its."""
        for table in TABLES:
            for one in self._rows(table, topic):
                unpacked: Sequence[Packed | None] = one.unpacked() or (None,)
                for event in unpacked:
                    yield one.topic, one.partition, one.at_ms, event

    def _rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        source = self._contents or self.wreck
        assert source is not None
        return source.rows(table, topic)

    def _carve(self, folder: Path, error: JournalDamagedError) -> None:
        try:
            self.wreck = Wreck(folder)
        except OSError as refused:
            raise JournalError(f"{folder}: {refused.strerror or refused}") from refused
        if not self.wreck.is_ours:
            self.wreck.close()
            raise error
        self.missing = self.wreck.lost
        for number in self.wreck.missing:
            if self.gaps and self.gaps[-1].last == number - 1:
                self.gaps[-1] = self.gaps[-1]._replace(last=number)
            else:
                self.gaps.append(Gap("chunks", number, number))
        if not self.wreck.is_complete:
            self.gaps.append(Gap("pages", 1, None))


def _contents_of(folder: Path) -> Contents:
    """Raises JournalError."""
    path, log = folder / FILE, folder / f"{FILE}-wal"
    try:
        if path.exists() and path.stat().st_size:
            look_at_header(path, has_log=log.exists() and log.stat().st_size > 0)
        if not (folder / "lock").exists():  # as in `damaged-TIME`: no process writes to it
            look_at_log(log)
        contents = Contents(connect(path, is_reader=True))
    except JournalDamagedError:
        raise
    except JournalError as error:
        if os.access(folder, os.W_OK):
            raise
        text = f"{error}: who reads it must be able to write there, so copy the whole folder"
        raise JournalError(text) from error
    except OSError as error:
        raise JournalError(f"{folder}: {error.strerror or error}") from error
    try:
        contents.check(CHECK_S)
        contents.verified()
    except BaseException:
        contents.close()
        raise
    return contents


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
    return [found[lane] for lane in sorted(found)]
