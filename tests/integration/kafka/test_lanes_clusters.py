"""Clusters that lose, or almost lose, a leader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import chain

import pytest
from confluent_kafka.admin import AdminClient

from headgate.kafka.options import LaneLimits
from headgate.model.outcome import Reason
from support.kafka.kafka_log import leader, read_log
from support.kafka.lane_history import RunningLanes, running_lanes
from support.process.stack import RunningCluster, eventually

pytestmark = pytest.mark.kafka


async def test_leader_changes_under_load(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    cluster = start_cluster(3)
    cluster.create_topic(topic_name, 6)
    async with running_lanes(cluster.bootstrap, topic_name) as world:
        ending = asyncio.Event()
        loading = asyncio.create_task(world.load(topic_name, 6, ending))
        for node in cluster.nodes[:2]:
            before = len(world.history.offsets)
            await eventually(lambda n=before: len(world.history.offsets) > n + 300, 60)
            node.kill()
            before = len(world.history.offsets)
            await eventually(lambda n=before: len(world.history.offsets) > n + 600, 60)
            await asyncio.to_thread(node.restart)
        ending.set()
        await loading
        await world.all_ended(60)
        assert not world.history.failures
        assert world.history.rebuilds == []
        await world.check_log(cluster.bootstrap, topic_name)


@pytest.mark.full  # three nodes
async def test_a_topic_that_lacks_replicas_costs_no_other_topic_anything(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    """Its records wait in their lane, certainly not written, and the producer stays."""
    cluster = start_cluster(3)
    other = f"{topic_name}-other"
    cluster.create_topic(topic_name, 1, {"min.insync.replicas": "3"})
    cluster.create_topic(other, 2)
    async with running_lanes(cluster.bootstrap, topic_name, other) as world:
        first = [world.put(topic_name, 0), world.put(other, 1)]
        await world.all_ended()
        # A follower: a batch on its way to a leader that dies is tried again by aiokafka alone.
        node = cluster.nodes[leader(cluster.bootstrap, topic_name, 0) % 3]
        node.kill()
        first.append(world.put(other, 1))  # acknowledged once the cluster gives the node up
        await eventually(lambda: world.history.all_ended(first), 60)
        rebuilds = list(world.history.rebuilds)
        waiting = world.put(topic_name, 0)
        await eventually(lambda: world.history.handed[waiting] >= 3, 30)
        for _ in range(20):
            quick = world.put(other, 1)
            await eventually(lambda quick=quick: world.history.all_ended([quick]), 15, 0.001)
        assert not world.history.all_ended([waiting])
        await asyncio.to_thread(node.restart)
        await world.all_ended(60)
        assert not world.history.failures
        assert world.history.rebuilds == rebuilds
        logs = [read_log(cluster.bootstrap, name) for name in (topic_name, other)]
        world.history.check(chain(*logs))


@pytest.mark.full
async def test_hanging_leader_under_load(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    """A leader that hangs with open sockets holds the producer for one request timeout."""
    cluster = start_cluster(3)
    cluster.create_topic(topic_name, 6)
    async with running_lanes(cluster.bootstrap, topic_name, delivery_timeout_ms=20_000) as world:
        ending = asyncio.Event()
        loading = asyncio.create_task(world.load(topic_name, 6, ending, 500))
        await eventually(lambda: len(world.history.offsets) > 1_000)
        state = world.state(topic_name)
        for node in cluster.nodes:
            node.pause()
            for partition in range(6):
                before = world.history.made[-1].index
                await eventually(lambda p=partition, n=before: acked(world, p, n), 60)
            node.resume()
            await eventually(
                lambda: all(world.lanes.refusal(state, one) is None for one in range(6)), 30
            )
        ending.set()
        await loading
        await world.all_ended(60)
        assert set(world.history.reasons()) <= {Reason.UNKNOWN}
        await world.check_log(cluster.bootstrap, topic_name)


def acked(world: RunningLanes, partition: int, after: int) -> bool:
    """Tell whether a record of the partition that was made after that number is acknowledged."""
    newest = reversed(world.history.made[after + 1 :])
    return any(one in world.history.offsets for one in newest if one.record.partition == partition)


async def test_leaderless_partition_is_refused_alone_and_not_poisoned(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    """A batch that waits longer than the request timeout for a leader must not expire."""
    cluster = start_cluster(3)
    cluster.nodes[0].create_topic(topic_name, 3, replication_factor=1)
    limits = LaneLimits(election_ms=2_000)
    async with running_lanes(
        cluster.bootstrap, topic_name, limits=limits, delivery_timeout_ms=60_000
    ) as world:
        for partition in range(3):
            world.put(topic_name, partition)
        await world.all_ended()
        state = world.state(topic_name)
        lost = await asyncio.to_thread(leader_of, cluster.bootstrap, topic_name, 0)
        cluster.nodes[lost - 1].kill()
        killed_at = time.monotonic()
        world.put(topic_name, 0)
        await eventually(lambda: world.lanes.refusal(state, 0), 20)
        refusal = world.lanes.refusal(state, 0)
        assert refusal is not None
        assert refusal.reason is Reason.KAFKA_UNAVAILABLE
        assert world.lanes.refusal(state, 1) is None
        others = [world.put(topic_name, partition) for partition in (1, 2)]
        await eventually(lambda: world.history.all_ended(others), 20)
        await eventually(lambda: time.monotonic() - killed_at > 13, 20)
        await asyncio.to_thread(cluster.nodes[lost - 1].restart)
        await world.all_ended()
        await eventually(lambda: world.lanes.refusal(state, 0) is None)
        world.put(topic_name, 0)
        await world.all_ended()
        assert not world.history.failures
        assert world.history.rebuilds == []
        await world.check_log(cluster.bootstrap, topic_name)


def leader_of(bootstrap: str, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: int = admin.list_topics(topic, timeout=10).topics[topic].partitions[partition].leader
    return found
