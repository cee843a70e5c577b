"""The offset map of the topics that are asked for, read from `headgate.offsets` when it is.

Only maps that were asked for are kept, packed; the least recently used go first, and are read again
when somebody asks for them. Each partition of the map topic is read once, then what is new; for
another topic of the same map partition it is read again.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from headgate.backends.kafka.compacted import CompactedTopic, NoTopicError
from headgate.backends.kafka.options import ClusterOptions
from headgate.core.replays.offset_map import (
    MAP_TOPIC,
    MapEntry,
    NewerMapError,
    PartitionMap,
    map_partition,
    owner_of,
    read_entry,
)
from headgate.core.replays.segments import MapError

MAX_BYTES = 64_000_000  # some 16 million segments
_EMPTY_BYTES = 1_800  # what a map takes without any


class MappedPartition(NamedTuple):
    """Whose map it is."""

    topic: str
    partition: int


class OffsetMaps:
    """Maps of one backfill cluster. max_bytes: of memory; the last one asked for stays."""

    def __init__(self, options: ClusterOptions, max_bytes: int = MAX_BYTES) -> None:
        self._log = CompactedTopic(options, MAP_TOPIC, self._see, self._restart)
        self._maps: OrderedDict[MappedPartition, PartitionMap] = OrderedDict()
        self._max_bytes = max_bytes
        self._reading = asyncio.Lock()
        self.unread = 0

    def __len__(self) -> int:
        return len(self._maps)

    def still(self) -> asyncio.Lock:
        """Held while maps are looked at from another thread: nothing is read into them then."""
        return self._reading

    async def of(self, topic: str, partitions: Iterable[int]) -> Mapping[int, PartitionMap]:
        """The newest maps of these partitions. Raises as `CompactedTopic.read_new`, and
        NewerMapError."""
        wanted = [MappedPartition(topic, partition) for partition in partitions]
        async with self._reading:
            for owner in wanted:
                if owner not in self._maps:
                    self._maps[owner] = PartitionMap()
                    self._log.forget(map_partition(*owner))
            with suppress(NoTopicError):  # nothing was ever mirrored
                await self._log.read_new({map_partition(*owner) for owner in wanted})
            for owner in wanted:
                self._maps.move_to_end(owner)
            found = {owner.partition: self._maps[owner] for owner in wanted}
            self._evict(len(wanted))
        for partition, one in found.items():
            if one.is_newer:
                raise NewerMapError(topic, partition)
        return found

    def _see(self, _partition: int, key: bytes | None, value: bytes | None) -> None:
        owner = owner_of(key)
        if owner is not None and owner not in self._maps:
            return
        try:
            entry = read_entry(key, value)
            if entry is not None:
                self._apply(entry)
        except NewerMapError as error:
            found = self._maps.get(MappedPartition(error.topic, error.partition))
            if found is not None:
                found.is_newer = True
        except MapError:
            self.unread += 1

    def _apply(self, entry: MapEntry) -> None:
        found = self._maps.get(MappedPartition(entry.place.topic, entry.place.partition))
        if found is not None:
            found.apply(entry)

    def _restart(self, partition: int) -> None:
        for owner in self._maps:
            if map_partition(*owner) == partition:
                self._maps[owner] = PartitionMap()

    def _evict(self, minimum: int) -> None:
        kept = sum(_size(one) for one in self._maps.values())
        while kept > self._max_bytes and len(self._maps) > minimum:
            _, gone = self._maps.popitem(last=False)
            kept -= _size(gone)


def _size(one: PartitionMap) -> int:
    return _EMPTY_BYTES + sum(table.memory for _, table in one.tables())
