"""What the coalescing protocol assumes of Kafka, on a real broker with the client that is used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.consumer.membership import committed
from headgate.kafka.options import ClusterOptions
from headgate.kafka.transactions import TransactionalProducer, TransactionError
from headgate.model.publish import Record
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually

GROUP = "facts"
START_S = 90.0


@asynccontextmanager
async def producer_of(kafka: RunningBroker, name: str) -> AsyncIterator[TransactionalProducer]:
    options = ClusterOptions(kafka.bootstrap)
    producer = TransactionalProducer(options, f"facts.{name}", 1_048_576)
    try:
        yield producer
    finally:
        await producer.drop()


@asynccontextmanager
async def member_of(
    kafka: RunningBroker, group: str, topic: str
) -> AsyncIterator[AIOKafkaConsumer]:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=kafka.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def record(topic: str, value: str, key: bytes = b"k") -> Record:
    return Record(topic, 0, key, value.encode(), [("h", b"1")], 1_700_000_000_000)


@pytest.fixture
def topic(kafka: RunningBroker, topic_name: str) -> str:
    return kafka.create_topic(topic_name)


async def test_an_offset_without_member_and_generation_is_accepted_in_a_live_group(
    kafka: RunningBroker, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    async with member_of(kafka, topic, topic) as consumer, producer_of(kafka, topic) as producer:
        await producer.start(START_S)
        await producer.begin()
        assert await producer.append([record(topic, "a"), record(topic, "b")]) == [0, 1]
        await producer.send_offset(topic, tp, 7, "1 abc 0")
        assert await committed(consumer, tp) == (-1, "")  # not before the transaction ends
        await producer.commit()
        await eventually(lambda: _is_committed(consumer, tp, (7, "1 abc 0")))
        assert consumer.assignment() == {tp}  # and the group is as it was


async def _is_committed(
    consumer: AIOKafkaConsumer, tp: TopicPartition, expected: tuple[int, str]
) -> bool:
    return await committed(consumer, tp) == expected


async def test_after_init_producer_id_every_decided_offset_and_marker_is_there(
    kafka: RunningBroker, topic: str
) -> None:
    """EndTxn is answered before the markers are written: the successor must not miss them."""
    tp = TopicPartition(topic, 0)
    async with member_of(kafka, topic, topic) as consumer:
        for round_number in range(25):
            async with producer_of(kafka, topic) as before:
                await before.start(START_S)
                await before.begin()
                await before.append([record(topic, str(round_number))])
                await before.send_offset(topic, tp, round_number + 1, "")
                await before.commit()
            async with producer_of(kafka, topic) as after:
                await after.start(START_S)
                # nothing in between: no retry, no pause
                assert await committed(consumer, tp) == (round_number + 1, "")
                assert (await consumer.end_offsets([tp]))[tp] == 2 * (round_number + 1)


async def test_a_successor_ends_what_an_owner_left_open_and_the_owner_is_fenced(
    kafka: RunningBroker, topic: str
) -> None:
    tp = TopicPartition(topic, 0)
    async with (
        member_of(kafka, topic, topic) as consumer,
        producer_of(kafka, topic) as zombie,
        producer_of(kafka, topic) as owner,
    ):
        await zombie.start(START_S)
        await zombie.begin()
        await zombie.append([record(topic, "left open")])
        await zombie.send_offset(topic, tp, 5, "")
        end = (await consumer.end_offsets([tp]))[tp]
        assert end == 0  # read_committed: the last stable offset, pinned by the open transaction
        await owner.start(START_S)
        assert await committed(consumer, tp) == (-1, "")
        assert (await consumer.end_offsets([tp]))[tp] == 2  # the record and its abort marker
        with pytest.raises(TransactionError) as caught:
            await zombie.commit()
        assert caught.value.is_fenced
    assert kafka_log.read_log(kafka.bootstrap, topic) == []


async def test_a_position_moves_past_markers_and_aborted_records(
    kafka: RunningBroker, topic: str
) -> None:
    """Else "read to the end" would wait for ever behind what a consumer is not shown."""
    tp = TopicPartition(topic, 0)
    async with producer_of(kafka, topic) as left, producer_of(kafka, topic) as owner:
        await left.start(START_S)
        await left.begin()
        await left.append([record(topic, "aborted")])
        await owner.start(START_S)
        await owner.begin()
        await owner.append([record(topic, "shown")])
        await owner.commit()
    async with member_of(kafka, topic, topic) as consumer:
        end = (await consumer.end_offsets([tp]))[tp]
        shown = []
        async with asyncio.timeout(60):
            while await consumer.position(tp) < end:
                for some in (await consumer.getmany(tp, timeout_ms=200)).values():
                    shown += [one.value for one in some]
        assert (end, shown) == (4, [b"shown"])


async def test_a_fenced_owner_is_refused_at_its_next_append(
    kafka: RunningBroker, topic: str
) -> None:
    async with producer_of(kafka, topic) as zombie, producer_of(kafka, topic) as owner:
        await zombie.start(START_S)
        await zombie.begin()
        await zombie.append([record(topic, "left open")])
        await owner.start(START_S)
        with pytest.raises(TransactionError) as caught:
            await zombie.append([record(topic, "too late")])
        assert caught.value.is_refusal
    assert kafka_log.read_log(kafka.bootstrap, topic) == []
