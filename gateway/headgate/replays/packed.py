"""Blocks of the offset map: up to 256 segments in a row, packed into 2 to 4 bytes each.

A segment follows the one before it after a few offsets without a record, which are nearly always
the same: the marker of the mirror's transaction on the target, none or a marker on the source. So
a block has where it begins, and four columns of small numbers; a column in which numbers repeat is
written as runs.

    block    target varint · segments varint · records varint · target end - target varint ·
             end - source varint · earliest_ms zigzag varint · latest_ms - earliest_ms varint ·
             columns
    columns  records of each segment · holes between them on the source · on the target ·
             steps of the latest time, zigzag, in seconds, from one segment to the next
    column   0, then its numbers as varints; 1, then (number varint, how often varint) pairs; or 2,
             then two bytes for each number, little end first, which are read fastest

Offsets are exact. Times are so of the block alone: of one segment the latest time is rounded up
to a second, and the earliest is not kept.

varint: unsigned, base 128, little end first (as in Kafka's own records).
"""

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, groupby, pairwise
from operator import add, ne
from typing import NamedTuple

BLOCK_SEGMENTS = 256
_MAX_SEGMENTS = 65_536  # limit of segments in one block
NO_TIMESTAMP = -1  # Kafka's: the record has none
_UNPACKED = 512  # blocks that are kept unpacked, 7 KB each
_SECOND_MS = 1000
_PLAIN, _RUNS, _PAIRS = 0, 1, 2
_ONE_BYTE = 0x7F  # the largest varint of one

# source, target, records, end, earliest_ms, latest_ms: `segments.Segment`
Row = tuple[int, int, int, int, int, int]


class MapError(ValueError):
    """The map contradicts itself or cannot be read: it must not be used."""


class Block(NamedTuple):
    """Consecutive segments, packed.

    Attributes:
        end: The source has been read up to this offset, exclusive.
        target_end: The offset behind the last record on the target.
        columns: As described above.
    """

    source: int
    target: int
    segments: int
    records: int
    target_end: int
    end: int
    earliest_ms: int
    latest_ms: int
    columns: bytes


class Unpacked(NamedTuple):
    """Segments as arrays. Latest times are at most a second later than the records' times."""

    sources: "array[int]"
    targets: "array[int]"
    counts: "array[int]"
    latest: "array[int]"


def pack(rows: Sequence[Row]) -> Block:
    """Pack segments, at least one, that are in order."""
    sources, targets, counts, ends, earliest_ms, latest_ms = zip(*rows, strict=True)
    behind = zip(sources, targets, counts, strict=True)
    source_ends, target_ends = zip(*((s + n, t + n) for s, t, n in behind), strict=True)
    latest = max(latest_ms)
    seconds = [_seconds(time) for time in (latest, *latest_ms)]
    columns = bytearray()
    for column in (
        counts,
        [first - end for first, end in zip(sources[1:], source_ends, strict=False)],
        [first - end for first, end in zip(targets[1:], target_ends, strict=False)],
        [zigzag(then - now) for now, then in pairwise(seconds)],
    ):
        columns += _column(column)
    return Block(
        source=sources[0],
        target=targets[0],
        segments=len(rows),
        records=sum(counts),
        target_end=target_ends[-1],
        end=ends[-1],
        earliest_ms=earliest(earliest_ms),
        latest_ms=latest,
        columns=bytes(columns),
    )


@lru_cache(maxsize=_UNPACKED)
def unpack_columns(
    columns: bytes, source: int, target: int, segments: int, latest_ms: int
) -> Unpacked:
    """Unpack columns, and cache the result: lookups are often near each other. Raises MapError."""
    try:
        counts, at = _numbers(columns, 0, segments)
        source_holes, at = _numbers(columns, at, segments - 1)
        target_holes, at = _numbers(columns, at, segments - 1)
        steps, at = _numbers(columns, at, segments)
        if at != len(columns):
            raise MapError("a block of the offset map is longer than it says")
    except (IndexError, OverflowError) as error:
        raise MapError("a block of the offset map is shorter than it says") from error
    steps[0] = zigzag(unzigzag(steps[0]) + _seconds(latest_ms))
    seconds = accumulate(map(unzigzag, steps))
    return Unpacked(
        array("q", accumulate(map(add, counts, source_holes), initial=source)),
        array("q", accumulate(map(add, counts, target_holes), initial=target)),
        array("i", counts),
        array("q", [second * _SECOND_MS for second in seconds]),
    )


def encode(block: Block) -> bytes:
    """Return the bytes of a block without its beginning, which is in the record's key."""
    out = bytearray()
    for number in (
        block.target,
        block.segments,
        block.records,
        block.target_end - block.target,
        block.end - block.source,
        zigzag(block.earliest_ms),
        block.latest_ms - block.earliest_ms,
    ):
        put(out, number)
    return bytes(out) + block.columns


def decode(source: int, value: bytes, at: int) -> Block:
    """Read the bytes of `encode`.

    Raises:
        IndexError: The bytes end too early.
        MapError: The block contradicts itself.
    """
    target, at = get(value, at)
    segments, at = get(value, at)
    records, at = get(value, at)
    span, at = get(value, at)
    length, at = get(value, at)
    earliest_ms, at = get(value, at)
    spread, at = get(value, at)
    earliest_ms = unzigzag(earliest_ms)
    if not 0 < segments <= min(records, _MAX_SEGMENTS) or records > min(span, length):
        raise MapError(f"a block of impossible length: {segments} segments, {records} records")
    return Block(
        source=source,
        target=target,
        segments=segments,
        records=records,
        target_end=target + span,
        end=source + length,
        earliest_ms=earliest_ms,
        latest_ms=earliest_ms + spread,
        columns=value[at:],
    )


def earliest(times: Sequence[int]) -> int:
    """Return the earliest of some timestamps; NO_TIMESTAMP if no record has one."""
    first = min(times)
    if first != NO_TIMESTAMP:
        return first
    return min((time for time in times if time != NO_TIMESTAMP), default=NO_TIMESTAMP)


def zigzag(number: int) -> int:
    """Encode a number of either sign as one that is not below 0."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def unzigzag(number: int) -> int:
    """Decode the number of `zigzag`."""
    return (number >> 1) ^ -(number & 1)


def put(out: bytearray, number: int) -> None:
    """Append a varint. Raises MapError."""
    if number < 0:
        raise MapError(f"{number} is below 0")
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def get(data: bytes, at: int) -> tuple[int, int]:
    """Return the varint at a position, and the position behind it. Raises IndexError."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _seconds(time_ms: int) -> int:
    return -(-time_ms // _SECOND_MS)


def _column(numbers: Sequence[int]) -> bytes:
    """Encode a column in its shortest form, or as pairs if they are not much longer."""
    count = len(numbers)
    if not count:
        return bytes([_PLAIN])
    largest, shortest = max(numbers), count + sum(map(_ONE_BYTE.__lt__, numbers))
    if min(numbers) < 0:
        raise MapError("segments overlap")
    if 2 * sum(map(ne, numbers, numbers[1:])) < shortest:
        runs = bytearray([_RUNS])
        for number, same in groupby(numbers):
            put(runs, number)
            put(runs, sum(1 for _ in same))
        if len(runs) <= shortest:
            return bytes(runs)
    if largest <= _ONE_BYTE:
        return bytes([_PLAIN, *numbers])
    if largest < 0x10000 and 2 * count <= 1.07 * shortest:
        return bytes([_PAIRS]) + _little(array("H", numbers)).tobytes()
    plain = bytearray([_PLAIN])
    for number in numbers:
        put(plain, number)
    return bytes(plain)


def _little(pairs: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        pairs.byteswap()
    return pairs


def _numbers(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    form, at = data[at], at + 1
    if form == _PLAIN:
        numbers = list(data[at : at + count])
        if len(numbers) == count and (not numbers or max(numbers) <= _ONE_BYTE):
            return numbers, at + count
        numbers = []
        for _ in range(count):
            number, at = get(data, at)
            numbers.append(number)
        return numbers, at
    if form == _PAIRS:
        pairs, end = array("H"), at + 2 * count
        if end > len(data):
            raise IndexError
        pairs.frombytes(data[at:end])
        return list(_little(pairs)), end
    if form != _RUNS:
        raise MapError(f"unknown column {form}")
    numbers = []
    while len(numbers) < count:
        number, at = get(data, at)
        length, at = get(data, at)
        if not 0 < length <= count - len(numbers):
            raise MapError("a run of the offset map is longer than its block")
        numbers += [number] * length
    return numbers, at
