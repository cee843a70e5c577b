"""Topics that are deleted, or deleted and created again, while records are on their way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from headgate.model.outcome import Reason
from support.kafka.lane_history import running_lanes
from support.process.stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka

StartBroker = Callable[..., RunningBroker]


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must outlive the call
    admin.delete_topics([topic])[topic].result(30)


async def test_deleted_and_recreated_topic(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3)
    changes = []
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.topics.on_change(lambda old, new: changes.append((old, new)))
        old = world.state(topic_name)
        world.put(topic_name, 0)
        await world.all_ended()
        await asyncio.to_thread(delete_topic, kafka.bootstrap, topic_name)
        orphans = [world.put(topic_name, partition) for partition in (0, 0, 1, 2)]
        await eventually(lambda: world.topics.get(topic_name) is None, 15)
        await eventually(lambda: world.history.all_ended(orphans), 15)
        assert set(world.history.reasons()) <= {Reason.UNKNOWN_TOPIC, Reason.UNKNOWN}
        late = world.put(topic_name, 0)
        await world.all_ended()
        assert world.history.failures[late].reason is Reason.UNKNOWN_TOPIC
        await asyncio.to_thread(kafka.create_topic, topic_name, 2)
        assert world.topics.missing_reason(topic_name).reason is Reason.UNKNOWN_TOPIC
        await eventually(lambda: world.topics.get(topic_name) is not None, 5)
        new = world.state(topic_name)
        assert (new.partitions, new.topic_id != old.topic_id) == (2, True)
        assert changes == [(old, None), (None, new)]
        world.history.made.clear()  # they went with the old topic
        world.history.offsets.clear()
        again = [world.put(topic_name, partition) for partition in (0, 1, 0)]
        await world.all_ended()
        assert all(one in world.history.offsets for one in again)
        await world.check_log(kafka.bootstrap, topic_name)


async def test_a_deleted_topic_costs_no_other_topic_anything(
    kafka: RunningBroker, topic_name: str
) -> None:
    """Kafka says that there is no such topic: nothing is written, and the producer stays."""
    other = f"{topic_name}-other"
    for name in (topic_name, other):
        kafka.create_topic(name, 2)
    async with running_lanes(kafka.bootstrap, topic_name, other, refresh_ms=60_000) as world:
        for name in (topic_name, other):
            world.put(name, 0)
        await world.all_ended()
        await asyncio.to_thread(delete_topic, kafka.bootstrap, topic_name)
        orphans = [world.put(topic_name, partition) for partition in (0, 0, 1)]
        until = asyncio.Event()
        loading = asyncio.ensure_future(world.load(other, 2, until, 200))
        try:
            await eventually(lambda: world.history.all_ended(orphans), 15)
            later = [world.put(other, partition) for partition in (0, 1)]
            await eventually(lambda: world.history.all_ended(later), 15)
        finally:
            until.set()
            await loading
        await world.all_ended()
        assert {world.history.failures[one].reason for one in orphans} == {Reason.UNKNOWN_TOPIC}
        assert set(world.history.failures) == set(orphans)
        assert not world.history.rebuilds
        # The same partitions again: their sequence numbers go on, or begin anew, without a gap.
        await asyncio.to_thread(kafka.create_topic, topic_name, 2)
        world.topics.refresh_soon()
        await eventually(lambda: world.topics.get(topic_name) is not None, 15)
        again = [world.put(topic_name, partition) for partition in (0, 1, 0)]
        await world.all_ended()
        assert all(one in world.history.offsets for one in again)
        assert not world.history.rebuilds


@pytest.mark.parametrize("partitions", [2, 5, 7])
async def test_nothing_that_was_made_for_a_deleted_topic_lands_in_the_next_of_its_name(
    kafka: RunningBroker, topic_name: str, partitions: int
) -> None:
    """Its records are placed by the former number of partitions, and nobody has told the lanes."""
    kafka.create_topic(topic_name, 5)
    async with running_lanes(kafka.bootstrap, topic_name, refresh_ms=60_000) as world:
        for partition in range(5):
            world.put(topic_name, partition)
        await world.all_ended()
        await asyncio.to_thread(delete_topic, kafka.bootstrap, topic_name)
        await asyncio.to_thread(kafka.create_topic, topic_name, partitions)
        orphans = [world.put(topic_name, partition) for partition in (0, 1, 2, 3, 4, 0)]
        await eventually(lambda: world.history.all_ended(orphans), 15)
        failures = {world.history.failures[one].reason for one in orphans}
        assert failures == {Reason.KAFKA_UNAVAILABLE}
        assert world.state(topic_name).partitions == partitions
        assert not world.history.rebuilds
        world.history.made.clear()  # they went with the former topic
        world.history.offsets.clear()
        again = [world.put(topic_name, partition) for partition in range(partitions)]
        await world.all_ended()
        assert all(one in world.history.offsets for one in again)
        await world.check_log(kafka.bootstrap, topic_name)


async def test_deleted_topic_is_not_brought_back(
    start_broker: StartBroker, topic_name: str
) -> None:
    """Kafka creates topics for clients that ask for them, unless the client says no."""
    broker = start_broker({"auto.create.topics.enable": "true"})
    broker.create_topic(topic_name, 2)
    async with running_lanes(broker.bootstrap, topic_name, refresh_ms=3_000) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        old = world.state(topic_name)
        await asyncio.to_thread(delete_topic, broker.bootstrap, topic_name)
        orphans = [world.put(topic_name, partition) for partition in (0, 1)]
        await eventually(lambda: world.topics.get(topic_name) != old, 15)
        assert world.topics.get(topic_name) is None
        await eventually(lambda: world.history.all_ended(orphans), 15)
        await eventually(lambda: world.lanes.health("main")[0])
        world.topics.refresh_soon()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        assert topic_name not in (await asyncio.to_thread(admin.list_topics, timeout=10)).topics
