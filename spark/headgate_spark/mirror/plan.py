"""The plan of a mirror's round: topics created and checked, layouts opened, ranges fixed."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

from aiokafka.errors import BrokerResponseError
from aiokafka.structs import TopicPartition

from headgate.kafka.wire import Metadata, TopicMetadata
from headgate.model.internal_topics import InternalTopic, replicas_on
from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    Layout,
    MapAddress,
    MapEntry,
    PartitionMap,
    map_partition,
    map_topic,
    map_topic_faults,
    segment_key,
)
from headgate.replays.packed import MapError
from headgate_spark.copying.cluster import ClusterAdmin, TopicConfig, faults, wanted_configs
from headgate_spark.copying.reader import CopyUnit, MapState
from headgate_spark.job.command_line import JobError
from headgate_spark.job.options import Connection
from headgate_spark.mirror.writer import read_map

# ---- topics that cannot be mirrored now: each is skipped, reported and counted


_SAID_AGAIN_S = 300.0


class Reason(StrEnum):
    """The reason of a skipped topic, a label of the metric."""

    SETTINGS = "settings"  # the backfill topic's would not keep the records as they are
    PARTITIONS = "partitions"  # the backfill topic has more of them
    FOREIGN = "foreign"  # something else has written to the backfill topic
    MAP = "map"  # its offset map contradicts itself
    NO_LEADER = "no_leader"  # one of its partitions is offline
    REFUSED = "refused"  # Kafka does not make it, or does not add partitions


class Skip(NamedTuple):
    """A skipped topic. `text` has the problem and the fix."""

    reason: Reason
    text: str


class SkipError(JobError):
    """A topic that cannot be mirrored; the others can."""

    def __init__(self, reason: Reason, text: str) -> None:
        super().__init__(text)
        self.skip = Skip(reason, text)


class Skips:
    """The skipped topics. A skip is reported when it begins, changes and ends, and at intervals."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said_s: dict[str, float] = {}
        self.now: Mapping[str, Skip] = {}

    def report(self, skips: Mapping[str, Skip], topics: Collection[str], now_s: float) -> None:
        """Report this round's skips. `topics`: all topics to mirror. `now_s`: a steady clock."""
        before, self.now = self.now, dict(skips)
        for topic, skip in skips.items():
            is_known = before.get(topic) == skip
            if not is_known or now_s - self._said_s[topic] >= _SAID_AGAIN_S:
                self._said_s[topic] = now_s
                self._say(f"topic {topic} is skipped ({skip.reason}): {skip.text}")
        for topic in before.keys() - skips.keys():
            if topic in topics:
                self._say(f"topic {topic} can be mirrored again")


# ---- the driver's view of the whole map of a backfill cluster


_MAX_EXPIRED = 20_000  # of a table in one round, so that it stays short; the next takes more


class Seen(NamedTuple):
    """The records that were copied to a partition since its map was first read.

    `bytes`: their size as they came from the source's brokers.
    """

    records: int = 0
    bytes: int = 0

    def plus(self, records: int, read_bytes: int) -> "Seen":
        """Add records and bytes."""
        return Seen(self.records + records, self.bytes + read_bytes)


class MapView:
    """The maps of all partitions of all mirrored topics, without the segments in blocks."""

    def __init__(self, target: Connection) -> None:
        self._target = target
        self._read = dict.fromkeys(range(MAP_PARTITIONS), 0)
        self._maps: dict[tuple[str, int], PartitionMap] = {}
        self._seen: dict[tuple[str, int], Seen] = {}
        self._broken: dict[tuple[str, int], MapError] = {}

    async def refresh(self) -> None:
        """Read new records. Raises as `read_map`."""
        self._read = await read_map(self._target, self._read, self._see)

    def of(self, topic: str, partition: int) -> PartitionMap:
        """Return a partition's map, or an empty one. Raises SkipError if it is broken."""
        if (topic, partition) in self._broken:
            raise SkipError(
                Reason.MAP,
                f"the offset map of {topic} partition {partition} in {MAP_TOPIC} contradicts "
                f"itself: {self._broken[topic, partition]}. Delete the mirror's topic to start "
                "again",
            )
        return self._maps.get((topic, partition), PartitionMap(is_outline=True))

    def seen(self, topic: str, partition: int) -> Seen:
        """Return the copied records, as far as the map has been read."""
        return self._seen.get((topic, partition), Seen())

    def is_broken(self, topic: str, partition: int) -> bool:
        """Return whether a partition's map contradicts itself."""
        return (topic, partition) in self._broken

    def of_topic(self, topic: str) -> list[PartitionMap]:
        """Return the maps of its partitions, in any order."""
        return [partition_map for (name, _), partition_map in self._maps.items() if name == topic]

    def map_state(self, topic: str, partition: int) -> MapState:
        """Return the part of the map that a task need not read again."""
        number = map_partition(topic, partition)
        return MapState.of(self.of(topic, partition), self._read[number])

    def expired(self, topic: str, partition: int, target_begin: int) -> list[bytes]:
        """Return the keys of useless segments.

        They belong to a deleted topic, or the target's retention has passed them; the newest
        segments stay (`SegmentTable.passed`).
        """
        partition_map = self.of(topic, partition)
        keys: list[bytes] = []
        for newest, table in partition_map.tables():
            ids = newest[1:3]
            is_deleted = ids != partition_map.ids
            every = (record.source for record in table.records_from())
            sources = every if is_deleted else table.passed(target_begin)
            # Whichever layout it was written in: the others' keys mean nothing.
            layouts = [
                number for number, layout in partition_map.layouts.items() if layout[1:3] == ids
            ]
            keys += [
                segment_key(MapAddress(topic, partition, layout), source)
                for source in islice(sources, _MAX_EXPIRED)
                for layout in layouts
            ]
        return keys

    def _see(self, entry: MapEntry) -> None:
        topic, partition, _ = entry.address
        records = 0
        try:
            partition_map = self._maps.setdefault((topic, partition), PartitionMap(is_outline=True))
            records = partition_map.apply(entry)
        except MapError as error:  # of that partition alone: the others go on
            self._broken[topic, partition] = error
        self._seen[topic, partition] = self.seen(topic, partition).plus(records, entry.read_bytes)


# ---- the plan of a round


Shape = Mapping[str, tuple[str, int]]  # topic -> id and number of partitions


class Plan(NamedTuple):
    """The plan of a round.

    Attributes:
        units: The units, the largest first.
        ends: The last stable offset of every partition, also of skipped topics if it is known.
        shape: The source's topics; another shape needs another plan.
        leaders: The source's broker of each unit's partition.
    """

    units: Sequence[CopyUnit]
    ends: Mapping[TopicPartition, int]
    shape: Shape
    leaders: Mapping[TopicPartition, int]
    skipped: Mapping[str, Skip]

    @property
    def fit(self) -> list[TopicPartition]:
        """Return the partitions that are mirrored."""
        return [tp for tp in self.ends if tp.topic not in self.skipped]


def shape_of(metadata: Metadata, topics: Sequence[str]) -> Shape:
    """Return the properties of a topic on which a plan depends."""
    existing = {name: metadata.topics[name] for name in topics if name in metadata.topics}
    return {name: (topic.uuid, len(topic.leaders)) for name, topic in existing.items()}


async def prepare_map(target: ClusterAdmin) -> None:
    """Create the map topic if it is missing. Raises JobError if it has wrong settings."""
    metadata = await target.metadata()
    topic = metadata.topics.get(MAP_TOPIC)
    if topic is None:
        await target.create([map_topic(target.connection.name, len(metadata.nodes))])
        await target.settled({MAP_TOPIC: MAP_PARTITIONS})
        return
    policy = (await target.configs([MAP_TOPIC]))[MAP_TOPIC].values["cleanup.policy"]
    wrong = map_topic_faults(len(topic.leaders), policy)
    if wrong:
        raise JobError(f"topic {MAP_TOPIC} on cluster {target.connection.name}: {'; '.join(wrong)}")


async def prepare_topics(
    source: ClusterAdmin, target: ClusterAdmin, topics: Sequence[str], retention_ms: int
) -> dict[str, Skip]:
    """Create and grow the mirror's topics; return those that would not keep the records."""
    source_metadata, target_metadata = await source.metadata(), await target.metadata()
    topics = [
        name for name in topics if name in source_metadata.topics
    ]  # one may have gone just now
    existing = [name for name in topics if name in target_metadata.topics]
    sources, hidden = await source.configs_or_errors(topics)
    targets, hidden_here = await target.configs_or_errors(existing)
    hidden |= hidden_here
    skipped = {name: Skip(Reason.REFUSED, str(error)) for name, error in hidden.items()}
    skipped |= {name: skip for name in topics if (skip := _offline(source, source_metadata, name))}
    for name in existing:
        if name in skipped:
            continue
        skip = _unfit(
            target, name, (sources[name], targets[name]), source_metadata, target_metadata
        )
        if skip is not None:
            skipped[name] = skip
    wanted = {
        name: len(source_metadata.topics[name].leaders) for name in topics if name not in skipped
    }
    replicas = replicas_on(len(target_metadata.nodes))
    new = [
        InternalTopic(
            name, target.connection.name, partitions, replicas,
            wanted_configs(sources[name], retention_ms),
        )
        for name, partitions in wanted.items()
        if name not in target_metadata.topics
    ]  # fmt: skip
    refused = await _create(target, new)
    for name, partitions in wanted.items():
        if (
            name in target_metadata.topics
            and len(target_metadata.topics[name].leaders) < partitions
        ):
            refused |= await _refusal(name, target.grow(name, partitions))
    made = {name: partitions for name, partitions in wanted.items() if name not in refused}
    late = await target.late(made)
    return {**skipped, **refused, **{name: _no_leader(target, name) for name in late}}


def _offline(cluster: ClusterAdmin, metadata: Metadata, name: str) -> Skip | None:
    leaders = metadata.topics[name].leaders
    return _no_leader(cluster, name) if min(leaders, default=-1) < 0 else None


def _no_leader(cluster: ClusterAdmin, name: str) -> Skip:
    text = f"a partition of topic {name} on cluster {cluster.connection.name} has no leader"
    return Skip(Reason.NO_LEADER, text)


def _unfit(
    target: ClusterAdmin,
    name: str,
    configs: tuple[TopicConfig, TopicConfig],
    source_metadata: Metadata,
    target_metadata: Metadata,
) -> Skip | None:
    wrong, reason = faults(*configs), Reason.SETTINGS
    counts = len(source_metadata.topics[name].leaders), len(target_metadata.topics[name].leaders)
    if counts[1] > counts[0]:
        wrong.append(f"it has {counts[1]} partitions, its source {counts[0]}: delete it")
        reason = Reason.PARTITIONS
    if not wrong:
        return _offline(target, target_metadata, name)
    return Skip(
        reason,
        f"topic {name} exists on cluster {target.connection.name}, and would not be a true "
        f"mirror: {'; '.join(wrong)}",
    )


async def _create(target: ClusterAdmin, topics: Sequence[InternalTopic]) -> dict[str, Skip]:
    try:
        await target.create(topics)
    except BrokerResponseError:  # one by one, so that one alone is refused
        refused: dict[str, Skip] = {}
        for topic in topics:
            refused |= await _refusal(topic.name, target.create([topic]))
        return refused
    return {}


async def _refusal(name: str, attempt: Awaitable[None]) -> dict[str, Skip]:
    try:
        await attempt
    except BrokerResponseError as error:
        return {name: Skip(Reason.REFUSED, str(error))}
    return {}


async def plan(
    source: ClusterAdmin, target: ClusterAdmin, view: MapView, topics: Sequence[str], now_ms: int,
    *, is_bounded: bool, checks_tail: bool = False,
    skipped: Mapping[str, Skip] = MappingProxyType({}),
) -> Plan:  # fmt: skip
    """Return the units to copy or to follow now. The topics must be prepared.

    Args:
        checks_tail: Include units without records to copy if the target is longer than the
            mirror made it.
        skipped: The topics that cannot be mirrored. They have no units, but their ends are
            returned if possible.
    """
    source_metadata, target_metadata = await source.metadata(), await target.metadata()
    shape, skips = shape_of(source_metadata, topics), dict(skipped)
    readable = [
        name for name in shape if name not in skips or skips[name].reason is not Reason.NO_LEADER
    ]
    tps = {
        TopicPartition(name, number): leader
        for name in readable
        for number, leader in enumerate(source_metadata.topics[name].leaders)
    }
    bounds, units = await source.bounds(tps), list[CopyUnit]()
    fit = [name for name in readable if name not in skips and name in target_metadata.topics]
    limits = await target.configs(fit)
    fit_tps = [tp for tp in tps if tp.topic in fit]
    tails = (
        {tp: end for tp, (_, end) in (await target.bounds(fit_tps)).items()} if checks_tail else {}
    )
    for name in fit:
        try:
            layout = layout_of(
                view, name, source_metadata.topics[name], target_metadata.topics[name], now_ms
            )
            if layout[0] == 1 and not view.of_topic(name):
                await _must_be_empty(target, name, target_metadata.topics[name])
            limit = limits[name].number("max.message.bytes")
            units += _units(view, name, layout, (bounds, tails), limit, is_bounded=is_bounded)
        except SkipError as error:
            skips[name] = error.skip
    units.sort(key=lambda unit: _left(unit, bounds), reverse=True)
    ends = {tp: bounds[tp][1] for tp in tps if not view.is_broken(*tp)}
    return Plan(units, ends, shape, tps, skips)


def _units(
    view: MapView, name: str, numbered: tuple[int, Layout],
    seen: tuple[Mapping[TopicPartition, tuple[int, int]], Mapping[TopicPartition, int]],
    limit: int, *, is_bounded: bool,
) -> list[CopyUnit]:  # fmt: skip
    (number, layout), (bounds, tails) = numbered, seen
    units = []
    for partition in range(layout.partitions):
        tp = TopicPartition(name, partition)
        end, state = bounds[tp][1], view.map_state(name, partition)
        is_done = is_bounded and state.layout == number and (state.position or 0) >= end
        if is_done and not state.is_longer(tails.get(tp, 0)):
            continue
        address = MapAddress(name, partition, number)
        units.append(CopyUnit(address, layout, end if is_bounded else None, state, limit))
    return units


def layout_of(
    view: MapView, topic: str, source: TopicMetadata, target: TopicMetadata, now_ms: int
) -> tuple[int, Layout]:
    """Return the active layout: the newest of any partition, or the next if it does not fit."""
    wanted = Layout(len(source.leaders), source.uuid, target.uuid, now_ms)
    maps = [partition_map for partition_map in view.of_topic(topic) if partition_map.newest]
    number = max((partition_map.newest for partition_map in maps), default=0)
    newest = next(
        (partition_map.layouts[number] for partition_map in maps if partition_map.newest == number),
        None,
    )
    if newest is not None and newest[:3] == wanted[:3]:
        return number, newest
    return number + 1, wanted


async def _must_be_empty(target: ClusterAdmin, name: str, metadata: TopicMetadata) -> None:
    bounds = await target.bounds(
        TopicPartition(name, number) for number in range(len(metadata.leaders))
    )
    if any(end for _, end in bounds.values()):
        raise SkipError(
            Reason.FOREIGN,
            f"topic {name} on cluster {target.connection.name} has records and no offset map in "
            f"{MAP_TOPIC}: something else wrote it. Delete it",
        )


def _left(unit: CopyUnit, bounds: Mapping[TopicPartition, tuple[int, int]]) -> int:
    begin, end = bounds[TopicPartition(*unit.address[:2])]
    return end - max(begin, unit.map_state.position or 0)


async def trim(target: ClusterAdmin, view: MapView, tps: Sequence[TopicPartition]) -> int:
    """Remove segments that the target's retention has passed; return the number of keys."""
    keys: dict[int, list[bytes]] = {}
    for tp, (begin, _) in (await target.bounds(tps)).items():
        expired = view.expired(tp.topic, tp.partition, begin)
        keys.setdefault(map_partition(tp.topic, tp.partition), []).extend(expired)
    by_partition = {
        number: partition_keys for number, partition_keys in keys.items() if partition_keys
    }
    if by_partition:
        await target.remove(MAP_TOPIC, by_partition)
    return sum(map(len, by_partition.values()))


def maps(view: MapView, tps: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionMap]:
    """Return the map of each partition, without those that contradict themselves."""
    return {tp: view.of(*tp) for tp in tps if not view.is_broken(*tp)}
