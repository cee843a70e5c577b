"""Commits around the moment at which the monitor begins to follow every one of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition

from headgate.kafka.group_reader import CommitStream
from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_monitor import ClusterMonitor
from headgate.monitor.cluster_watch import WatchOptions
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka


@pytest.fixture
async def member(kafka: RunningBroker, topic_name: str) -> AsyncIterator[AIOKafkaConsumer]:
    """Of a group of its own that has committed 3 of the topic's seven records."""
    kafka.create_topic(topic_name, 1)
    fill(kafka.bootstrap, topic_name, 1, 7)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id=f"g-{topic_name}", enable_auto_commit=False
    )
    await consumer.start()
    consumer.assign([TopicPartition(topic_name, 0)])
    await commit(consumer, 3)
    yield consumer
    await consumer.stop()


async def commit(member: AIOKafkaConsumer, *offsets: int) -> None:
    (place,) = member.assignment()
    for offset in offsets:
        await member.commit({place: offset})


@asynccontextmanager
async def polling(kafka: RunningBroker) -> AsyncIterator[ClusterMonitor]:
    """A monitor whose own polls are too far apart to see anything."""

    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    options = ClusterOptions(kafka.bootstrap)
    monitor = ClusterMonitor("main", options, WatchOptions(), 600, {}, now_ms)
    monitor.start()
    try:
        await eventually(lambda: monitor.status.commits == "", 60)
        yield monitor
    finally:
        await monitor.close()


def falls(monitor: ClusterMonitor, topic: str) -> list[tuple[int, int]]:
    return [
        (one.from_offset, one.to_offset) for one in monitor.watch.regressions if one.topic == topic
    ]


@pytest.mark.parametrize(
    ("before", "meanwhile", "later", "expected"),
    [
        ((7,), (), (5,), [(7, 5)]),
        ((7, 5), (6,), (4,), [(6, 4)]),  # a step back between two polls is not to be seen
        ((), (7, 5), (), [(7, 5)]),
        ((6,), (4, 7, 4), (3,), [(7, 4), (4, 3)]),
        ((), (), (2,), [(3, 2)]),
    ],
)
async def test_no_commit_falls_between_a_poll_and_the_commit_stream(
    kafka: RunningBroker,
    topic_name: str,
    member: AIOKafkaConsumer,
    monkeypatch: pytest.MonkeyPatch,
    before: tuple[int, ...],
    meanwhile: tuple[int, ...],
    later: tuple[int, ...],
    expected: list[tuple[int, int]],
) -> None:
    """before: committed after the last poll, before the commit stream begins.  meanwhile: after it
    stands
    where it begins, and before anything else of it."""
    begin = CommitStream.begin

    async def slowly(commits: CommitStream) -> bool:
        await commit(member, *before)
        begun = await begin(commits)
        await commit(member, *meanwhile)
        return begun

    monkeypatch.setattr(CommitStream, "begin", slowly)
    async with polling(kafka) as monitor:
        await commit(member, *later)
        await eventually(lambda: len(falls(monitor, topic_name)) >= len(expected), 20)
        assert falls(monitor, topic_name) == expected
