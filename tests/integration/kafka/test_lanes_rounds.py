"""Batches of all lanes of a broker leave together, and as full as they can be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headgate.model.publish import Stage
from support.kafka.kafka_log import read_log
from support.kafka.lane_history import RunningLanes, running_lanes
from support.process.stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka

PARTITIONS = 6


def requests_of(world: RunningLanes) -> list[int]:
    """How many batches each produce request carries from now on."""
    producer = world.lanes._clusters["main"].producer
    assert producer is not None
    sender, sizes = producer._inner._sender, list[int]()
    inner = sender._send_produce_req

    async def counted(node: int, batches: dict[Any, Any]) -> None:
        sizes.append(len(batches))
        await inner(node, batches)

    sender._send_produce_req = counted
    return sizes


async def put_one_by_one(world: RunningLanes, topic: str, count: int) -> None:
    for number in range(count):
        world.put(topic, number % PARTITIONS)
        await asyncio.sleep(0)


@pytest.mark.parametrize("linger_ms", [0, 5])
async def test_what_comes_during_a_request_is_the_next_request(
    pausable: RunningBroker, topic_name: str, linger_ms: float
) -> None:
    pausable.create_topic(topic_name, PARTITIONS)
    async with running_lanes(pausable.bootstrap, topic_name, linger_ms=linger_ms) as world:
        await put_one_by_one(world, topic_name, PARTITIONS)  # every lane has its metadata
        await world.all_ended()
        requests, before = requests_of(world), len(world.history.batches)
        pausable.pause()
        one = world.put(topic_name, 0)
        await eventually(lambda: one.stage is Stage.HANDED)
        await put_one_by_one(world, topic_name, 10 * PARTITIONS)
        pausable.resume()
        await world.all_ended()
        assert requests == [1, PARTITIONS]
        assert world.history.batches[before:] == [1] + [10] * PARTITIONS
        world.history.check(await asyncio.to_thread(read_log, pausable.bootstrap, topic_name))


async def test_waiting_lanes_go_on_with_the_next_producer(
    pausable: RunningBroker, topic_name: str
) -> None:
    pausable.create_topic(topic_name, PARTITIONS)
    async with running_lanes(pausable.bootstrap, topic_name, delivery_timeout_ms=1_000) as world:
        await put_one_by_one(world, topic_name, PARTITIONS)
        await world.all_ended()
        pausable.pause()
        one = world.put(topic_name, 0)
        await eventually(lambda: one.stage is Stage.HANDED)
        waiting = [world.put(topic_name, partition) for partition in range(PARTITIONS)]
        await eventually(lambda: world.history.failures)
        assert list(world.history.failures) == [one], "the others were not handed over"
        pausable.resume()
        await world.all_ended()
        assert all(record in world.history.offsets for record in waiting)
        world.history.check(await asyncio.to_thread(read_log, pausable.bootstrap, topic_name))


async def test_waiting_lanes_look_again_when_leaders_have_moved(
    pausable: RunningBroker, topic_name: str
) -> None:
    pausable.create_topic(topic_name, PARTITIONS)
    async with running_lanes(pausable.bootstrap, topic_name) as world:
        await put_one_by_one(world, topic_name, PARTITIONS)
        await world.all_ended()
        producer = world.lanes._clusters["main"].producer
        assert producer is not None
        cluster = producer._inner.client.cluster
        partitions = cluster._partitions[topic_name]
        pausable.pause()
        world.put(topic_name, 0)
        await eventually(lambda: producer._inner._sender._in_flight)
        other = world.put(topic_name, 1)
        await eventually(lambda: producer._rounds._rounds[partitions[1].leader]._sleepers)
        partitions[1] = partitions[1]._replace(leader=-1)  # as metadata tell during an election
        for listener in cluster._listeners:
            listener(cluster)
        await eventually(lambda: other.stage is Stage.HANDED)
        pausable.resume()
        await world.all_ended()
        assert not world.history.failures


async def test_lanes_of_a_request_that_never_ends_go_on_with_the_next_producer(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        producer = world.lanes._clusters["main"].producer
        assert producer is not None
        leader = producer._inner.client.cluster._partitions[topic_name][0].leader
        producer._inner._sender._in_flight.add(leader)  # cancelled before its first step
        world.put(topic_name, 0)
        await eventually(lambda: producer._rounds._rounds[leader]._sleepers)
        producer.fail("test")
        await world.all_ended()
        assert not world.history.failures
