"""The consumer on a real broker: order, retries, dead letters, restarts, chunks."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Consumer as RdConsumer
from confluent_kafka import KafkaException, Producer, TopicPartition

from headgate.consumer.consumer import Consumer
from headgate.consumer.options import ConsumerOptions, GaveUpError, Retries
from headgate.consumer.partition import Received
from support.kafka import kafka_log
from support.kafka.record_batches import append, encoded
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import fill, fill_with_sets

pytestmark = pytest.mark.kafka


def new_consumer(kafka: RunningBroker, topic: str, retries: Retries | None = None) -> Consumer:
    options = ConsumerOptions(
        commit_interval_s=0.1,
        session_timeout_ms=6_000,
        drain_s=3,
        retries=retries or Retries(first_s=0.01),
    )
    return Consumer(topic, group=f"g-{topic}", bootstrap=kafka.bootstrap, options=options)


async def test_events_come_once_in_the_order_of_their_keys_and_go_on_after_a_restart(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 2)
    fill(kafka.bootstrap, topic_name, 2, 500, keys=5)
    seen: list[tuple[int, int, bytes]] = []

    async def handle(received: Received) -> None:
        assert received.key is not None
        await asyncio.sleep(0)
        seen.append((received.partition, received.offset, received.key))

    for _ in range(2):  # the second one takes over where the first has committed
        consumer = new_consumer(kafka, topic_name)
        async with consumer:
            work = asyncio.create_task(consumer.run(handle))
            goal = len(seen) + 500
            await eventually(lambda goal=goal: len(seen) >= min(goal, 1_000), 30)
            consumer.stop()
            await work
    assert {one[:2] for one in seen} == {(p, o) for p in range(2) for o in range(500)}
    assert len(seen) <= 1_000 + 64, "what was in flight at most came again"
    for key in {one[2] for one in seen}:
        first = list(dict.fromkeys(one[1] for one in seen if one[2] == key))
        assert first == sorted(first)


async def test_what_is_done_behind_an_incomplete_set_of_chunks_does_not_come_again(
    kafka: RunningBroker, topic_name: str
) -> None:
    """At most `prefetch` events do, with a set that is open for long and others on the border."""
    kafka.create_topic(topic_name, 1)
    events, prefetch = 600, 20
    fill_with_sets(kafka.bootstrap, topic_name, events)
    seen: list[bytes | None] = []

    async def handle(received: Received) -> None:
        await asyncio.sleep(0)
        seen.append(received.value)

    before = repeated = 0
    for goal in (200, 400, events, events):
        options = ConsumerOptions(prefetch=prefetch, commit_interval_s=0.1, drain_s=3)
        consumer = Consumer(
            topic_name, group=f"g-{topic_name}", bootstrap=kafka.bootstrap, options=options
        )
        async with consumer:
            work = asyncio.create_task(consumer.run(handle))
            await eventually(lambda goal=goal: len(set(seen)) >= goal, 30)
            if before == goal:  # it has read all that is left, chunks that it did not see begin too
                await eventually(lambda at=consumer: at.counts.delivered >= 2 * events, 30)
            consumer.stop()
            await work
        again = len(seen) - len(set(seen)) - repeated
        assert again <= prefetch
        repeated, before = repeated + again, goal
    assert set(seen) == {b"event %d" % number for number in range(events)}


async def test_a_failing_event_comes_again_and_then_goes_to_the_dead_letters(
    kafka: RunningBroker, topic_name: str
) -> None:
    dead = f"{topic_name}-dead"
    kafka.create_topic(topic_name, 1)
    kafka.create_topic(dead, 1)
    fill(kafka.bootstrap, topic_name, 1, 20, keys=4)
    attempts: list[int] = []
    retries = Retries(attempts=3, first_s=0.01, then="dead-letter", dead_letter=dead)
    consumer = new_consumer(kafka, topic_name, retries)
    done: list[int] = []

    async def handle(received: Received) -> None:
        if received.offset == 5:
            attempts.append(received.attempt)
            raise ValueError("no such customer")
        done.append(received.offset)

    async with consumer:
        work = asyncio.create_task(consumer.run(handle))
        await eventually(lambda: consumer.counts.processed == 20, 30)
        consumer.stop()
        await work
    assert attempts == [1, 2, 3]
    assert consumer.counts.dead_letters == 1
    assert [one for one in done if one % 4 == 1] == [1, 9, 13, 17], "its key waited, then went on"
    (record,) = await asyncio.to_thread(kafka_log.read_log, kafka.bootstrap, dead)
    assert (record.key, record.value) == (b"0-1", b"5")
    assert record.header("hg-dead-from") == f"{topic_name}-0@5".encode()
    assert record.header("hg-dead-reason") == b"no such customer"
    assert record.header("hg-dead-attempts") == b"3"


async def test_a_header_name_that_is_no_text_stops_nobody(
    kafka: RunningBroker, topic_name: str
) -> None:
    """librdkafka writes any bytes. As a dead letter it has a name that any client can read."""
    dead = f"{topic_name}-dead"
    kafka.create_topic(topic_name, 1)
    kafka.create_topic(dead, 1)
    strange = [(b"n\xff", b"v"), ("ü".encode(), b"")]
    await append(kafka.bootstrap, topic_name, [encoded(1_700_000_000_000, b"5", strange)])
    fill(kafka.bootstrap, topic_name, 1, 1)
    retries = Retries(attempts=1, then="dead-letter", dead_letter=dead)
    consumer, seen = new_consumer(kafka, topic_name, retries), list[Received]()

    async def handle(received: Received) -> None:
        seen.append(received)
        if received.offset == 0:
            raise ValueError("no such customer")

    async with consumer:
        work = asyncio.create_task(consumer.run(handle))
        await eventually(lambda: consumer.counts.processed == 2, 30)
        consumer.stop()
        await work
    assert seen[0].headers[0][0].encode("utf-8", "surrogateescape") == b"n\xff"
    (record,) = await asyncio.to_thread(kafka_log.read_log, kafka.bootstrap, dead)
    assert record.headers[:2] == [("n\\xff", b"v"), ("ü", b"")]


async def test_the_consumer_stops_before_an_event_that_nobody_may_lose(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    fill(kafka.bootstrap, topic_name, 1, 10, keys=1)

    async def handle(received: Received) -> None:
        if received.offset == 5:
            raise ValueError("no such customer")

    consumer = new_consumer(kafka, topic_name, Retries(attempts=2, first_s=0.01))
    async with consumer:
        with pytest.raises(ExceptionGroup) as caught:
            await consumer.run(handle, tasks=1)
    assert isinstance(caught.value.exceptions[0], GaveUpError)
    assert "failed 2 times: no such customer" in str(caught.value.exceptions[0])
    seen: list[int] = []
    again = new_consumer(kafka, topic_name)
    async with again:
        async for event in again:
            seen.append(event.offset)
            event.done()
            if event.offset == 9:
                break
    assert seen == [5, 6, 7, 8, 9]


async def test_records_of_aborted_transactions_are_never_handed_out(
    kafka: RunningBroker, topic_name: str
) -> None:
    """The backfill tier has them: attempts of the mirror that were killed."""
    kafka.create_topic(topic_name, 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"mirror-{topic_name}"}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for part in range(5):
            producer.produce(topic_name, f"{number}.{part}".encode(), b"key", partition=0)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    values: list[bytes | None] = []
    async with new_consumer(kafka, topic_name) as consumer:
        async for event in consumer:
            values.append(event.value)
            event.done()
            if len(values) == 15:
                break
    assert values == [f"{number}.{part}".encode() for number in (0, 2, 4) for part in range(5)]


@pytest.mark.parametrize("ending", ["commit", "abort"])
async def test_what_holds_no_events_at_the_end_of_a_log_is_no_lag(
    kafka: RunningBroker, topic_name: str, ending: str
) -> None:
    """Markers of transactions, and all of an aborted one: a lag for ever that nobody can end."""
    kafka.create_topic(topic_name, 1)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"writer-{topic_name}"}
    )
    producer.init_transactions(30)
    for last in ("commit", ending):
        producer.begin_transaction()
        for part in range(3):
            producer.produce(topic_name, b"{}", b"%d" % part, partition=0)
        producer.flush(30)
        if last == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    kafka_log.wait_settled(kafka.bootstrap, topic_name)
    group = f"g-{topic_name}"
    beside = RdConsumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    place = TopicPartition(topic_name, 0)
    assert beside.get_watermark_offsets(place, 30)[1] == 8, "twice three records and a marker"

    async def handle(received: Received) -> None: ...

    async with new_consumer(kafka, topic_name) as consumer:
        work = asyncio.create_task(consumer.run(handle))
        await eventually(lambda: beside.committed([place], 30)[0].offset == 8, 30)
        consumer.stop()
        await work
    assert consumer.counts.committed == 8
    beside.close()


async def test_a_topic_that_comes_later_or_again_is_read(
    kafka: RunningBroker, topic_name: str
) -> None:
    """aiokafka alone looks for it every five minutes."""
    seen: list[bytes | None] = []

    async def handle(received: Received) -> None:
        seen.append(received.value)

    consumer = new_consumer(kafka, topic_name)
    async with consumer:
        work = asyncio.create_task(consumer.run(handle))
        for _ in range(2):
            await asyncio.sleep(2)  # it has looked, and found nothing
            await eventually(lambda: created(kafka, topic_name))
            goal = len(seen) + 10
            fill(kafka.bootstrap, topic_name, 1, 10)
            await eventually(lambda goal=goal: len(seen) >= goal, 30)
            await consumer.commit()
            kafka.delete_topic(topic_name)
        consumer.stop()
        await work


def created(kafka: RunningBroker, topic: str) -> bool:
    """Whether it could be created: one that was just deleted may still be there."""
    try:
        kafka.create_topic(topic, 1)
    except KafkaException:
        return False
    return True
