"""Segments of the offset map, and a partition's table of them: offsets translated both ways.

A segment is a run of records in which source and target offset both advance by one. Transaction
markers, aborted records and compaction leave holes on either side, so one constant difference is
never enough. Shared by the gateway and the Spark jobs (`core.replays.offset_map` has the records).
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

NO_TIMESTAMP = -1  # Kafka's: the record has none
MAX_RECORDS = 2**31 - 1  # of one segment: its count is 32 bits wide in the table
_REBUILT_AT = 1024  # removed segments in front that are carried along before the arrays are cut


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


class MapError(ValueError):
    """The map contradicts itself, or cannot be read: nothing may be concluded from it."""


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


def earliest(times: Sequence[int]) -> int:
    """The earliest of some timestamps; NO_TIMESTAMP when all of them are."""
    found = min(times)
    if found != NO_TIMESTAMP:
        return found
    return min((one for one in times if one != NO_TIMESTAMP), default=NO_TIMESTAMP)


def _continues(last: Segment, one: Segment) -> bool:
    return (
        last.source + last.records == one.source
        and last.target + last.records == one.target
        and last.records + one.records <= MAX_RECORDS
    )


class SegmentTable:
    """The segments of one partition in one layout, in order: 36 bytes each in five arrays.

    position: up to where, without it, the source has been read; None = nothing has been.
    """

    __slots__ = (
        "_counts",
        "_earliest",
        "_first",
        "_head",
        "_latest",
        "_sources",
        "_targets",
        "gaps",
        "position",
    )

    def __init__(self) -> None:
        self._sources, self._targets = array("q"), array("q")
        self._counts = array("i")
        self._earliest, self._latest = array("q"), array("q")
        self._first = 0  # those before are removed
        # Offsets without records that were read before the first segment: from, and up to.
        self._head: tuple[int, int] | None = None
        self.gaps: list[Gap] = []
        self.position: int | None = None

    def __len__(self) -> int:
        return len(self._sources) - self._first

    def __iter__(self) -> Iterator[Segment]:
        """Yield them, each with the beginning of the next one as its end."""
        for at in range(self._first, len(self._sources)):
            yield self._segment(at)

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
        first = self._sources[self._first] if len(self) else self.source_end
        if self._head is not None and self._head[1] == first:
            return self._head[0]
        return first

    @property
    def target_start(self) -> int:
        """The first target offset that is in a segment; 0 when none is."""
        return self._targets[self._first] if len(self) else 0

    @property
    def target_end(self) -> int:
        """The offset behind the last record on the target; 0 when there is none."""
        return self._targets[-1] + self._counts[-1] if len(self) else 0

    def times(self) -> tuple[int, int] | None:
        """Earliest and latest timestamp of all records, ms; None when there are none."""
        if not len(self) or (latest := max(self._latest[self._first :])) == NO_TIMESTAMP:
            return None
        return earliest(self._earliest[self._first :]), latest

    def since(self, time_ms: int) -> int | None:
        """The first source offset that may have a record of this time or later; None: none has."""
        for at in range(self._first, len(self._sources)):
            if self._latest[at] >= time_ms:
                return self._sources[at]
        return None

    def add(self, segment: Segment) -> None:
        """Append. One that is there already changes nothing. Raises MapError."""
        if segment.source < self.source_end and self._has(segment):
            return
        self._check(segment)
        self._sources.append(segment.source)
        self._targets.append(segment.target)
        self._counts.append(segment.records)
        self._earliest.append(segment.earliest_ms)
        self._latest.append(segment.latest_ms)
        self.position = segment.end

    def add_gap(self, gap: Gap) -> None:
        """Append. Gaps without records are known from the segments around: only the end counts."""
        if gap.reason != NO_RECORDS and gap not in self.gaps:
            self.gaps.append(gap)
        if not len(self):
            self._head = self._longer_head(gap)
        self.position = max(self.source_end, gap.end)

    def _longer_head(self, gap: Gap) -> tuple[int, int] | None:
        if gap.reason not in (NO_RECORDS, FOREIGN):
            return None
        goes_on = self._head is not None and self._head[1] == gap.source
        return (self._head[0] if self._head and goes_on else gap.source, gap.end)

    def remove(self, source: int) -> None:
        """Retention took the segment that begins there, and so all before it."""
        self._first = max(self._first, bisect_right(self._sources, source, self._first))
        if self._first >= _REBUILT_AT:
            self._rebuild()

    def kept(self, target_start: int) -> "SegmentTable":
        """What is left where the target's log begins there now; itself where nothing is gone.

        The mirror takes segments back later, and the newest one never. Of a segment of which a
        part is left, the times stay those of the whole.
        """
        if not len(self) or target_start <= self.target_start:
            return self
        at = bisect_left(self._targets, target_start, self._first) - 1  # some of it is gone
        gone = min(target_start - self._targets[at], self._counts[at])
        first = at + (gone == self._counts[at])
        left = SegmentTable()
        left._sources, left._targets = self._sources[first:], self._targets[first:]
        left._counts = self._counts[first:]
        left._earliest, left._latest = self._earliest[first:], self._latest[first:]
        left.gaps, left.position = list(self.gaps), self.position
        start = self._sources[at] + gone
        if first == at:
            left._sources[0], left._targets[0] = start, target_start
            left._counts[0] -= gone
        else:  # what follows without a record has been read, and is not gone
            left._head = (start, left._sources[0] if len(left) else left.source_end)
        return left

    def to_target(self, source: int) -> Translation:
        """Where the record of this source offset is on the target."""
        at = bisect_right(self._sources, source, self._first) - 1
        if not self.source_start <= source < self.source_end or not len(self):
            return Translation(source, None, Result.OUT_OF_RANGE)
        if at < self._first:
            return Translation(source, self._targets[self._first], Result.NEXT)
        return self._translated(at, source, self._sources, self._targets)

    def to_source(self, target: int) -> Translation:
        """Where the record of this target offset came from."""
        at = bisect_right(self._targets, target, self._first) - 1
        if at < self._first or target >= self.target_end:
            return Translation(target, None, Result.OUT_OF_RANGE)
        return self._translated(at, target, self._targets, self._sources)

    def _translated(
        self, at: int, offset: int, given: "array[int]", wanted: "array[int]"
    ) -> Translation:
        step = offset - given[at]
        if step < self._counts[at]:
            return Translation(offset, wanted[at] + step, Result.EXACT)
        if at + 1 < len(given):
            return Translation(offset, wanted[at + 1], Result.NEXT)
        return Translation(offset, wanted[at] + self._counts[at], Result.NEXT)

    def _segment(self, at: int) -> Segment:
        source, count = self._sources[at], self._counts[at]
        is_last = at + 1 == len(self._sources)
        end = self.source_end if is_last else self._sources[at + 1]
        return Segment(source, self._targets[at], count, end, self._earliest[at], self._latest[at])

    def _has(self, segment: Segment) -> bool:
        at = bisect_right(self._sources, segment.source, self._first) - 1
        if at < self._first:  # it has been removed meanwhile
            return segment.end <= self.source_start
        return self._segment(at)[:3] == segment[:3]

    def _check(self, segment: Segment) -> None:
        if not 0 < segment.records <= MAX_RECORDS or segment.end < segment.source + segment.records:
            raise MapError(f"a segment of impossible length: {segment}")
        if segment.source < self.source_end:
            raise MapError(f"{segment} overlaps what ends at source offset {self.source_end}")
        if len(self) and segment.target < self.target_end:
            raise MapError(f"{segment} overlaps what ends at target offset {self.target_end}")

    def _rebuild(self) -> None:
        first, self._first = self._first, 0
        self._sources, self._targets = self._sources[first:], self._targets[first:]
        self._counts = self._counts[first:]
        self._earliest, self._latest = self._earliest[first:], self._latest[first:]
