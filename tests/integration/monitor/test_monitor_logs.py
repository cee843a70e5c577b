"""What the monitor says of positions in logs and of clusters, made on real brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_watch import ClusterHealth, WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from headgate.monitor.rules import LagRules
from support.kafka.kafka_log import wait_settled
from support.process.stack import RunningBroker, RunningCluster, eventually
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka


@asynccontextmanager
async def watching(bootstrap: str, options: WatchOptions) -> AsyncIterator[Monitor]:
    clusters = {"main": ClusterOptions(bootstrap)}
    settings = MonitorOptions(options, 0.2, None)
    monitor = Monitor(clusters, settings, None, lambda: time.time_ns() // 1_000_000)
    monitor.start()
    try:
        await asyncio.wait_for(monitor.polled(), 60)
        yield monitor
    finally:
        await monitor.close()


async def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """As a consumer of an empty group does that assigns partition 0."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.commit({TopicPartition(topic, 0): offset})
    finally:
        await consumer.stop()


def row(monitor: Monitor, group: str) -> dict[str, Any]:
    return next((one for one in monitor.groups()["groups"] if one["group"] == group), {})


async def one_partition(monitor: Monitor, group: str) -> dict[str, Any]:
    page = await monitor.group(group)
    partitions = [] if page is None else page["on"][0]["partitions"]
    return partitions[0] if partitions else {}


async def test_hot_then_cooling_then_cold(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 1)
    group = f"g-{topic_name}"
    fill(kafka.bootstrap, topic_name, 1, 5)
    await commit(kafka.bootstrap, group, topic_name, 5)
    seen: list[str] = []
    async with watching(kafka.bootstrap, WatchOptions(horizon_ms=12_000)) as monitor:
        await eventually(lambda: row(monitor, group).get("heat") == "hot", 20)
        fill(kafka.bootstrap, topic_name, 1, 5)

        def cold() -> bool:
            heat = row(monitor, group)["heat"]
            if heat not in seen:
                seen.append(heat)
            return bool(heat == "cold")

        await eventually(cold, 60)
    assert seen == ["hot", "cooling", "cold"]
    # One that comes later finds the age of what was there before it in the log itself.
    async with watching(kafka.bootstrap, WatchOptions(horizon_ms=12_000)) as later:
        await eventually(lambda: row(later, group).get("heat") == "cold", 40)
    async with watching(kafka.bootstrap, WatchOptions(horizon_ms=3_600_000)) as later:
        await eventually(lambda: row(later, group).get("lag") == 5, 20)
        assert row(later, group)["heat"] == "hot"


async def test_what_retention_takes_is_announced_and_then_lost(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1, {"retention.ms": "600000"})
    group = f"g-{topic_name}"
    fill(kafka.bootstrap, topic_name, 1, 10)
    await commit(kafka.bootstrap, group, topic_name, 2)
    async with watching(kafka.bootstrap, WatchOptions()) as monitor:
        await eventually(lambda: row(monitor, group).get("loss_in_s") is not None, 20)
        assert 500 < row(monitor, group)["loss_in_s"] <= 600
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.delete_records([RdPartition(topic_name, 0, 6)]).values():
            future.result()

        async def lost() -> bool:
            found = await one_partition(monitor, group)
            return found["lost"] == 4 and found["lag"] == 4

        await eventually(lost, 20)


async def test_a_consumer_that_falls_behind_is_warned_of(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    group = f"g-{topic_name}"
    place = TopicPartition(topic_name, 0)
    options = WatchOptions(LagRules(patience_ms=60_000, samples=4))
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([place])
    try:
        async with (
            watching(kafka.bootstrap, options) as monitor,
            AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer,
        ):
            done = 0

            async def warned() -> bool:
                nonlocal done
                for _ in range(4):
                    await producer.send_and_wait(topic_name, b"x", partition=0)
                done += 1
                await consumer.commit({place: done})
                return bool(row(monitor, group).get("state") == "WARN")

            await eventually(warned, 30, 0.2)
            await consumer.commit({place: done + 5})
            await eventually(lambda: row(monitor, group)["state"] == "OK", 20)
    finally:
        await consumer.stop()


def in_a_transaction(kafka: RunningBroker, topic: str, records: int, *, commits: bool) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"t-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(records):
        producer.produce(topic, b"%d" % number, b"key", partition=0)
    assert producer.flush(30) == 0
    if commits:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)
    wait_settled(kafka.bootstrap, topic)


async def test_what_holds_no_record_that_can_be_read_is_no_lag(
    kafka: RunningBroker, topic_name: str
) -> None:
    """A group that commits behind its last record, as most clients do."""
    kafka.create_topic(topic_name, 1)
    group = f"g-{topic_name}"
    await asyncio.to_thread(in_a_transaction, kafka, topic_name, 5, commits=True)
    await commit(kafka.bootstrap, group, topic_name, 5)
    options = WatchOptions(rules=LagRules(patience_ms=1_000))
    async with watching(kafka.bootstrap, options) as monitor:

        async def is_idle_at(committed: int, end: int) -> bool:
            found = await one_partition(monitor, group)
            seen = {name: found.get(name) for name in ("committed", "end", "lag", "state")}
            return seen == {"committed": committed, "end": end, "lag": 0, "state": "OK"}

        await eventually(lambda: is_idle_at(5, 6), 30)
        await asyncio.to_thread(in_a_transaction, kafka, topic_name, 3, commits=False)
        await eventually(lambda: is_idle_at(5, 10), 30)
        fill(kafka.bootstrap, topic_name, 1, 2)

        async def stands() -> bool:
            found = await one_partition(monitor, group)
            return (found.get("end"), found.get("state")) == (12, "STOP") and found["lag"] > 0

        await eventually(stands, 30)
        await commit(kafka.bootstrap, group, topic_name, 12)
        await eventually(lambda: is_idle_at(12, 12), 30)


async def test_a_topic_that_is_recreated_or_grows_is_named(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1)
    group = f"g-{topic_name}"
    fill(kafka.bootstrap, topic_name, 1, 10)
    await commit(kafka.bootstrap, group, topic_name, 10)
    async with watching(kafka.bootstrap, WatchOptions()) as monitor:

        def drift() -> list[tuple[str, str, str]]:
            (cluster,) = monitor.groups()["clusters"]
            return [
                (one["what"], one["before"], one["after"])
                for one in reversed(cluster["drift"])
                if one["topic"] == topic_name
            ]

        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for future in admin.create_partitions([NewPartitions(topic_name, 3)]).values():
            future.result()
        await eventually(lambda: drift() == [("partitions", "1", "3")], 20)
        kafka.delete_topic(topic_name)
        kafka.create_topic(topic_name, 3)
        await eventually(lambda: [one[0] for one in drift()] == ["partitions", "recreated"], 30)
        fill(kafka.bootstrap, topic_name, 1, 4)
        await commit(kafka.bootstrap, group, topic_name, 4)

        async def read_again() -> bool:
            found = await one_partition(monitor, group)
            return found.get("committed") == 4

        await eventually(read_again, 30)
        assert row(monitor, group)["state"] == "OK"
        assert row(monitor, group)["regressions"] == 0


@pytest.mark.full  # half a minute of waiting
async def test_a_broker_that_dies_is_named_and_no_group_is_forgotten(
    start_cluster: Callable[..., RunningCluster], topic_name: str
) -> None:
    cluster = start_cluster(3)
    cluster.create_topic(topic_name, 6)
    fill(cluster.bootstrap, topic_name, 6, 5)
    groups = [f"g{number}-{topic_name}" for number in range(6)]
    for group in groups:
        await commit(cluster.bootstrap, group, topic_name, 5)
    async with watching(cluster.bootstrap, WatchOptions()) as monitor:
        (main,) = monitor.clusters
        await eventually(lambda: set(groups) <= main.judged.keys(), 30)
        since = {group: main.watch.groups[group].probation.first_seen_ms for group in groups}
        assert main.watch.health == ClusterHealth(0, 0, 0)
        cluster.nodes[2].kill()
        await eventually(lambda: main.watch.health.under_replicated >= 6 and main.status.ok, 60)
        assert main.watch.health.offline == 0
        await eventually(lambda: not main.status.commits, 60)
        await commit(cluster.nodes[0].bootstrap, groups[0], topic_name, 3)
        await eventually(lambda: row(monitor, groups[0])["state"] == "REWIND", 60)
        assert set(groups) <= main.judged.keys()
        now = {group: main.watch.groups[group].probation.first_seen_ms for group in groups}
        assert now == since, "none was forgotten and found again"
