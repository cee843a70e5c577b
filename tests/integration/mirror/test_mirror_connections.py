"""The producers of a task share their connections, whatever becomes of one of them."""

from __future__ import annotations

import asyncio

import psutil
import pytest

from headgate_spark.mirror.copy_tasks import copy_all
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


async def test_a_task_has_few_connections_to_the_target_however_many_partitions_it_follows(
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
    before = sockets(backfill)
    following = asyncio.create_task(copy_all(units, two.options(interval_s=0.3)))
    try:
        await eventually(is_mirrored, 30)
        # producers two, and one of who follows the registry
        await eventually(lambda: sockets(backfill) - before <= 3, 30)
        # The first copier of partition 0 is fenced; its neighbours do not notice.
        other = asyncio.create_task(run(units[0], two.options(interval_s=0.3)))
        await eventually(lambda: sockets(backfill) - before > 3, 30)
        for partition in range(PARTITIONS):
            await asyncio.to_thread(source.write, partition, 20)
        ends = kafka_log.stable_offsets(kafka.bootstrap, topic_name)
        await eventually(is_mirrored, 30)
        other.cancel()
        await asyncio.wait([other])
    finally:
        following.cancel()
        await asyncio.wait([following])
    await eventually(lambda: sockets(backfill) <= before, 30)
    assert mirror_world.judge(two, topic_name) >= 40 * PARTITIONS
