"""A chunk of a partition: records as they were read, and the segments that they become.

A chunk is what one transaction copies. It is written as one or more of Kafka's record batches.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from headgate.replays.segments import Segment, earliest, merge


class SourceRecord(Protocol):
    """A record as aiokafka's consumer gives it. timestamp: ms since 1970, or -1."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


class Chunk(NamedTuple):
    """Records in the order of the source, and `end`: up to where, without, it was read."""

    records: Sequence[SourceRecord]
    end: int


class Written(NamedTuple):
    """A batch on the target. first, behind: which records of the chunk.  base: their offset."""

    first: int
    behind: int
    base: int

    @property
    def end(self) -> int:
        """The offset behind its last record."""
        return self.base + self.behind - self.first


def segments_of(chunk: Chunk, batches: Sequence[Written]) -> list[Segment]:
    """The segments of a chunk that was written as these batches."""
    found = merge(_segments(chunk.records, batches))
    if found:
        found[-1] = found[-1]._replace(end=chunk.end)
    return found


def _segments(records: Sequence[SourceRecord], batches: Sequence[Written]) -> Iterator[Segment]:
    for batch in batches:
        for first, behind in _runs(records, batch.first, batch.behind):
            run = records[first:behind]
            times = [record.timestamp for record in run]
            following = records[behind].offset if behind < len(records) else run[-1].offset + 1
            yield Segment(
                run[0].offset,
                batch.base + first - batch.first,
                behind - first,
                following,
                earliest(times),
                max(times),
            )


def _runs(records: Sequence[SourceRecord], first: int, behind: int) -> Iterator[tuple[int, int]]:
    """Stretches in which the source's offsets advance by one."""
    # Most chunks are one run: then two offsets say so.
    while first < behind:
        end = behind
        if records[end - 1].offset - records[first].offset != end - 1 - first:
            end = first + 1
            while records[end].offset == records[end - 1].offset + 1:
                end += 1
        yield first, end
        first = end
