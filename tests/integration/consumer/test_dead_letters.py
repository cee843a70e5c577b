"""Whatever can be an event can be a dead letter, or the consumer says why not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from headgate.consumer.assembler import Event
from headgate.consumer.consumer import Consumer
from headgate.consumer.failures import DeadLetterError, Failures
from headgate.consumer.options import ConsumerOptions, Retries
from headgate.consumer.partition import Received
from headgate.kafka.options import ClusterOptions
from headgate.oversize.chunks import MAX_BYTES
from support.gateway.oversize_world import assembled
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import chunks

pytestmark = pytest.mark.kafka

LARGE = random.Random(1).randbytes(3_000_000)


class NoOrigin:
    def done(self, received: Received) -> None: ...

    def failed(self, received: Received, error: BaseException | str) -> None: ...


class Read(NamedTuple):
    value: bytes | None
    key: bytes | None = b"key"
    timestamp: int = 1_700_000_000_000
    topic: str = "orders"
    partition: int = 3
    offset: int = 7


def received(read: Read, *headers: tuple[str, bytes | None]) -> Received:
    return Received(NoOrigin(), read, headers)


@asynccontextmanager
async def failures_of(kafka: RunningBroker, topic: str) -> AsyncIterator[Failures]:
    retries = Retries(then="dead-letter", dead_letter=topic)
    failures = Failures(ClusterOptions(kafka.bootstrap), retries, "test")
    await failures.start()
    try:
        yield failures
    finally:
        await failures.close()


async def buried(kafka: RunningBroker, topic: str, *events: Received) -> list[Event]:
    """What a reader gets."""
    async with failures_of(kafka, topic) as failures:
        await asyncio.gather(*(failures.bury(event, "no such customer") for event in events))
    return await asyncio.to_thread(assembled, kafka, topic)


@pytest.mark.parametrize(
    ("limit", "is_cut"),
    [(None, True), (60_000, True), (4_000_000, False)],
    ids=["default", "small", "large"],
)
async def test_an_event_of_any_size_is_a_dead_letter_that_a_reader_can_read(
    kafka: RunningBroker, topic_name: str, limit: int | None, is_cut: bool
) -> None:
    kafka.create_topic(topic_name, 3, {} if limit is None else {"max.message.bytes": str(limit)})
    large, small = received(Read(LARGE), ("own", b"x")), received(Read(b"small"))
    found = await buried(kafka, topic_name, large, small, large)
    assert sorted(len(event.value or b"") for event in found) == [5, len(LARGE), len(LARGE)]
    for event in found:
        assert event.key == b"key"
        assert event.timestamp == 1_700_000_000_000
        assert event.header("hg-dead-from") == b"orders-3@7"
        assert event.header("hg-dead-reason") == b"no such customer"
        if event.value != b"small":
            assert event.value == LARGE
            assert event.header("own") == b"x"
            assert (event.records > 1) == is_cut


async def test_records_without_key_value_or_time_are_dead_letters_too(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    empty = received(Read(None, None, -1), ("null", None))
    timed = received(Read(b"timed", None))
    found = await buried(kafka, topic_name, empty, timed)
    assert [(event.key, event.value, event.timestamp) for event in found] == [
        (None, None, -1),
        (None, b"timed", 1_700_000_000_000),
    ]
    assert ("null", None) in found[0].headers


@pytest.mark.parametrize(
    ("event", "says"),
    [
        (received(Read(b"x"), ("large", b"x" * 2_000_000)), "headers of 2000"),
        (received(Read(bytes(MAX_BYTES + 1))), "value of 16777217 bytes"),
        (received(Read(LARGE), *chunks(b"xy", b"set")[0][1]), "a chunk itself"),
    ],
)
async def test_what_does_not_fit_even_so_says_what_is_to_do(
    kafka: RunningBroker, topic_name: str, event: Received, says: str
) -> None:
    kafka.create_topic(topic_name, 1)
    async with failures_of(kafka, topic_name) as failures:
        with pytest.raises(DeadLetterError, match=says) as caught:
            await failures.bury(event, "no such customer")
        assert "raise the topic's max.message.bytes" in str(caught.value)
        await failures.bury(received(Read(b"next")), "no such customer")
    (found,) = await asyncio.to_thread(assembled, kafka, topic_name)
    assert found.value == b"next"


async def test_a_large_chunked_event_does_not_hold_up_its_partition(
    kafka: RunningBroker, topic_name: str
) -> None:
    dead = f"{topic_name}-dead"
    kafka.create_topic(topic_name, 1)
    kafka.create_topic(dead, 1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for value, headers in [*chunks(LARGE, b"set", 4), (b"next", [])]:
        producer.produce(topic_name, value, b"key", partition=0, headers=[*headers])
    assert producer.flush(90) == 0
    retries = Retries(attempts=1, then="dead-letter", dead_letter=dead)
    options = ConsumerOptions(retries=retries)
    seen: list[bytes | None] = []

    async def handle(event: Received) -> None:
        if event.value == LARGE:
            raise ValueError("too much")
        seen.append(event.value)

    bootstrap = kafka.bootstrap
    async with Consumer(
        topic_name, group=f"g-{topic_name}", bootstrap=bootstrap, options=options
    ) as consumer:
        work = asyncio.create_task(consumer.run(handle))
        await eventually(lambda: bool(seen), 60)
        consumer.stop()
        await work
    assert consumer.counts.dead_letters == 1
    (event,) = await asyncio.to_thread(assembled, kafka, dead)
    assert event.value == LARGE
