"""A consumer that assigns and never commits, found by the broker's own figures (JMX exporter)."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.structs import TopicPartition

from headgate.devstack.java import cache_directory
from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import KafkaInstallation, ensure_agent, start_node, wait_for_node
from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_monitor import Exporters
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually, free_port, single_node

pytestmark = pytest.mark.kafka

LIMIT = 50_000.0


class Measured(NamedTuple):
    bootstrap: str
    url: str


@pytest.fixture
def measured(kafka_installation: KafkaInstallation, tmp_path: Path) -> Iterator[Measured]:
    """A broker with the agent."""
    agent = ensure_agent(cache_directory(os.environ), kafka_installation.java, lambda _: None)
    plan = single_node(tmp_path / "broker")
    port = free_port({plan.port, plan.controller_port})
    child = start_node(kafka_installation, plan, agent.flag(plan.directory, port))
    try:
        wait_for_node(child, plan)
        yield Measured(plan.bootstrap, f"http://{LOOPBACK}:{port}/metrics")
    finally:
        child.kill()


@asynccontextmanager
async def task(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    running = asyncio.create_task(work)
    try:
        yield
    finally:
        running.cancel()
        await asyncio.wait([running])


async def write(bootstrap: str, topic: str) -> None:
    """Some 200 kB a second."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        while True:
            for _ in range(50):
                await producer.send(topic, b"x" * 400, partition=0)
            await asyncio.sleep(0.1)


async def read(bootstrap: str, topic: str, group: str) -> None:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_commit_interval_ms=200
    )
    await consumer.start()
    try:
        while True:
            await consumer.getmany(timeout_ms=200)
    finally:
        await consumer.stop()


async def read_in_secret(bootstrap: str, topic: str) -> None:
    """Starts again whenever it is at the end."""
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([place])
        while True:
            await consumer.seek_to_beginning(place)
            for _ in range(5):
                await consumer.getmany(timeout_ms=50)
    finally:
        await consumer.stop()


async def test_a_reader_without_a_group_is_named(measured: Measured, topic_name: str) -> None:
    kafka_log.create_topic(measured.bootstrap, topic_name, 1, {}, 1)
    options = MonitorOptions(WatchOptions(), 0.5, None)
    monitor = Monitor(
        {"main": ClusterOptions(measured.bootstrap)},
        options,
        None,
        lambda: time.time_ns() // 1_000_000,
        {"main": Exporters((measured.url,), LIMIT)},
    )
    (cluster,) = monitor.clusters

    def rogue() -> list[str]:
        (row,) = monitor.groups()["clusters"]
        return [one["topic"] for one in row["rogue_readers"]]

    monitor.start()
    bootstrap = measured.bootstrap
    try:
        async with (
            task(write(bootstrap, topic_name)),
            task(read(bootstrap, topic_name, f"g-{topic_name}")),
        ):
            await eventually(lambda: topic_name in cluster.readers.unexplained, 60)
            polled = cluster.status.polled_ms or 0
            await eventually(lambda: (cluster.status.polled_ms or 0) > polled + 5_000, 30)
            # a group that commits explains what it reads, but for a while in which it was late
            await eventually(lambda: rogue() == [], 20)
            async with task(read_in_secret(bootstrap, topic_name)):
                await eventually(lambda: rogue() == [topic_name], 60)
                assert len(monitor.groups()["groups"]) == 1, "no list has it"
                rates = monitor.figures().gauges["headgate_unexplained_bytes_per_second"]
                assert rates["main", topic_name] > LIMIT
            await eventually(lambda: rogue() == [], 60)
        assert cluster.rogue_detail == ""
    finally:
        await monitor.close()


async def test_an_exporter_that_does_not_answer_is_said(kafka: RunningBroker) -> None:
    options = MonitorOptions(WatchOptions(), 0.2, None)
    exporters = {"main": Exporters((f"http://{LOOPBACK}:{free_port()}/metrics",), LIMIT)}
    clusters = {"main": ClusterOptions(kafka.bootstrap)}
    monitor = Monitor(clusters, options, None, lambda: 0, exporters)
    monitor.start()
    try:
        await eventually(lambda: "cannot be read" in monitor.clusters[0].rogue_detail, 30)
        assert monitor.clusters[0].status.ok, "the groups are polled all the same"
    finally:
        await monitor.close()
