"""The whole map of a backfill cluster as the driver knows it, read again and again to its end."""

from itertools import islice
from typing import NamedTuple

from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    MapAddress,
    MapEntry,
    PartitionMap,
    map_partition,
    segment_key,
)
from headgate.replays.segments import MapError
from headgate_spark.copying.copy_plan import Known
from headgate_spark.job.connections import Connection
from headgate_spark.mirror.map_reader import read_map
from headgate_spark.mirror.skips import Reason, SkipError

_MAX_EXPIRED = 20_000  # of a table in one round, so that it stays short; the next takes more


class Seen(NamedTuple):
    """What the map has said of a partition since it was first read: what was copied to it.

    bytes: as they came from the source's brokers.
    """

    records: int = 0
    bytes: int = 0

    def plus(self, records: int, read_bytes: int) -> "Seen":
        """And so much more."""
        return Seen(self.records + records, self.bytes + read_bytes)


class MapView:
    """The maps of all partitions of all topics that have one, without the segments in blocks."""

    def __init__(self, target: Connection) -> None:
        self._target = target
        self._read = dict.fromkeys(range(MAP_PARTITIONS), 0)
        self._maps: dict[tuple[str, int], PartitionMap] = {}
        self._seen: dict[tuple[str, int], Seen] = {}
        self._broken: dict[tuple[str, int], MapError] = {}

    async def refresh(self) -> None:
        """Read on. Raises as `read_map`."""
        self._read = await read_map(self._target, self._read, self._see)

    def of(self, topic: str, partition: int) -> PartitionMap:
        """A partition's map; an empty one when it has none. Raises SkipError when it is broken."""
        if (topic, partition) in self._broken:
            raise SkipError(
                Reason.MAP,
                f"the offset map of {topic} partition {partition} in {MAP_TOPIC} contradicts "
                f"itself: {self._broken[topic, partition]}. Delete the mirror's topic to start "
                "again",
            )
        return self._maps.get((topic, partition), PartitionMap(is_outline=True))

    def seen(self, topic: str, partition: int) -> Seen:
        """What was copied, as far as what was read of the map says: it grows, whoever copies."""
        return self._seen.get((topic, partition), Seen())

    def is_broken(self, topic: str, partition: int) -> bool:
        """Whether its map contradicts itself."""
        return (topic, partition) in self._broken

    def of_topic(self, topic: str) -> list[PartitionMap]:
        """The maps of its partitions that have one, in any order."""
        return [one for (name, _), one in self._maps.items() if name == topic]

    def known(self, topic: str, partition: int) -> Known:
        """What a task need not read again."""
        number = map_partition(topic, partition)
        return Known.of(self.of(topic, partition), self._read[number])

    def expired(self, topic: str, partition: int, target_begin: int) -> list[bytes]:
        """Keys of segments that nobody needs: those of a deleted topic, and those that the
        target's retention has passed, but for the newest (`SegmentTable.passed`)."""
        found = self.of(topic, partition)
        keys: list[bytes] = []
        for newest, table in found.tables():
            ids = newest[1:3]
            is_deleted = ids != found.ids
            every = (record.source for record in table.records_from())
            sources = every if is_deleted else table.passed(target_begin)
            # Whichever layout it was written in: the others' keys mean nothing.
            layouts = [number for number, one in found.layouts.items() if one[1:3] == ids]
            keys += [
                segment_key(MapAddress(topic, partition, layout), source)
                for source in islice(sources, _MAX_EXPIRED)
                for layout in layouts
            ]
        return keys

    def _see(self, entry: MapEntry) -> None:
        topic, partition, _ = entry.place
        records = 0
        try:
            found = self._maps.setdefault((topic, partition), PartitionMap(is_outline=True))
            records = found.apply(entry)
        except MapError as error:  # of that partition alone: the others go on
            self._broken[topic, partition] = error
        self._seen[topic, partition] = self.seen(topic, partition).plus(records, entry.read_bytes)
