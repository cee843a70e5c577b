"""Compares one partition of both tiers, record by record, along the offset map.

Both sides are read once, in order and beside each other; nothing is kept of what has been
compared.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from headgate.replays.offset_map import MapEntry, PartitionMap, map_partition
from headgate.replays.segments import Result
from headgate_spark.copying.chunks import SourceRecord
from headgate_spark.copying.copy_plan import CopyOptions
from headgate_spark.copying.source_reader import RecreatedError, SourceReader
from headgate_spark.copying.throttle import BrokerBuckets
from headgate_spark.mirror.map_reader import read_map

_FIRST = 5  # findings that are told one by one
_STILL_S = 60.0  # no record for so long: it is not going to come


class Verified(NamedTuple):
    """What became of one partition.

    compared: records that are on both sides.  differing: of those.  source_only: records that the
    target lacks though it should have them.  target_only: records that the source has no more:
    compacted or expired, which is normal.  unmapped: records of the target that the map does not
    know.  lost: offsets in gaps of the map.  first: some of what is wrong, in words.
    is_stale: the map is of topics that were deleted, so that nothing was compared.
    """

    topic: str
    partition: int
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    compared: int
    differing: int
    source_only: int
    target_only: int
    unmapped: int
    lost: int
    first: tuple[str, ...]
    is_stale: bool = False

    @property
    def is_good(self) -> bool:
        """Whether the mirror is what it should be."""
        return not (self.differing or self.source_only or self.unmapped or self.is_stale)


async def compare(tp: TopicPartition, options: CopyOptions) -> Verified:
    """Compare what both logs have of what is mapped, and look for records of the target that are
    not. Raises as `SourceReader` and `read_map`."""
    found = PartitionMap()

    def see(entry: MapEntry) -> None:
        if entry.place[:2] == tuple(tp):
            found.apply(entry)

    on_target = replace(options, source=options.target)
    async with _reader(tp, options) as source, _reader(tp, on_target) as target:
        # Before the map: what is there now is in the map by then, if it is the mirror's.
        here = await target.bounds()
        await read_map(options.target, {map_partition(tp.topic, tp.partition): 0}, see)
        there = await source.bounds()
        if found.newest:
            try:
                await source.check(found.ids[0])
                await target.check(found.ids[1])
            except RecreatedError as error:
                return _stale(tp, error)
        comparison = _Comparison(tp, found, there[0], here)
        await comparison.run(source, target)
    return comparison.result()


def _stale(tp: TopicPartition, error: RecreatedError) -> Verified:
    why = f"the map is of a topic that was deleted and recreated ({error}): run the mirror"
    return Verified(tp.topic, tp.partition, (0, 0), (0, 0), 0, 0, 0, 0, 0, 0, (why,), is_stale=True)


@asynccontextmanager
async def _reader(tp: TopicPartition, options: CopyOptions) -> AsyncIterator[SourceReader]:
    reader = SourceReader(tp, options, BrokerBuckets(options.bytes_per_s))
    try:
        await reader.start()
        yield reader
    finally:
        await reader.drop()


class _Comparison:
    def __init__(
        self, tp: TopicPartition, found: PartitionMap, source_begin: int, bounds: tuple[int, int]
    ) -> None:
        """bounds: of the target, before the map was read."""
        table = found.table
        self._tp, self._table, self._map = tp, table, found
        # What one side has removed, the other cannot be compared with.
        source, target = max(source_begin, table.source_start), max(bounds[0], table.target_start)
        source = max(source, table.to_source(target).offset or 0)
        target = max(target, table.to_target(source).offset or 0)
        if target == table.target_start and found.is_alone:
            target = bounds[0]  # before the first mapped record, nothing may be
        self._source = (source, max(source, table.source_end))
        self._target = (target, max(target, table.target_end, bounds[1]))
        self._compared = self._differing = self._source_only = 0
        self._target_only = self._unmapped = 0
        self._first: list[str] = []

    async def run(self, source: SourceReader, target: SourceReader) -> None:
        theirs = _records(source, *self._source)
        one = await anext(theirs, None)
        async for other in _records(target, *self._target):
            translated = self._table.to_source(other.offset)
            if translated.result is not Result.EXACT or translated.offset is None:
                self._unmapped += 1
                self._tell(f"target offset {other.offset} is not in the map: not the mirror's")
                continue
            while one is not None and one.offset < translated.offset:
                self._lacks(one)
                one = await anext(theirs, None)
            if one is None or one.offset > translated.offset:
                self._target_only += 1
                continue
            self._compare(one, other)
            one = await anext(theirs, None)
        while one is not None:
            self._lacks(one)
            one = await anext(theirs, None)

    def result(self) -> Verified:
        return Verified(
            self._tp.topic, self._tp.partition, self._source, self._target, self._compared,
            self._differing, self._source_only, self._target_only, self._unmapped,
            self._map.lost_offsets, tuple(self._first),
        )  # fmt: skip

    def _lacks(self, one: SourceRecord) -> None:
        self._source_only += 1
        self._tell(f"source offset {one.offset} is not on the target")

    def _compare(self, one: SourceRecord, other: SourceRecord) -> None:
        self._compared += 1
        wrong = [
            name
            for name in ("key", "value", "headers", "timestamp")
            if getattr(one, name) != getattr(other, name)
        ]
        if wrong:
            self._differing += 1
            self._tell(f"source offset {one.offset}, target {other.offset}: {', '.join(wrong)}")

    def _tell(self, text: str) -> None:
        if len(self._first) < _FIRST:
            self._first.append(text)


async def _records(reader: SourceReader, start: int, end: int) -> AsyncIterator[SourceRecord]:
    """The visible records from start up to, without, end."""
    if start >= end:
        return
    reader.seek(start)
    clock, position = asyncio.get_running_loop().time, start
    moved_s = clock()
    while position < end:
        chunk = await reader.read(end)
        for record in chunk.records:
            yield record
        if chunk.end != position:
            position, moved_s = chunk.end, clock()
        elif clock() - moved_s > _STILL_S:
            raise TimeoutError(f"nothing comes from offset {position} on, {end} is its end")
