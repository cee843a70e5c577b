"""What is read of topics: settings, growth, and that an outage deletes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewPartitions

from headgate.model.outcome import Reason
from headgate.model.topics import TopicState
from support.kafka.lane_history import running_lanes
from support.process.stack import RunningBroker, RunningCluster, eventually

pytestmark = pytest.mark.kafka

CONFIGS = {
    "max.message.bytes": "54321",
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "message.timestamp.type": "LogAppendTime",
    "message.timestamp.before.max.ms": "1000000",
    "message.timestamp.after.max.ms": "60000",
    "compression.type": "zstd",
    "min.insync.replicas": "1",
    "unclean.leader.election.enable": "true",
    "min.compaction.lag.ms": "5000",
}


async def test_settings_and_id_are_read(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 3, CONFIGS)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        state = world.state(topic_name)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        assert state == TopicState(
            name=topic_name,
            cluster="main",
            topic_id=state.topic_id,
            partitions=3,
            max_message_bytes=54321,
            cleanup_policy="compact,delete",
            retention_ms=-1,
            timestamp_type="LogAppendTime",
            timestamp_before_max_ms=1_000_000,
            timestamp_after_max_ms=60_000,
            compression_type="zstd",
            replication_factor=1,
            min_insync_replicas=1,
            unclean_leader_election=True,
            min_compaction_lag_ms=5000,
        )
        assert state.topic_id == await asyncio.to_thread(independent_id, admin, topic_name)
        assert world.topics.states() == [state], "only wanted topics are kept"


def independent_id(admin: AdminClient, topic: str) -> bytes:
    found = admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id
    high = found.get_most_significant_bits() % 2**64
    low = found.get_least_significant_bits() % 2**64
    return high.to_bytes(8, "big") + low.to_bytes(8, "big")


async def test_new_partitions_are_found_and_used(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        changes = []
        world.topics.on_change(lambda old, new: changes.append((old, new)))
        old = world.state(topic_name)
        world.put(topic_name, 0)
        await world.all_ended()
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        grown = admin.create_partitions([NewPartitions(topic_name, 4)])
        await asyncio.to_thread(grown[topic_name].result, 30)
        world.topics.refresh_soon()
        await eventually(lambda: world.state(topic_name).partitions == 4)
        for partition in range(4):
            world.put(topic_name, partition)
        await world.all_ended()
        assert not world.history.failures
        assert changes == [(old, old._replace(partitions=4))]


async def test_lowered_limit_reaches_the_lanes(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        kafka.set_topic_configs(topic_name, {"max.message.bytes": "10000"})
        world.topics.refresh_soon()
        await eventually(lambda: world.state(topic_name).max_message_bytes == 10_000)
        world.history.batches.clear()
        for _ in range(100):
            world.put(topic_name, 0, size=1_000)
        await world.all_ended()
        assert not world.history.failures
        assert 6 < max(world.history.batches) <= 8, "batches fill the limit, less the slack"


async def test_outage_keeps_the_states(
    start_broker: Callable[..., RunningBroker], topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name, 2)
    async with running_lanes(broker.bootstrap, topic_name, refresh_ms=200) as world:
        changes = []
        world.topics.on_change(lambda old, new: changes.append((old, new)))
        state = world.state(topic_name)
        broker.kill()
        await eventually(lambda: not world.topics.healthy("main"))
        assert "no answer" in world.topics.detail("main")
        assert world.topics.get(topic_name) == state
        # The cluster answered once, so a topic that it did not have is unknown, not unavailable.
        assert world.topics.missing_reason("other").reason is Reason.UNKNOWN_TOPIC
        await asyncio.to_thread(broker.restart)
        await eventually(lambda: world.topics.healthy("main"))
        assert world.topics.get(topic_name) == state
        assert changes == []


@pytest.mark.full  # three nodes
async def test_restarted_node_deletes_no_topic(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    """A node that has just come up may not know the newest topics yet."""
    cluster = start_cluster(3)
    cluster.create_topic(topic_name, 2)
    async with running_lanes(cluster.bootstrap, topic_name, refresh_ms=50) as world:
        changes = []
        world.topics.on_change(lambda old, new: changes.append((old, new)))
        state = world.state(topic_name)
        node = cluster.nodes[1]
        node.kill()
        await asyncio.to_thread(node.restart)
        await eventually(lambda: world.topics.healthy("main"))
        assert world.topics.get(topic_name) == state
        assert changes == []
