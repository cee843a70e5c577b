"""What lanes wait for before Kafka has anything of them, and that they do not wait for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from headgate.kafka.producer import START_TIMEOUT_S, Producer
from headgate.model.outcome import Reason
from support.kafka.kafka_relay import kafka_relay
from support.kafka.lane_history import RunningLanes, running_lanes
from support.process.stack import RunningBroker, RunningCluster, eventually, free_port

pytestmark = pytest.mark.kafka

NO_LEADER = -1
LATE_S = 5.0  # of a lane's deadline, on a busy machine


def producer_of(world: RunningLanes) -> Producer:
    producer = world.lanes._clusters["main"].producer
    assert producer is not None
    return producer


async def test_successor_that_is_told_of_no_broker_is_not_taken_for_connected(
    kafka: RunningBroker, topic_name: str
) -> None:
    """It follows with the producer id of its predecessor, so it needs no answer to start."""
    kafka.create_topic(topic_name)
    async with (
        kafka_relay(kafka.bootstrap) as relay,
        running_lanes(relay.bootstrap, topic_name) as world,
    ):
        world.put(topic_name, 0)
        await world.all_ended()
        relay.names_brokers = False
        producer_of(world).fail("test")
        await eventually(lambda: relay.unnamed >= 2)
        await eventually(lambda: "names no broker" in world.lanes.health("main")[1])
        assert not world.lanes.health("main")[0]
        world.put(topic_name, 0)
        relay.names_brokers = True
        await world.all_ended(15)
        assert len(world.history.offsets) == 2
        assert world.history.rebuilds == ["test"]
        await world.check_log(kafka.bootstrap, topic_name)


async def test_brokers_with_new_addresses_are_found_through_the_bootstrap_servers(
    start_broker: Callable[..., RunningBroker], topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name, 2)
    async with (
        kafka_relay(broker.bootstrap) as relay,
        running_lanes(relay.bootstrap, topic_name) as world,
    ):
        world.put(topic_name, 0)
        await world.all_ended()
        broker.kill()
        broker.plan = replace(broker.plan, port=free_port())
        relay.target = broker.bootstrap
        await asyncio.to_thread(broker.restart)
        for partition in range(2):
            world.put(topic_name, partition)
        await world.all_ended()
        assert len(world.history.offsets) == 3
        assert world.history.rebuilds == [], "its producer found them"
        await world.check_log(broker.bootstrap, topic_name)


async def test_what_waits_for_a_producer_ends_unwritten(
    kafka: RunningBroker, topic_name: str
) -> None:
    """The way to the brokers accepts connections and says nothing."""
    kafka.create_topic(topic_name)
    async with (
        kafka_relay(kafka.bootstrap) as relay,
        running_lanes(relay.bootstrap, topic_name, delivery_timeout_ms=2_000) as world,
    ):
        world.put(topic_name, 0)
        await world.all_ended()
        relay.talks.clear()
        producer_of(world).fail("test")
        waiting = [world.put(topic_name, 0) for _ in range(3)]
        began = time.monotonic()
        await world.all_ended(2 + START_TIMEOUT_S + LATE_S)
        assert time.monotonic() - began >= 2 + START_TIMEOUT_S
        assert world.history.reasons() == {Reason.KAFKA_UNAVAILABLE: 3}
        assert not any(one in world.history.handed for one in waiting)
        assert all(failure.retry_after_s for failure in world.history.failures.values())
        assert sum(events + size for _, _, events, size in world.lanes.depths()) == 0
        assert relay.silent
        relay.talks.set()
        await eventually(lambda: world.lanes.health("main")[0])
        world.put(topic_name, 0)
        await world.all_ended()
        assert len(world.history.offsets) == 2
        await world.check_log(kafka.bootstrap, topic_name)


@pytest.mark.full  # three nodes; one that waits for a producer ends likewise
async def test_what_waits_for_a_leader_ends_unwritten(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    """Its batch is with the producer, but no connection ever gets it."""
    cluster = start_cluster(3)
    cluster.nodes[0].create_topic(topic_name, 3, replication_factor=1)
    async with running_lanes(cluster.bootstrap, topic_name, delivery_timeout_ms=4_000) as world:
        for partition in range(3):
            world.put(topic_name, partition)
        await world.all_ended()
        lost = leader_of(world, topic_name)
        cluster.nodes[lost - 1].kill()
        await eventually(lambda: leader_of(world, topic_name) == NO_LEADER, 20)
        waiting = [world.put(topic_name, 0) for _ in range(3)]
        await eventually(lambda: world.history.all_ended(waiting), 4 + LATE_S)
        assert world.history.reasons() == {Reason.KAFKA_UNAVAILABLE: 3}
        await asyncio.to_thread(cluster.nodes[lost - 1].restart)
        async with asyncio.timeout(90):
            while len(world.history.offsets) == 3:
                last = world.put(topic_name, 0)
                await eventually(lambda one=last: world.history.all_ended([one]))
        await world.check_log(cluster.bootstrap, topic_name)


def leader_of(world: RunningLanes, topic: str) -> int:
    """Who leads partition 0, as the producer knows it; it looks again, too."""
    client = producer_of(world)._inner.client
    client.force_metadata_update()
    leader: int = client.cluster._partitions[topic][0].leader
    return leader
