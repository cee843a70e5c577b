"""One poll of a real cluster: groups of both protocols, their members, offsets and logs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from confluent_kafka import Consumer as RdConsumer

from headgate.kafka.group_reader import GroupPoll, GroupReader
from headgate.kafka.groups import CommittedOffset, Partition
from headgate.kafka.options import ClusterOptions
from support.process.stack import RunningBroker
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def reader_of(bootstrap: str) -> AsyncIterator[GroupReader]:
    reader = GroupReader(ClusterOptions(bootstrap))
    try:
        yield reader
    finally:
        await reader.close()


@contextmanager
def new_protocol(bootstrap: str, topic: str, group: str) -> Iterator[None]:
    """A member of a KIP-848 group that reads and commits; one thread alone may use it."""
    stop = threading.Event()

    def consume() -> None:
        consumer = RdConsumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "rd",
             "group.protocol": "consumer", "auto.offset.reset": "earliest",
             "auto.commit.interval.ms": 200}
        )  # fmt: skip
        consumer.subscribe([topic])
        while not stop.is_set():
            consumer.poll(0.2)
        consumer.close()

    thread = threading.Thread(target=consume)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30)


async def test_groups_of_both_protocols(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    fill(kafka.bootstrap, topic_name, 3, 5)
    classic, new = f"classic-{topic_name}", f"new-{topic_name}"
    places = {Partition(topic_name, number) for number in range(3)}
    consumer = AIOKafkaConsumer(
        topic_name, bootstrap_servers=kafka.bootstrap, group_id=classic, client_id="till",
        enable_auto_commit=False,
    )  # fmt: skip
    await consumer.start()
    try:
        async with reader_of(kafka.bootstrap) as reader:
            with new_protocol(kafka.bootstrap, topic_name, new):
                await consumer.commit({TopicPartition(topic_name, 1): OffsetAndMetadata(4, "who")})

                async def both() -> GroupPoll | None:
                    """All is committed, and the group has settled."""
                    poll = await reader.poll()
                    described, stored = poll.groups.get(new), poll.stored.get(new, {})
                    is_stable = described is not None and described.status.lower() == "stable"
                    wanted = dict.fromkeys(places, CommittedOffset(5, ""))
                    return poll if is_stable and stored == wanted else None

                found = await eventually_some(both)
            assert found.stored[classic] == {Partition(topic_name, 1): CommittedOffset(4, "who")}
            assert found.stored[new] == dict.fromkeys(places, CommittedOffset(5, ""))
            for group, client, protocol in ((classic, "till", "classic"), (new, "rd", "consumer")):
                described = found.groups[group]
                assert described is not None
                assert (described.protocol, described.status.lower()) == (protocol, "stable")
                (member,) = described.members
                assert member.client_id == client
                assert member.assigned == places
            assert {place: found.logs[place] for place in places} == dict.fromkeys(places, (0, 5))
            assert len(found.topics[topic_name].partitions) == 3
            assert found.topics[topic_name].retention_ms == 604_800_000
    finally:
        await consumer.stop()


async def eventually_some(ask: Callable[[], Awaitable[GroupPoll | None]]) -> GroupPoll:
    async with asyncio.timeout(120):
        while True:
            found = await ask()
            if found is not None:
                return found
            await asyncio.sleep(0.1)
