"""The partitions of a task share its connections, whatever becomes of one of them."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaConsumer

from headgate_spark.copying import reader as source_reader
from headgate_spark.copying.cluster import open_consumer
from headgate_spark.mirror.copier import copy_all
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import run
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka
PARTITIONS = 7


def sockets(broker: RunningBroker) -> int:
    """Those of this process to a broker."""
    port = int(broker.bootstrap.rpartition(":")[2])
    return sum(
        bool(one.raddr) and one.raddr.port == port for one in psutil.Process().net_connections()
    )


async def test_a_task_has_few_connections_however_many_partitions_it_follows(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str
) -> None:
    two = Two(kafka, backfill)
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, PARTITIONS, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, PARTITIONS, mirror_world.TARGET_CONFIGS)
    source = OddSource(kafka, topic_name, seed=4)
    for partition in range(PARTITIONS):
        await asyncio.to_thread(source.write, partition, 20)
    ends = kafka_log.stable_offsets(kafka.bootstrap, topic_name)

    def is_mirrored() -> bool:
        maps = mirror_world.read_maps(backfill, topic_name)
        return len(maps) == PARTITIONS and all(
            maps[topic_name, one].table.source_end >= ends[one] for one in range(PARTITIONS)
        )

    units = [mirror_world.unit(two, topic_name, one, end=None) for one in range(PARTITIONS)]
    before, before_source = sockets(backfill), sockets(kafka)
    following = asyncio.create_task(copy_all(units, two.options(interval_s=0.3)))
    try:
        await eventually(is_mirrored, 30)
        # two of the producers, and one of the consumer that follows the registry
        await eventually(lambda: sockets(backfill) - before <= 3, 30)
        assert sockets(kafka) - before_source == 1
        # The first copier of partition 0 is fenced; its neighbours do not notice.
        other = asyncio.create_task(run(units[0], two.options(interval_s=0.3)))
        await eventually(lambda: sockets(backfill) - before > 3, 30)
        for partition in range(PARTITIONS):
            await asyncio.to_thread(source.write, partition, 20)
        ends = kafka_log.stable_offsets(kafka.bootstrap, topic_name)
        await eventually(is_mirrored, 30)
        other.cancel()
        await asyncio.wait([other])
        await eventually(lambda: sockets(kafka) - before_source == 1, 30)
    finally:
        following.cancel()
        await asyncio.wait([following])
    await eventually(lambda: sockets(backfill) <= before, 30)
    await eventually(lambda: sockets(kafka) <= before_source, 30)
    assert mirror_world.judge(two, topic_name) >= 40 * PARTITIONS


async def test_partitions_go_on_when_their_consumer_ends(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer of aiokafka whose own task has failed returns no records, and no error."""
    made: list[AIOKafkaConsumer] = []

    def make(*arguments: Any, **options: Any) -> AIOKafkaConsumer:
        made.append(open_consumer(*arguments, **options))
        return made[-1]

    two = Two(kafka, backfill)
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, PARTITIONS, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, PARTITIONS, mirror_world.TARGET_CONFIGS)
    source = OddSource(kafka, topic_name, seed=5)
    for partition in range(PARTITIONS):
        await asyncio.to_thread(source.write, partition, 5)
    units = [mirror_world.unit(two, topic_name, one, end=None) for one in range(PARTITIONS)]
    monkeypatch.setattr(source_reader, "open_consumer", make)
    before = sockets(kafka)
    following = asyncio.create_task(copy_all(units, two.options(interval_s=0.3)))

    def is_mirrored() -> bool:
        ends = kafka_log.stable_offsets(kafka.bootstrap, topic_name)
        maps = mirror_world.read_maps(backfill, topic_name)
        return len(maps) == PARTITIONS and all(
            maps[topic_name, one].table.source_end >= ends[one] for one in range(PARTITIONS)
        )

    try:
        await eventually(is_mirrored, 60)
        for number, name in enumerate(("_fetcher._fetch_task", "_client._sync_task")):
            # Others look at the target for a moment, each for one partition.
            shared = [one for one in made if len(one.assignment()) == PARTITIONS]
            assert len(shared) == number + 1
            attrgetter(name)(shared[-1]).cancel()
            for partition in range(PARTITIONS):
                await asyncio.to_thread(source.write, partition, 5)
            await eventually(is_mirrored, 60)
        await eventually(lambda: sockets(kafka) - before == 1, 30)
    finally:
        following.cancel()
        await asyncio.wait([following])
    await eventually(lambda: sockets(kafka) <= before, 30)
    assert mirror_world.judge(two, topic_name) >= 15 * PARTITIONS
