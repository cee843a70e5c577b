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

__all__ = [
    "FOREIGN",
    "MAX_RECORDS",
    "NO_RECORDS",
    "NO_TIMESTAMP",
    "RECREATED",
    "RETENTION",
    "Gap",
    "MapError",
    "Result",
    "Segment",
    "SegmentTable",
    "Translation",
    "earliest",
    "merge",
]

MAX_RECORDS = 2**31 - 1  # of one segment: its count is 32 bits wide in the table


class Segment(NamedTuple):
    """`records` records from `source` on, which are at `target` and on.

    end: up to where, without it, the source has been read: what lies between the last record and
    `end` holds none.  earliest_ms, latest_ms: of the records' timestamps, in whatever order;
    NO_TIMESTAMP when none of them has one.
    """

    source: int
    target: int
    records: int
    end: int
    earliest_ms: int
    latest_ms: int


class Gap(NamedTuple):
    """Source offsets from `source` up to, without, `end` that are in no segment, and why.

    at_ms: when it was found.
    """

    source: int
    end: int
    reason: str
    at_ms: int

    @property
    def is_lost(self) -> bool:
        """Whether there were records that the mirror can no longer copy."""
        return self.reason in _LOST


NO_RECORDS = "no_records"  # markers, aborted or compacted records alone: nothing is missing
RETENTION = "retention"  # the source's log began behind what had been mirrored
RECREATED = "recreated"  # the topic was deleted: what it had beyond `source` is not known (end too)
FOREIGN = "foreign"  # something else wrote to the target before `source` was copied (end too)
_LOST = frozenset({RETENTION, RECREATED})


class Result(StrEnum):
    """How an offset was translated."""

    EXACT = "exact"  # the very record
    NEXT = "next"  # it is in a hole: where reading goes on, with the first record behind it
    OUT_OF_RANGE = "out_of_range"  # not mirrored yet, or no longer there


class Translation(NamedTuple):
    """offset: None when it is out of range."""

    source: int
    offset: int | None
    result: Result


def merge(segments: Iterable[Segment]) -> list[Segment]:
    """Join neighbours in which both sides continue. They must be in order.

    Done before they are written: what two transactions wrote never continues, since the marker of
    the first lies between.
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


def _continues(last: Segment, one: Segment) -> bool:
    return (
        last.source + last.records == one.source
        and last.target + last.records == one.target
        and last.records + one.records <= MAX_RECORDS
    )


class SegmentTable:
    """The segments of one partition in one layout, in order: packed, but for the last ones.

    What is packed is in blocks (`replays.packed`), 2 to 4 bytes a segment, and is unpacked
    for a while when it is looked up; the newest segments, fewer than a block, are in arrays. A
    block is a record of the map if it was added as one; else it was made here, of records that
    have one segment each.

    position: up to where, without it, the source has been read; None = nothing has been.
    is_outline: blocks that are records are not kept, only where they begin and end. That is
    enough for the mirror's driver, which has all maps; nothing can be translated.
    """

    __slots__ = (
        "_columns",
        "_counts",
        "_earliest",
        "_firsts",
        "_heads",
        "_is_outline",
        "_is_record",
        "_last_earliest",
        "_last_latest",
        "_latest",
        "_records",
        "_sizes",
        "_sources",
        "_target_ends",
        "_target_firsts",
        "_targets",
        "gaps",
        "position",
    )

    def __init__(self, *, is_outline: bool = False) -> None:
        self._is_outline = is_outline
        # Of each block.
        self._columns: list[bytes] = []
        self._firsts, self._target_firsts = array("q"), array("q")
        self._target_ends, self._records = array("q"), array("q")
        self._earliest, self._latest = array("q"), array("q")
        self._sizes, self._is_record = array("i"), array("b")
        # Of each segment behind the blocks.
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
        """Yield them, each with the beginning of the next one as its end.

        Times of those that are packed are bounds: the block's earliest, and the latest of the
        segment, up to a second later.
        """
        for number in range(len(self._firsts)):
            run = self._run(number)
            ends = (*run.sources[1:], self._end(number))
            for source, target, count, end, latest in zip(
                run.sources, run.targets, run.counts, ends, run.latest, strict=True
            ):
                last = min(latest, self._latest[number])
                yield Segment(source, target, count, end, self._earliest[number], last)
        yield from self.newest()

    def newest(self) -> Iterator[Segment]:
        """Yield those that are not packed yet."""
        ends = (*self._sources[1:], self.source_end)
        yield from map(
            Segment, self._sources, self._targets, self._counts, ends,
            self._last_earliest, self._last_latest,
        )  # fmt: skip

    def __bool__(self) -> bool:
        """Whether it has segments."""
        return bool(self._firsts) or bool(self._sources)

    @property
    def memory(self) -> int:
        """The bytes that segments take, roughly."""
        return sum(map(len, self._columns)) + 100 * len(self._firsts) + 36 * len(self._sources)

    @property
    def source_end(self) -> int:
        """The position; 0 when there is none."""
        return self.position or 0

    @property
    def source_start(self) -> int:
        """The first source offset that was read, as far as the map goes back.

        It may lie before the first segment's, when what lies between is known to hold no record:
        compacted, or aborted. `source_end` when nothing was read.
        """
        return self._heads.get(self._first_source, self._first_source)

    @property
    def _first_source(self) -> int:
        if self._firsts:
            return self._firsts[0]
        return self._sources[0] if self._sources else self.source_end

    @property
    def target_start(self) -> int:
        """The first target offset that is in a segment; 0 when none is."""
        if self._target_firsts:
            return self._target_firsts[0]
        return self._targets[0] if self._targets else 0

    @property
    def target_end(self) -> int:
        """The offset behind the last record on the target; 0 when there is none."""
        if self._targets:
            return self._targets[-1] + self._counts[-1]
        return self._target_ends[-1] if self._target_ends else 0

    def times(self) -> tuple[int, int] | None:
        """Earliest and latest timestamp of all records, ms; None when there are none.

        Where a part of a block is gone, the earliest stays that of the whole.
        """
        latest = max((*self._latest, *self._last_latest), default=NO_TIMESTAMP)
        if latest == NO_TIMESTAMP:
            return None
        return earliest((*self._earliest, *self._last_earliest)), latest

    def since(self, time_ms: int) -> int | None:
        """A source offset from which on to look for the first record of this time or later: there
        is none before. None: there is none at all.

        It is where a segment begins that has one, or whose last is less than a second older.
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
        """Append, and return by how many records that is more. One that is there already changes
        nothing. Raises MapError."""
        if segment.source < self.source_end and self._has(segment):
            return 0
        self._check(segment)
        self._sources.append(segment.source)
        self._targets.append(segment.target)
        self._counts.append(segment.records)
        self._last_earliest.append(segment.earliest_ms)
        self._last_latest.append(segment.latest_ms)
        self.position = segment.end
        if len(self._sources) == BLOCK_SEGMENTS:
            self._pack_newest()
        return segment.records

    def add_block(self, block: Block) -> int:
        """Append segments in place of those that are there from its beginning on: it has them all.
        Return by how many records that is more. Raises MapError."""
        replaced = 0
        if block.source < self.source_end:
            number = bisect_left(self._firsts, block.source)
            if number < len(self._firsts) and self._firsts[number] == block.source:
                known = (self._sizes[number], self._target_firsts[number])
                if known == (block.segments, block.target):
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
        """Append. Gaps without records are known from the segments around: only the end counts."""
        if gap.reason != NO_RECORDS and gap not in self.gaps:
            self.gaps.append(gap)
        if not self and gap.reason in (NO_RECORDS, FOREIGN):
            self._heads[gap.end] = self._heads.pop(gap.source, gap.source)
        self.position = max(self.source_end, gap.end)

    def remove(self, source: int) -> None:
        """Retention took the segment or block whose record begins there, and so all before it.

        A segment that has become a part of a block has no record of its own any more: nothing is
        removed then.
        """
        if self._is_inside(source):
            return
        gone = 0
        while gone < len(self._firsts) and self._is_past(gone, source):
            gone += 1
        part: list[Segment] = []
        if gone < len(self._firsts):
            if self._firsts[gone] <= source and not self._is_record[gone]:
                part = [one for one in self._segments(gone) if one.source > source]
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
        """Where the segment behind a block begins; None: there is none."""
        if number + 1 < len(self._firsts):
            return self._firsts[number + 1]
        return self._sources[0] if self._sources else None

    def records_from(self) -> Iterator["MapRecord"]:
        """Yield the records of the map that the table was made of."""
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
        """Yield where records begin that may be taken back if the target's log begins there now.

        The newest one stays: it says where copying goes on. And so do the newest 256 segments that
        have a record of their own: a copier may be packing them right now, under the key of the
        first, and taking that back would take back the block.
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
        """What is left where the target's log begins there now; itself where nothing is gone.

        The mirror takes segments back later, and the newest one never. Of a segment of which a
        part is left, the times stay those of the whole.
        """
        if not self or target_start <= self.target_start:
            return self
        if self._targets and self._targets[0] < target_start:
            number, segments = len(self._firsts), list(self.newest())
        else:
            number = bisect_left(self._target_firsts, target_start) - 1
            segments = list(self._segments(number))
        at = bisect_left(segments, target_start, key=_target_of) - 1  # some of it is gone
        gone = min(target_start - segments[at].target, segments[at].records)
        is_whole = gone == segments[at].records
        start = segments[at].source + gone
        rest = segments[at + is_whole :]
        if not is_whole:
            rest[0] = rest[0]._replace(
                source=start, target=target_start, records=rest[0].records - gone
            )
        left = self._behind(number)
        if number == len(self._firsts):
            left._cut_newest(len(left._sources))
            for segment in rest:
                left._push(segment)
        elif rest:
            left._append(pack(rest), is_record=False, number=0)
        if is_whole:  # what follows without a record has been read, and is not gone
            left._heads[left._first_source] = start
        return left

    def _behind(self, number: int) -> "SegmentTable":
        """What is behind a block, as a table of its own."""
        left = SegmentTable(is_outline=self._is_outline)
        for name in (*_OF_BLOCKS, *_OF_NEWEST):
            setattr(left, name, getattr(self, name)[:])
        left._drop_blocks(number + 1)
        left.gaps, left.position = list(self.gaps), self.position
        return left

    def to_target(self, source: int) -> Translation:
        """Where the record of this source offset is on the target."""
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
        """Where the record of this target offset came from."""
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
        """How many records lie between two target offsets."""
        first = max(0, bisect_right(self._target_firsts, start) - 1)
        behind = bisect_left(self._target_firsts, end)
        found = sum(self._records[first:behind])
        for number in {first, behind - 1} if first < behind else ():
            run = self._run(number)
            found -= self._records[number] - _between(run.targets, run.counts, start, end)
        return found + _between(self._targets, self._counts, start, end)

    def around(self, source: int) -> tuple[int | None, int | None]:
        """Where on the target the last segment ends that begins before this source offset, and
        where the first begins that does not; None: there is none."""
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
        """The segments of a block."""
        columns = self._columns[number]
        if not columns:
            raise MapError("the segments of an outline are not kept")
        return unpack_columns(
            columns, self._firsts[number], self._target_firsts[number], self._sizes[number],
            self._latest[number],
        )  # fmt: skip

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
            known = (self._sources[at], self._targets[at], self._counts[at])
            return known == segment[:3]
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
        """number: before which block; None = behind all."""
        at = len(self._firsts) if number is None else number
        if self._is_outline and at and at == len(self._firsts) and self._is_record[-1]:
            self._columns[-1] = b""  # the last one stays, as what follows may replace a part of it
        self._columns.insert(at, block.columns)
        for column, figure in (
            (self._firsts, block.source), (self._target_firsts, block.target),
            (self._target_ends, block.target_end), (self._records, block.records),
            (self._earliest, block.earliest_ms), (self._latest, block.latest_ms),
            (self._sizes, block.segments), (self._is_record, is_record),
        ):  # fmt: skip
            column.insert(at, figure)

    def _truncate(self, source: int) -> int:
        """Take away all segments that begin there or behind; how many records they have."""
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
    """A record of the map: a segment or a block. source: where it begins; target_end: behind it."""

    source: int
    target_end: int
    is_block: bool


_OF_BLOCKS = (
    "_columns", "_firsts", "_target_firsts", "_target_ends", "_records", "_earliest", "_latest",
    "_sizes", "_is_record",
)  # fmt: skip
_OF_NEWEST = ("_sources", "_targets", "_counts", "_last_earliest", "_last_latest")


def _target_of(segment: Segment) -> int:
    return segment.target


def _between(targets: "array[int]", counts: "array[int]", start: int, end: int) -> int:
    return sum(
        max(0, min(end, target + count) - max(start, target))
        for target, count in zip(targets, counts, strict=True)
    )


def _translated(
    offset: int, given: "array[int]", wanted: "array[int]", counts: "array[int]",
    following: int | None,
) -> Translation:  # fmt: skip
    """following: where the segment behind these begins; None: there is none."""
    at = bisect_right(given, offset) - 1
    step = offset - given[at]
    if step < counts[at]:
        return Translation(offset, wanted[at] + step, Result.EXACT)
    if at + 1 < len(given):
        return Translation(offset, wanted[at + 1], Result.NEXT)
    last = wanted[at] + counts[at]
    return Translation(offset, last if following is None else following, Result.NEXT)
