"""A copy whose source is deleted, or one of whose clusters is away for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest
from aiokafka.structs import TopicPartition

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate_spark.copying.cluster import open_consumer
from headgate_spark.job.options import Connection
from support.kafka import kafka_log
from support.kafka.kafka_relay import kafka_relay
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import following, mapped_end, produce, run
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka


async def test_a_deleted_topic_is_not_brought_back(
    start_broker: Callable[..., RunningBroker], backfill: RunningBroker, topic_name: str
) -> None:
    """Brokers make topics that clients ask for, unless they are told otherwise."""
    two = Two(start_broker({"auto.create.topics.enable": "true"}), backfill)
    mirror_world.create_map(backfill)
    two.source.create_topic(topic_name, 1)
    backfill.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    produce(two.source, topic_name, [b"a"])
    unit = mirror_world.unit(two, topic_name, end=None)
    async with following(unit, two.options(interval_s=0.2)) as task:
        await eventually(lambda: mapped_end(two, topic_name) == 1)
        two.source.delete_topic(topic_name)
        await eventually(lambda: topic_name not in kafka_log.topic_names(two.source.bootstrap))
        with suppress(TimeoutError):  # it asks for metadata again and again
            await asyncio.wait_for(asyncio.shield(task), 4)
        assert topic_name not in kafka_log.topic_names(two.source.bootstrap)


async def test_a_job_that_was_told_of_no_broker_asks_the_bootstrap_servers_again(
    kafka: RunningBroker, topic_name: str
) -> None:
    """As a broker answers that the controller has fenced."""
    kafka.create_topic(topic_name, 1)
    tp = TopicPartition(topic_name, 0)
    async with kafka_relay(kafka.bootstrap) as relay:
        relay.names_brokers = False
        consumer = open_consumer(Connection(relay.bootstrap, name="main"))
        try:
            await consumer.start()
            consumer.assign([tp])
            assert relay.unnamed > 0
            relay.names_brokers = True
            assert await asyncio.wait_for(consumer.end_offsets([tp]), 15) == {tp: 0}
        finally:
            await drop_consumer(consumer)


@pytest.mark.full  # half a minute each; a kill of the copier is in every run
@pytest.mark.parametrize("down_s", [3.0, 30.0])
@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
async def test_a_tier_that_is_down_for_a_while_is_waited_for(
    kafka: RunningBroker, start_broker: Callable[..., RunningBroker], topic_name: str,
    side: int, down_s: float,
) -> None:  # fmt: skip
    own = start_broker()
    two = Two(own, kafka) if side == 0 else Two(kafka, own)
    mirror_world.create_map(two.target)
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    OddSource(two.source, topic_name, seed=1).write(0, 2000)
    task = asyncio.create_task(
        run(mirror_world.unit(two, topic_name), two.options(chunk_records=20))
    )
    await eventually(lambda: mapped_end(two, topic_name) > 100, 20)
    own.kill()
    done, _ = await asyncio.wait([task], timeout=down_s)
    assert not done
    await asyncio.to_thread(own.restart)
    copied = await asyncio.wait_for(task, 120)
    assert copied.trouble is None
    assert mirror_world.judge(two, topic_name) >= 2000
