"""Segments of the offset map, and a partition's table of them: offsets translated both ways.

A segment is a run of records in which source and target offset both advance by one. Transaction
markers, aborted records and compaction leave holes on either side, so one constant difference is
never enough. Shared by the gateway and the Spark jobs (`replays.offset_map` has the records).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from headgate.replays.packed import (
    BLOCK_SEGMENTS,
    NO_TIMESTAMP,
    Block,
    MapError,
    Unpacked,
    earliest,
    pack,
    unpack_columns,
)

MAX_RECORDS = 2**31 - 1  # of one segment: its count is 32 bits wide in the table


class Segment(NamedTuple):
    """Consecutive records on both logs.

    Attributes:
        source: Source offset of the first record.
        target: Target offset of the first record.
        records: Their number.
        end: The source has been read up to this offset, exclusive; there is no record between the
            last one of the segment and `end`.
        earliest_ms, latest_ms: Bounds of the timestamps; NO_TIMESTAMP if no record has one.
    """

    source: int
    target: int
    records: int
    end: int
    earliest_ms: int
    latest_ms: int


class Gap(NamedTuple):
    """Source offsets from `source` to `end`, exclusive, that are in no segment.

    Attributes:
        reason: One of the reasons below.
        at_ms: Time of the discovery.
    """

    source: int
    end: int
    reason: str
    at_ms: int

    @property
    def is_lost(self) -> bool:
        """Return whether it had records that the mirror can no longer copy."""
        return self.reason in _LOST


NO_RECORDS = "no_records"  # markers, aborted or compacted records alone: nothing is missing
RETENTION = "retention"  # the source's log began behind the mirrored part
RECREATED = "recreated"  # the topic was deleted: its records beyond `source` are unknown (end too)
FOREIGN = "foreign"  # something else wrote to the target before `source` was copied (end too)
_LOST = frozenset({RETENTION, RECREATED})


class Result(StrEnum):
    """The kind of a translation."""

    EXACT = "exact"  # the same record
    NEXT = "next"  # the offset is in a hole: the first record behind it
    OUT_OF_RANGE = "out_of_range"  # not mirrored yet, or deleted


class Translation(NamedTuple):
    """A translated offset; None if it is out of range."""

    source: int
    offset: int | None
    result: Result


def merge(segments: Iterable[Segment]) -> list[Segment]:
    """Join neighbours in which both sides continue. They must be in order.

    Segments are merged before they are written: those of two transactions never continue, because
    the first one's marker lies between them.
    """
    merged: list[Segment] = []
    for segment in segments:
        if merged and _continues(merged[-1], segment):
            last = merged[-1]
            merged[-1] = Segment(
                last.source,
                last.target,
                last.records + segment.records,
                segment.end,
                earliest((last.earliest_ms, segment.earliest_ms)),
                max(last.latest_ms, segment.latest_ms),
            )
        else:
            merged.append(segment)
    return merged


def _continues(last: Segment, segment: Segment) -> bool:
    return (
        last.source + last.records == segment.source
        and last.target + last.records == segment.target
        and last.records + segment.records <= MAX_RECORDS
    )


# Attributes of `SegmentTable` with one entry for each block, and for each newer segment.
_OF_BLOCKS = (
    "_columns", "_firsts", "_target_firsts", "_target_ends", "_records", "_earliest", "_latest",
    "_sizes", "_is_record",
)  # fmt: skip
_OF_NEWEST = ("_sources", "_targets", "_counts", "_last_earliest", "_last_latest")


class SegmentTable:
    """The segments of one partition in one layout, in order: packed, but for the last ones.

    Packed segments are in blocks (`replays.packed`), 2 to 4 bytes each, and are unpacked for a
    while when they are looked up; the newest segments, fewer than a block, are in arrays. A block
    is a record of the map if it was added as one; otherwise it was made here, of records that have
    one segment each.

    `position` is the end of the read part of the source, exclusive; None: nothing was read.

    Args:
        is_outline: Keep only the bounds of blocks that are records. That is enough for the mirror's
            driver, which has all maps; offsets cannot be translated.
    """

    __slots__ = (*_OF_BLOCKS, *_OF_NEWEST, "_heads", "_is_outline", "gaps", "position")

    def __init__(self, *, is_outline: bool = False) -> None:
        self._is_outline = is_outline
        # One entry per block:
        self._columns: list[bytes] = []
        self._firsts, self._target_firsts = array("q"), array("q")
        self._target_ends, self._records = array("q"), array("q")
        self._earliest, self._latest = array("q"), array("q")
        self._sizes, self._is_record = array("i"), array("b")
        # One entry per segment behind the blocks:
        self._sources, self._targets = array("q"), array("q")
        self._counts = array("i")
        self._last_earliest, self._last_latest = array("q"), array("q")
        # Stretches without records that were read before there was a segment: end -> beginning.
        self._heads: dict[int, int] = {}
        self.gaps: list[Gap] = []
        self.position: int | None = None

    def __len__(self) -> int:
        return sum(self._sizes) + len(self._sources)

    def __iter__(self) -> Iterator[Segment]:
        """Yield the segments, each with the beginning of the next one as its end.

        Times of packed segments are bounds: the block's earliest time, and the segment's latest
        time, up to a second later.
        """
        for number in range(len(self._firsts)):
            yield from self._segments(number)
        yield from self.newest()

    def newest(self) -> Iterator[Segment]:
        """Yield the segments that are not packed yet."""
        ends = (*self._sources[1:], self.source_end)
        times = self._last_earliest, self._last_latest
        yield from map(Segment, self._sources, self._targets, self._counts, ends, *times)

    def __bool__(self) -> bool:
        """Return whether it has segments."""
        return bool(self._firsts) or bool(self._sources)

    @property
    def memory(self) -> int:
        """Return the approximate memory of the segments, in bytes."""
        return sum(map(len, self._columns)) + 100 * len(self._firsts) + 36 * len(self._sources)

    @property
    def source_end(self) -> int:
        """Return the position; 0 without one."""
        return self.position or 0

    @property
    def source_start(self) -> int:
        """Return the first source offset that was read, as far as the map goes back.

        It may lie before the first segment, if the offsets between are known to have no record
        (compacted or aborted). It is `source_end` if nothing was read.
        """
        return self._heads.get(self._first_source, self._first_source)

    @property
    def _first_source(self) -> int:
        if self._firsts:
            return self._firsts[0]
        return self._sources[0] if self._sources else self.source_end

    @property
    def target_start(self) -> int:
        """Return the first target offset in a segment; 0 without segments."""
        if self._target_firsts:
            return self._target_firsts[0]
        return self._targets[0] if self._targets else 0

    @property
    def target_end(self) -> int:
        """Return the offset behind the last record on the target; 0 without segments."""
        if self._targets:
            return self._targets[-1] + self._counts[-1]
        return self._target_ends[-1] if self._target_ends else 0

    def times(self) -> tuple[int, int] | None:
        """Return the earliest and latest timestamp of all records, in ms; None without any.

        The earliest time of a block stays the same when a part of the block is deleted.
        """
        latest = max((*self._latest, *self._last_latest), default=NO_TIMESTAMP)
        if latest == NO_TIMESTAMP:
            return None
        return earliest((*self._earliest, *self._last_earliest)), latest

    def since(self, time_ms: int) -> int | None:
        """Return a source offset from which to look for the first record of this time or later.

        It is the beginning of a segment that has such a record, or whose latest record is less than
        a second older. None means that there is no such record.
        """
        for number, last in enumerate(self._latest):
            if last >= time_ms:
                run = self._run(number)
                return next(
                    source
                    for source, latest in zip(run.sources, run.latest, strict=True)
                    if latest >= time_ms
                )
        for source, latest in zip(self._sources, self._last_latest, strict=True):
            if latest >= time_ms:
                return source
        return None

    def add(self, segment: Segment) -> int:
        """Append a segment, and return the number of new records. Raises MapError.

        A repeated segment changes nothing.
        """
        if segment.source < self.source_end and self._has(segment):
            return 0
        self._check(segment)
        self._push(segment)
        self.position = segment.end
        if len(self._sources) == BLOCK_SEGMENTS:
            self._pack_newest()
        return segment.records

    def add_block(self, block: Block) -> int:
        """Append a block, and return the number of new records. Raises MapError.

        It replaces the segments from its beginning on, which it contains.
        """
        replaced = 0
        if block.source < self.source_end:
            number = bisect_left(self._firsts, block.source)
            if number < len(self._firsts) and self._firsts[number] == block.source:
                same = (self._sizes[number], self._target_firsts[number])
                if same == (block.segments, block.target):
                    self._is_record[number] = True
                    return 0
            if block.end <= self.source_start:  # it has been removed meanwhile
                return 0
            if block.end < self.source_end:
                raise MapError(f"a block from source offset {block.source} on is not the last")
            replaced = self._truncate(block.source)
        if self and block.target < self.target_end:
            raise MapError(f"a block overlaps what ends at target offset {self.target_end}")
        self._pack_newest()
        self._append(block, is_record=True)
        self.position = block.end
        return block.records - replaced

    def add_gap(self, gap: Gap) -> None:
        """Append a gap. One without records is visible between segments: only its end counts."""
        if gap.reason != NO_RECORDS and gap not in self.gaps:
            self.gaps.append(gap)
        if not self and gap.reason in (NO_RECORDS, FOREIGN):
            self._heads[gap.end] = self._heads.pop(gap.source, gap.source)
        self.position = max(self.source_end, gap.end)

    def remove(self, source: int) -> None:
        """Remove the segment or block whose record begins there, and all before it.

        A segment that has become part of a block has no record of its own: then nothing is removed.
        """
        if self._is_inside(source):
            return
        gone = 0
        while gone < len(self._firsts) and self._is_past(gone, source):
            gone += 1
        part: list[Segment] = []
        if gone < len(self._firsts):
            if self._firsts[gone] <= source and not self._is_record[gone]:
                part = [segment for segment in self._segments(gone) if segment.source > source]
                gone += 1
        else:
            self._cut_newest(bisect_right(self._sources, source))
        self._drop_blocks(gone)
        if part:
            self._append(pack(part), is_record=False, number=0)

    def _is_inside(self, source: int) -> bool:
        number = bisect_right(self._firsts, source) - 1
        if number < 0 or not self._is_record[number] or self._firsts[number] == source:
            return False
        following = self._following(number)
        return following is None or source < following

    def _is_past(self, number: int, source: int) -> bool:
        if self._is_record[number] and self._firsts[number] == source:
            return True
        following = self._following(number)
        if following is not None and following <= source:
            return True
        if self._is_record[number] or self._firsts[number] > source:
            return False
        return self._run(number).sources[-1] <= source

    def _following(self, number: int) -> int | None:
        """Return the source offset of the segment behind a block; None without one."""
        if number + 1 < len(self._firsts):
            return self._firsts[number + 1]
        return self._sources[0] if self._sources else None

    def records_from(self) -> Iterator["MapRecord"]:
        """Yield the map records that the table was made of."""
        for number, first in enumerate(self._firsts):
            if self._is_record[number]:
                yield MapRecord(first, self._target_ends[number], is_block=True)
            else:
                run = self._run(number)
                for source, target, count in zip(*run[:3], strict=True):
                    yield MapRecord(source, target + count, is_block=False)
        for source, target, count in zip(self._sources, self._targets, self._counts, strict=True):
            yield MapRecord(source, target + count, is_block=False)

    def passed(self, target_start: int) -> Iterator[int]:
        """Yield the source offsets of records that may be taken back.

        The newest record stays, because copying resumes behind it. The newest 256 segments with a
        record of their own stay, too: a copier may be packing them under the key of the first, and
        the tombstone of that key would delete the block.

        Args:
            target_start: The beginning of the target's log.
        """
        records = list(self.records_from())
        behind = len(records)
        while (
            behind and len(records) - behind < BLOCK_SEGMENTS and not records[behind - 1].is_block
        ):
            behind -= 1
        for record in records[: min(behind, len(records) - 1)]:
            if record.target_end > target_start:
                return
            yield record.source

    def kept(self, target_start: int) -> "SegmentTable":
        """Return the table without the segments that retention took; itself if it took none.

        The mirror takes segments back later, and never the newest one. A segment that lost a part
        keeps its times.

        Args:
            target_start: The beginning of the target's log.
        """
        if not self or target_start <= self.target_start:
            return self
        if self._targets and self._targets[0] < target_start:
            number, segments = len(self._firsts), list(self.newest())
        else:
            number = bisect_left(self._target_firsts, target_start) - 1
            segments = list(self._segments(number))
        at = bisect_left(segments, target_start, key=_target_of) - 1  # it has lost some records
        gone = min(target_start - segments[at].target, segments[at].records)
        is_whole = gone == segments[at].records
        start = segments[at].source + gone
        rest = segments[at + is_whole :]
        if not is_whole:
            rest[0] = rest[0]._replace(
                source=start, target=target_start, records=rest[0].records - gone
            )
        table = self._table_behind(number)
        if number == len(self._firsts):
            table._cut_newest(len(table._sources))
            for segment in rest:
                table._push(segment)
        elif rest:
            table._append(pack(rest), is_record=False, number=0)
        if is_whole:  # the offsets behind it without a record were read, and are not lost
            table._heads[table._first_source] = start
        return table

    def _table_behind(self, number: int) -> "SegmentTable":
        """Return the segments behind a block as a table of their own."""
        table = SegmentTable(is_outline=self._is_outline)
        for name in (*_OF_BLOCKS, *_OF_NEWEST):
            setattr(table, name, getattr(self, name)[:])
        table._drop_blocks(number + 1)
        table.gaps, table.position = list(self.gaps), self.position
        return table

    def to_target(self, source: int) -> Translation:
        """Translate a source offset to the target."""
        if not self.source_start <= source < self.source_end or not self:
            return Translation(source, None, Result.OUT_OF_RANGE)
        if source < self._first_source:
            return Translation(source, self.target_start, Result.NEXT)
        if self._sources and source >= self._sources[0]:
            return _translated(source, self._sources, self._targets, self._counts, None)
        number = bisect_right(self._firsts, source) - 1
        run = self._run(number)
        following = self._following_target(number)
        return _translated(source, run.sources, run.targets, run.counts, following)

    def to_source(self, target: int) -> Translation:
        """Translate a target offset to the source."""
        if not self or not self.target_start <= target < self.target_end:
            return Translation(target, None, Result.OUT_OF_RANGE)
        if self._targets and target >= self._targets[0]:
            return _translated(target, self._targets, self._sources, self._counts, None)
        number = bisect_right(self._target_firsts, target) - 1
        run = self._run(number)
        return _translated(target, run.targets, run.sources, run.counts, self._following(number))

    def _following_target(self, number: int) -> int | None:
        if number + 1 < len(self._firsts):
            return self._target_firsts[number + 1]
        return self._targets[0] if self._targets else None

    def records_between(self, start: int, end: int) -> int:
        """Count the records between two target offsets."""
        first = max(0, bisect_right(self._target_firsts, start) - 1)
        behind = bisect_left(self._target_firsts, end)
        count = sum(self._records[first:behind])
        for number in {first, behind - 1} if first < behind else ():
            run = self._run(number)
            count -= self._records[number] - _between(run.targets, run.counts, start, end)
        return count + _between(self._targets, self._counts, start, end)

    def around(self, source: int) -> tuple[int | None, int | None]:
        """Return the target offsets around a source offset.

        They are the end of the last segment that begins before it, and the beginning of the next
        segment; None without one.
        """
        sources, targets, counts = self._sources, self._targets, self._counts
        following: int | None = None
        if not sources or source <= sources[0]:
            number = bisect_left(self._firsts, source) - 1
            if number < 0:
                return None, self.target_start if self else None
            sources, targets, counts, _ = self._run(number)
            following = self._following_target(number)
        at = bisect_left(sources, source)
        return targets[at - 1] + counts[at - 1], targets[at] if at < len(targets) else following

    def _run(self, number: int) -> Unpacked:
        """Return the segments of a block."""
        columns = self._columns[number]
        if not columns:
            raise MapError("the segments of an outline are not kept")
        return unpack_columns(
            columns,
            self._firsts[number],
            self._target_firsts[number],
            self._sizes[number],
            self._latest[number],
        )

    def _segments(self, number: int) -> list[Segment]:
        run, first, last = self._run(number), self._earliest[number], self._latest[number]
        ends = (*run.sources[1:], self._end(number))
        return [
            Segment(source, target, count, end, first, min(latest, last))
            for source, target, count, latest, end in zip(*run, ends, strict=True)
        ]

    def _end(self, number: int) -> int:
        following = self._following(number)
        return self.source_end if following is None else following

    def _has(self, segment: Segment) -> bool:
        if segment.source < self._first_source:  # it has been removed meanwhile
            return segment.end <= self.source_start
        if self._sources and segment.source >= self._sources[0]:
            at = bisect_right(self._sources, segment.source) - 1
            return (self._sources[at], self._targets[at], self._counts[at]) == segment[:3]
        number = bisect_right(self._firsts, segment.source) - 1
        if not self._columns[number]:
            return True
        run = self._run(number)
        at = bisect_right(run.sources, segment.source) - 1
        return (run.sources[at], run.targets[at], run.counts[at]) == segment[:3]

    def _check(self, segment: Segment) -> None:
        if not 0 < segment.records <= MAX_RECORDS or segment.end < segment.source + segment.records:
            raise MapError(f"a segment of impossible length: {segment}")
        if segment.source < self.source_end:
            raise MapError(f"{segment} overlaps what ends at source offset {self.source_end}")
        if self and segment.target < self.target_end:
            raise MapError(f"{segment} overlaps what ends at target offset {self.target_end}")

    def _push(self, segment: Segment) -> None:
        for name, number in zip(_OF_NEWEST, (*segment[:3], *segment[4:]), strict=True):
            getattr(self, name).append(number)

    def _pack_newest(self) -> None:
        if self._sources:
            block = pack(list(self.newest()))
            self._cut_newest(len(self._sources))
            self._append(block, is_record=False)

    def _append(self, block: Block, *, is_record: bool, number: int | None = None) -> None:
        """Insert a block before the block with this number, or at the end if it is None."""
        at = len(self._firsts) if number is None else number
        if self._is_outline and at and at == len(self._firsts) and self._is_record[-1]:
            self._columns[-1] = b""  # the last one stays: the next may replace a part of it
        self._columns.insert(at, block.columns)
        for column, figure in (
            (self._firsts, block.source),
            (self._target_firsts, block.target),
            (self._target_ends, block.target_end),
            (self._records, block.records),
            (self._earliest, block.earliest_ms),
            (self._latest, block.latest_ms),
            (self._sizes, block.segments),
            (self._is_record, is_record),
        ):
            column.insert(at, figure)

    def _truncate(self, source: int) -> int:
        """Remove all segments from a source offset on; return the number of their records."""
        cut = bisect_left(self._sources, source)
        gone = sum(self._counts[cut:])
        for name in _OF_NEWEST:
            del getattr(self, name)[cut:]
        while self._firsts and self._firsts[-1] >= source:
            gone += self._records[-1]
            self._pop_block()
        if cut or not self._firsts or self._is_record[-1]:  # records never overlap in part
            return gone
        segments = self._segments(len(self._firsts) - 1)
        rest = [segment for segment in segments if segment.source < source]
        if len(rest) == len(segments):
            return gone
        gone += self._records[-1]
        self._pop_block()
        block = pack(rest)
        self._append(block, is_record=False)
        return gone - block.records

    def _pop_block(self) -> None:
        for name in _OF_BLOCKS:
            getattr(self, name).pop()

    def _drop_blocks(self, count: int) -> None:
        for name in _OF_BLOCKS:
            del getattr(self, name)[:count]

    def _cut_newest(self, count: int) -> None:
        for name in _OF_NEWEST:
            del getattr(self, name)[:count]


class MapRecord(NamedTuple):
    """A map record: a segment or a block, with its first source offset and its target end."""

    source: int
    target_end: int
    is_block: bool


def _target_of(segment: Segment) -> int:
    return segment.target


def _between(targets: "array[int]", counts: "array[int]", start: int, end: int) -> int:
    return sum(
        max(0, min(end, target + count) - max(start, target))
        for target, count in zip(targets, counts, strict=True)
    )


def _translated(
    offset: int,
    given: "array[int]",
    wanted: "array[int]",
    counts: "array[int]",
    following: int | None,
) -> Translation:
    """Translate an offset.

    Args:
        offset: The offset.
        given: Beginnings of the segments on the side of the offset.
        wanted: Their beginnings on the other side.
        counts: Their numbers of records.
        following: Beginning of the segment behind these on the other side; None without one.
    """
    at = bisect_right(given, offset) - 1
    step = offset - given[at]
    if step < counts[at]:
        return Translation(offset, wanted[at] + step, Result.EXACT)
    if at + 1 < len(given):
        return Translation(offset, wanted[at + 1], Result.NEXT)
    last = wanted[at] + counts[at]
    return Translation(offset, last if following is None else following, Result.NEXT)
