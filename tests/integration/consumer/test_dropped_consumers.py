"""A consumer that is dropped leaves no task behind: each would be an ERROR in the log later."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headgate.kafka.aiokafka_internals import drop_consumer
from headgate.kafka.logs import consumer_of, ends_of
from headgate.kafka.options import ClusterOptions
from support.process.stack import RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka


async def nothing_left(before: set[asyncio.Task[None]]) -> None:
    await eventually(lambda: not {one for one in asyncio.all_tasks() - before if not one.done()})


async def test_dropped_consumer_that_has_read_leaves_no_task(
    kafka: RunningBroker, topic_name: str
) -> None:
    before = asyncio.all_tasks()
    kafka.create_topic(topic_name, 2)
    places = [TopicPartition(topic_name, number) for number in range(2)]
    async with consumer_of(ClusterOptions(kafka.bootstrap)) as consumer:
        assert await ends_of(consumer, places) == dict.fromkeys(places, 0)
        await consumer.getmany(timeout_ms=10)
    await nothing_left(before)


async def test_dropped_consumer_that_never_connected_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    options = ClusterOptions(f"127.0.0.1:{free_port()}")
    with pytest.raises(KafkaError):
        async with consumer_of(options):
            raise AssertionError("there is nobody there")
    await nothing_left(before)


@pytest.mark.parametrize("group", [None, "of-a-test"])
@pytest.mark.parametrize("subscribes", [True, False])
async def test_one_with_a_group_and_without(
    kafka: RunningBroker, topic_name: str, group: str | None, subscribes: bool
) -> None:
    before = asyncio.all_tasks()
    kafka.create_topic(topic_name, 1)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap,
        group_id=None if group is None else f"{group}-{topic_name}",
        enable_auto_commit=False,
    )
    await consumer.start()
    if subscribes:
        consumer.subscribe([topic_name])
    else:
        consumer.assign([TopicPartition(topic_name, 0)])
    await consumer.getmany(timeout_ms=100)
    await drop_consumer(consumer)
    await nothing_left(before)
