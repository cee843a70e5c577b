"""Contents of a spool's file, for a start and for `headgate spool`, also while a gateway runs."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.model.topics import TopicState
from headgate.spool.carve import Wreck, carve, look_at_log
from headgate.spool.database import (
    FILE,
    JournalDamagedError,
    JournalError,
    Packed,
    Raw,
    connect,
    cost,
    in_folder,
    look_at_header,
    translated,
    unpack_topic,
)

if TYPE_CHECKING:
    import sqlite3

TABLES: Final = ("aside", "chunks")
CHECK_S: Final = 1.0  # time of a start for SQLite's check of the file
_PRIME: Final = 2_147_483_647  # sums of numbers are compared modulo this, without an overflow
_LANES_INDEX: Final = "sqlite_autoindex_lanes_1"
_IS_SANE: Final = (
    "typeof(lane) || typeof({partitions}) || typeof(count) || typeof(at_ms) || typeof(checksum) = "
    "'integerintegerintegerintegerinteger' AND typeof(events) = 'blob' "
    "AND count BETWEEN 1 AND 1000000 AND at_ms >= 0"
)


class Placed(NamedTuple):
    """Events of a lane placed by one partition count.

    Attributes:
        events: Number of the events.
        first: Number of their first chunk.
    """

    events: int
    first: int


class LaneFigures(NamedTuple):
    """Figures of one lane on disk.

    Attributes:
        bytes: Bytes on disk, including the journal's own.
        oldest_ms: Time of the oldest event's spooling, in milliseconds since 1970.
        partitions: Events by the partition count that they were placed by.
    """

    topic: str
    partition: int
    chunks: int
    events: int
    bytes: int
    oldest_ms: int
    partitions: dict[int, Placed]


class Aside(NamedTuple):
    """Events of one lane that were set aside for one reason.

    Attributes:
        events: Number of the events.
        oldest_ms: Time of the first, in milliseconds since 1970.
    """

    topic: str
    partition: int
    events: int
    oldest_ms: int
    reason: str


class Gap(NamedTuple):
    """A range of chunk numbers that cannot be read.

    Attributes:
        last: None for a range to the end.
    """

    table: str
    first: int
    last: int | None


class Contents:
    """Contents of a spool's file. The methods raise JournalError."""

    def __init__(self, database: "sqlite3.Connection") -> None:
        self._database = database

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def newest(self) -> int:
        """Return the number of the newest chunk."""
        with translated(certain=True):
            cursor = self._database.execute("SELECT coalesce(max(number), 0) FROM chunks")
            return int(cursor.fetchone()[0])

    def lanes(self) -> list[LaneFigures]:
        """Return the figures of the lanes, by topic and partition, without use of the index.

        Raises:
            JournalDamagedError: The table has impossible values.
        """
        return self._scan()[0]

    def verified(self) -> list[LaneFigures]:
        """Compare the indexes with their tables, which SQLite does not do on reads.

        Returns:
            The figures of the lanes.

        Raises:
            JournalDamagedError: An index and its table differ, or a table has impossible values.
        """
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
        """Check the file with SQLite.

        Args:
            limit_s: Longest time of the check, in seconds; None for no limit.
            is_of_indexes: Check the contents of the indexes besides the structure.

        Returns:
            Whether the check came to its end.

        Raises:
            JournalDamagedError: SQLite found damage.
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
            if getattr(error.__cause__, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
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
        """Return the last known states of the topics that spool."""
        with translated(certain=True):
            rows = self._database.execute("SELECT name, state FROM topics").fetchall()
        states = ((name, unpack_topic(state)) for name, state in rows)
        return [state for name, state in states if state is not None and state.name == name]

    def aside(self) -> list[Aside]:
        """Return the events that were set aside, by lane and reason, the oldest first."""
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
        """Yield the chunks of one of `TABLES`, in order.

        Args:
            table: Name of the table.
            topic: Only chunks of this topic; None for all.
        """
        after = 0
        while rows := self._some(table, topic, after):
            yield from rows
            after = rows[-1].number

    def _some(self, table: str, topic: str | None, after: int) -> list[Raw]:
        """Read up to 20 chunks: a longer read would keep the gateway from reusing its WAL."""
        partitions = "partitions" if table == "chunks" else "0"
        with translated(certain=True):
            rows = self._database.execute(
                f'SELECT number, topic, "partition", {partitions}, count, at_ms, checksum, events '
                f"FROM {table} "
                "CROSS JOIN lanes ON lanes.id = lane "  # in this order, without a sort of all rows
                "WHERE (?1 IS NULL OR topic = ?1) AND number > ?2 ORDER BY number LIMIT 20",
                (topic, after),
            ).fetchall()
        return [Raw(*row) for row in rows]

    def _scan(self) -> tuple[list[LaneFigures], dict[int, tuple[int, int]]]:
        """Scan the table of chunks.

        Returns:
            The figures of the lanes. And by lane id, the number of chunks and the sum of their
            numbers.
        """
        by_lane = dict[tuple[int, int], list[int]]()
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
                figures = by_lane.get((lane, partitions))
                if figures is None:
                    by_lane[lane, partitions] = [1, events, size, at_ms, number, number % _PRIME]
                    continue
                figures[0] += 1
                figures[1] += events
                figures[2] += size
                figures[3] = min(figures[3], at_ms)
                figures[5] += number % _PRIME
        sums = dict[int, tuple[int, int]]()
        for (lane, _), (count, *_, total) in by_lane.items():
            before, sum_before = sums.get(lane, (0, 0))
            sums[lane] = (before + count, (sum_before + total) % _PRIME)
        figures_of = _figures(
            (*lanes[lane][:2], partitions, *figures[:5])
            for (lane, partitions), figures in by_lane.items()
        )
        return figures_of, sums


class Reader:
    """A reader of a folder's spool, also while a gateway uses it.

    If the file is damaged, the reader returns its readable chunks.

    Attributes:
        gaps: Ranges that cannot be read.
        missing: Topic and partition of each chunk that is lost.

    Raises:
        JournalError: The file cannot be read.
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
        """Return the figures of the lanes (`Contents.lanes`)."""
        if self._contents is not None:
            return self._contents.lanes()
        return _figures(
            (*row[1:4], 1, row.events, len(row.packed), row.at_ms, row.number)
            for row in self._rows("chunks")
        )

    def aside(self) -> list[Aside]:
        """Return the events that were set aside (`Contents.aside`)."""
        if self._contents is not None:
            return self._contents.aside()
        by_reason: dict[tuple[str, int, str], Aside] = {}
        assert self.wreck is not None
        for row, reason in self.wreck.reasons():
            earlier = by_reason.get((row.topic, row.partition, reason))
            events, oldest_ms = (
                (0, row.at_ms) if earlier is None else (earlier.events, earlier.oldest_ms)
            )
            by_reason[row.topic, row.partition, reason] = Aside(
                row.topic, row.partition, events + row.events, min(oldest_ms, row.at_ms), reason
            )
        return list(by_reason.values())

    def events(self, topic: str | None = None) -> Iterator[tuple[str, int, int, Packed | None]]:
        """Yield all events, including those that were set aside.

        Args:
            topic: Only events of this topic; None for all.

        Yields:
            Topic, partition, time of spooling (milliseconds since 1970) and event; the event is
            None for a damaged chunk.
        """
        for table in TABLES:
            for row in self._rows(table, topic):
                unpacked: Sequence[Packed | None] = row.unpacked() or (None,)
                for event in unpacked:
                    yield row.topic, row.partition, row.at_ms, event

    def _rows(self, table: str, topic: str | None = None) -> Iterator[Raw]:
        source = self._contents or self.wreck
        assert source is not None
        return source.rows(table, topic)

    def _carve(self, folder: Path, error: JournalDamagedError) -> None:
        with in_folder(folder):
            self.wreck = carve(folder)
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
    """Open and check the contents of a folder. Raises JournalError."""
    path, log = folder / FILE, folder / f"{FILE}-wal"
    try:
        if path.exists() and path.stat().st_size:
            look_at_header(path, has_log=log.exists() and log.stat().st_size > 0)
        if not (folder / "lock").exists():  # such as `damaged-TIME`: no process writes to it
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
    """Sum up rows to the figures of lanes.

    Args:
        rows: Topic, partition, partition count, chunks, events, bytes, oldest time and first chunk
            number.
    """
    by_lane: dict[tuple[str, int], LaneFigures] = {}
    for topic, partition, placed_by, chunks, events, size, oldest, first in rows:
        nothing = LaneFigures(topic, partition, 0, 0, 0, oldest, {})
        before = by_lane.get((topic, partition), nothing)
        placed = before.partitions.get(placed_by, Placed(0, first))
        before.partitions[placed_by] = Placed(placed.events + events, min(placed.first, first))
        by_lane[topic, partition] = before._replace(
            chunks=before.chunks + chunks,
            events=before.events + events,
            bytes=before.bytes + cost(size, chunks),
            oldest_ms=min(before.oldest_ms, oldest),
        )
    return [by_lane[lane] for lane in sorted(by_lane)]
