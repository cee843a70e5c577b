"""Sources whose logs change under the mirror: compaction, leaders that die."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate_spark.mirror.verify import compare
from support.kafka import kafka_log
from support.process.stack import RunningBroker, RunningCluster, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import copy
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1",
}


def produce(broker: RunningBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(count):
        producer.produce(topic, bytes(1000), b"%d" % (number % 40), partition=0)
    assert producer.flush(30) == 0


async def test_compacted_gaps_are_holes_of_the_map_and_no_difference(
    start_broker: Callable[..., RunningBroker], backfill: RunningBroker, topic_name: str
) -> None:
    two = Two(start_broker({"log.cleaner.backoff.ms": "200"}), backfill)
    mirror_world.create_map(backfill)
    early, late = f"{topic_name}-early", f"{topic_name}-late"
    for topic in (early, late):
        two.source.create_topic(topic, 1, {**COMPACTED, "cleanup.policy": "delete"})
        backfill.create_topic(topic, 1, mirror_world.TARGET_CONFIGS)
        produce(two.source, topic, 3000)
    assert (await copy(mirror_world.unit(two, early), two.options())).records == 3000
    for topic in (early, late):
        two.source.set_topic_configs(topic, COMPACTED)

    def are_compacted() -> bool:
        logs = [kafka_log.read_log(two.source.bootstrap, topic) for topic in (early, late)]
        return all(len(log) < 2000 for log in logs)

    await eventually(are_compacted, 60, 0.5)
    for topic in (early, late):  # nothing may change between a copy and its judgement
        two.source.set_topic_configs(topic, {"cleanup.policy": "delete"})
    produce(two.source, late, 100)
    seen: list[int] = []

    def are_at_rest() -> bool:
        """A cleaning that was under way has ended."""
        seen.append(
            sum(len(kafka_log.read_log(two.source.bootstrap, one)) for one in (early, late))
        )
        return len(seen) > 3 and len(set(seen[-3:])) == 1

    await eventually(are_at_rest, 30, 0.5)
    copied = await copy(mirror_world.unit(two, late), two.options())
    assert copied.records == mirror_world.judge(two, late) < 2500
    found = await compare(TopicPartition(early, 0), two.options())
    assert found.is_good
    assert found.target_only > 0
    assert found.compared > 0


@pytest.mark.full  # two clusters, one of three nodes
async def test_leaders_of_the_source_may_die(
    start_cluster: Callable[..., RunningCluster], kafka: RunningBroker, topic_name: str
) -> None:
    source = start_cluster(3)
    source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    two = Two(source, kafka)  # type: ignore[arg-type]
    mirror_world.create_map(kafka)
    kafka.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    OddSource(source, topic_name, seed=1).write(0, 5000)  # type: ignore[arg-type]
    task = asyncio.create_task(
        copy(mirror_world.unit(two, topic_name), two.options(chunk_records=10))
    )
    for before in (200, 1500):
        await eventually(
            lambda least=before: _mapped(two, topic_name) > least,
            60,  # type: ignore[misc]
        )
        leader = kafka_log.leader(source.bootstrap, topic_name, 0)
        source.nodes[leader - 1].kill()
        assert not task.done()
        await eventually(
            lambda gone=leader: kafka_log.leader(source.bootstrap, topic_name, 0) != gone, 60
        )
        await asyncio.to_thread(source.nodes[leader - 1].restart)
    await asyncio.wait_for(task, 200)
    assert mirror_world.judge(two, topic_name) >= 5000


def _mapped(two: Two, topic: str) -> int:
    found = mirror_world.read_maps(two.target, topic).get((topic, 0))
    return found.table.source_end if found else -1
