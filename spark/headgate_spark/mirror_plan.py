"""Plans a mirror's next round: topics made and checked, layouts opened, ranges fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from aiokafka.structs import TopicPartition

from headgate.core.internal_topics import InternalTopic, map_topic, map_topic_faults
from headgate.core.offset_map import (
    MAP_PARTITIONS,
    MAP_TOPIC,
    Layout,
    PartitionMap,
    Place,
    map_partition,
)
from headgate_spark.cluster_admin import ClusterAdmin
from headgate_spark.cluster_facts import ClusterFacts, TopicFacts
from headgate_spark.copy_plan import Unit
from headgate_spark.errors import USAGE, JobError
from headgate_spark.map_view import MapView
from headgate_spark.mirror_topics import TopicConfig, faults, wanted_configs

Shape = Mapping[str, tuple[str, int]]  # topic -> id and number of partitions


class Plan(NamedTuple):
    """A round. units: the largest first.  ends: of every partition, the last stable offset.

    shape: what the source's topics were; another one means another plan.
    leaders: the source's broker of each unit's partition.
    """

    units: Sequence[Unit]
    ends: Mapping[TopicPartition, int]
    shape: Shape
    leaders: Mapping[TopicPartition, int]


def shape_of(facts: ClusterFacts, topics: Sequence[str]) -> Shape:
    """What a plan depends on."""
    found = {name: facts.topics[name] for name in topics if name in facts.topics}
    return {name: (one.topic_id, len(one.leaders)) for name, one in found.items()}


async def prepare_map(target: ClusterAdmin) -> None:
    """Make the map topic unless it is there. Raises JobError when it is not what it must be."""
    facts = await target.facts()
    found = facts.topics.get(MAP_TOPIC)
    if found is None:
        await target.create([map_topic(target.connection.name, len(facts.nodes))])
        await target.settled({MAP_TOPIC: MAP_PARTITIONS})
        return
    policy = (await target.configs([MAP_TOPIC]))[MAP_TOPIC].values["cleanup.policy"]
    wrong = map_topic_faults(len(found.leaders), policy)
    if wrong:
        raise JobError(f"topic {MAP_TOPIC} on cluster {target.connection.name}: {'; '.join(wrong)}")


async def prepare_topics(
    source: ClusterAdmin, target: ClusterAdmin, topics: Sequence[str], retention_ms: int
) -> None:
    """Make and grow the mirror's topics, and refuse those that would not keep the records."""
    there, here = await source.facts(), await target.facts()
    existing = [name for name in topics if name in here.topics]
    sources, targets = await source.configs(topics), await target.configs(existing)
    for name in existing:
        _refuse(target, name, _faults(sources[name], targets[name], there, here, name))
    replicas = min(3, len(here.nodes))
    await target.create(
        InternalTopic(
            name, target.connection.name, len(there.topics[name].leaders), replicas,
            wanted_configs(sources[name], retention_ms),
        )
        for name in topics
        if name not in here.topics
    )  # fmt: skip
    for name in existing:
        partitions = len(there.topics[name].leaders)
        if len(here.topics[name].leaders) < partitions:
            await target.grow(name, partitions)
    await target.settled({name: len(there.topics[name].leaders) for name in topics})


def _faults(
    source: TopicConfig, target: TopicConfig, there: ClusterFacts, here: ClusterFacts, name: str
) -> list[str]:
    wrong = faults(source, target)
    counts = len(there.topics[name].leaders), len(here.topics[name].leaders)
    if counts[1] > counts[0]:
        wrong.append(f"it has {counts[1]} partitions, its source {counts[0]}: delete it")
    return wrong


def _refuse(target: ClusterAdmin, name: str, wrong: Sequence[str]) -> None:
    if wrong:
        raise JobError(
            f"topic {name} exists on cluster {target.connection.name}, and would not be a true "
            f"mirror: {'; '.join(wrong)}",
            USAGE,
        )


async def plan(
    source: ClusterAdmin, target: ClusterAdmin, view: MapView, topics: Sequence[str], now_ms: int,
    *, is_bounded: bool, looks: bool = False,
) -> Plan:  # fmt: skip
    """What is to be copied now, or followed. The topics must be prepared.

    looks: also where there is nothing to copy and the target is longer than the mirror made it.
    """
    there, here = await source.facts(), await target.facts()
    shape = shape_of(there, topics)
    limits = await target.configs(list(shape))
    tps = {
        TopicPartition(name, number): leader
        for name in shape
        for number, leader in enumerate(there.topics[name].leaders)
    }
    bounds, units = await source.bounds(tps), []
    tails = {tp: end for tp, (_, end) in (await target.bounds(tps)).items()} if looks else {}
    for name in shape:
        number, layout = layout_of(view, name, there.topics[name], here.topics[name], now_ms)
        if number == 1 and not view.of_topic(name):
            await _must_be_empty(target, name, here.topics[name])
        for partition in range(layout.partitions):
            end = bounds[TopicPartition(name, partition)][1]
            known = view.known(name, partition)
            is_done = is_bounded and known.layout == number and (known.position or 0) >= end
            if is_done and not known.is_longer(tails.get(TopicPartition(name, partition), 0)):
                continue
            place = Place(name, partition, number)
            limit = limits[name].number("max.message.bytes")
            units.append(Unit(place, layout, end if is_bounded else None, known, limit))
    units.sort(key=lambda unit: _left(unit, bounds), reverse=True)
    return Plan(units, {tp: bounds[tp][1] for tp in tps}, shape, tps)


def layout_of(
    view: MapView, topic: str, source: TopicFacts, target: TopicFacts, now_ms: int
) -> tuple[int, Layout]:
    """The layout in force: the newest that any partition has, or one more when it does not fit."""
    wanted = Layout(len(source.leaders), source.topic_id, target.topic_id, now_ms)
    maps = [one for one in view.of_topic(topic) if one.newest]
    number = max((one.newest for one in maps), default=0)
    newest = next((one.layouts[number] for one in maps if one.newest == number), None)
    if newest is not None and newest[:3] == wanted[:3]:
        return number, newest
    return number + 1, wanted


async def _must_be_empty(target: ClusterAdmin, name: str, facts: TopicFacts) -> None:
    bounds = await target.bounds(TopicPartition(name, one) for one in range(len(facts.leaders)))
    if any(end for _, end in bounds.values()):
        raise JobError(
            f"topic {name} on cluster {target.connection.name} has records and no offset map in "
            f"{MAP_TOPIC}: something else wrote it. Delete it, and run this again",
            USAGE,
        )


def _left(unit: Unit, bounds: Mapping[TopicPartition, tuple[int, int]]) -> int:
    begin, end = bounds[TopicPartition(*unit.place[:2])]
    return end - max(begin, unit.known.position or 0)


async def trim(target: ClusterAdmin, view: MapView, tps: Sequence[TopicPartition]) -> int:
    """Take segments back whose records the target's retention has removed; how many keys."""
    keys: dict[int, list[bytes]] = {}
    for tp, (begin, _) in (await target.bounds(tps)).items():
        expired = view.expired(tp.topic, tp.partition, begin)
        keys.setdefault(map_partition(tp.topic, tp.partition), []).extend(expired)
    found = {number: some for number, some in keys.items() if some}
    if found:
        await target.remove(MAP_TOPIC, found)
    return sum(map(len, found.values()))


def positions(view: MapView, tps: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """How far each partition is mirrored."""
    return {tp: view.of(tp.topic, tp.partition).table.source_end for tp in tps}


def maps(view: MapView, tps: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionMap]:
    """The map of each partition."""
    return {tp: view.of(tp.topic, tp.partition) for tp in tps}
