"""What ingest may rely on, for lanes over real Kafka and over memory alike."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from headgate.backends.kafka.options import LaneLimits
from headgate.model.outcome import Reason
from headgate.model.publish import Publish, Stage
from headgate.model.topics import TopicState
from support.doubles.kafka_log import MemoryLanes, MemoryTopics
from support.kafka.kafka_log import LogRecord, read_log
from support.kafka.lane_history import History, changed, running_lanes
from support.process.stack import RunningBroker, eventually

PARTITIONS = 3
LIMITS = LaneLimits(max_events=50, max_batch_bytes=2_000)
CONFIGS = {"max.message.bytes": "30000"}


@dataclass
class World:
    """Lanes over some log, and how to read that log."""

    topic: str
    topics: Any
    lanes: Any
    history: History
    read: Callable[[], Awaitable[list[LogRecord]]]

    def put(self, partition: int, size: int = 0) -> Publish:
        made = self.history.publish(self.topic, partition, size=size)
        self.lanes.put(made)
        return made

    async def all_ended(self) -> None:
        await eventually(self.history.all_ended, 30, 0.01)

    async def check(self) -> None:
        self.history.check(await self.read())


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
async def world(request: pytest.FixtureRequest, topic_name: str) -> AsyncIterator[World]:
    async with running_world(request, topic_name, "CreateTime") as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
async def stamped(request: pytest.FixtureRequest, topic_name: str) -> AsyncIterator[World]:
    """Lanes to a topic whose records get the broker's time."""
    async with running_world(request, topic_name, "LogAppendTime") as running:
        yield running


@asynccontextmanager
async def running_world(
    request: pytest.FixtureRequest, topic_name: str, timestamp_type: str
) -> AsyncIterator[World]:
    if request.param == "memory":
        state = TopicState(
            topic_name,
            "main",
            b"i" * 16,
            PARTITIONS,
            max_message_bytes=30_000,
            timestamp_type=timestamp_type,
        )
        history = History()
        topics = MemoryTopics([state])
        memory = MemoryLanes(topics, history, LIMITS)
        yield World(topic_name, topics, memory, history, lambda: read_memory(memory))
        await memory.close()
        return
    broker: RunningBroker = request.getfixturevalue("kafka")
    configs = {**CONFIGS, "message.timestamp.type": timestamp_type}
    broker.create_topic(topic_name, PARTITIONS, configs)
    async with running_lanes(broker.bootstrap, topic_name, limits=LIMITS) as made:
        read = lambda: asyncio.to_thread(read_log, broker.bootstrap, topic_name)  # noqa: E731
        yield World(topic_name, made.topics, made.lanes, made.history, read)


async def read_memory(lanes: MemoryLanes) -> list[LogRecord]:
    return [
        LogRecord(partition, offset, one.key, one.value, list(one.headers), one.timestamp_ms)
        for (_topic, partition), log in lanes.log.items()
        for offset, one in enumerate(log)
    ]


async def test_every_record_is_acknowledged_in_order_at_its_offset(world: World) -> None:
    state = world.topics.get(world.topic)
    assert all(world.lanes.refusal(state, partition) is None for partition in range(PARTITIONS))
    for _ in range(40):
        for _ in range(random.randrange(8)):
            partition = random.randrange(PARTITIONS)
            if world.lanes.refusal(state, partition) is None:  # a slow broker: the lane is full
                assert world.put(partition, random.randrange(700)).stage is Stage.LANE
        await asyncio.sleep(0.002)
    await world.all_ended()
    assert len(world.history.offsets) == len(world.history.made)
    assert set(world.history.handed) == set(world.history.made)
    assert max(world.history.batches) > 1
    await world.check()


async def test_a_record_has_the_time_that_the_log_gave_it(stamped: World) -> None:
    """Of a topic that keeps no time of its producers; `check` compares it with the log's."""
    began_ms = time.time_ns() // 1_000_000
    for partition in (0, 0, 1):
        made = stamped.history.publish(stamped.topic, partition, timestamp_ms=5)
        stamped.lanes.put(made)
    await stamped.all_ended()
    assert all(one.record.timestamp_ms >= began_ms for one in stamped.history.made)
    await stamped.check()


async def test_nothing_happens_within_put(world: World) -> None:
    made = world.put(0)
    stranger = world.history.publish("no-such-topic", 0)
    world.lanes.put(stranger)
    assert not world.history.handed
    assert not world.history.all_ended([made])
    assert not world.history.all_ended([stranger])
    await world.all_ended()


async def test_dropped_record_is_never_handed_over_and_never_told(world: World) -> None:
    puts = [world.put(0) for _ in range(10)]
    for one in puts[3:6]:
        one.dropped = True
    await world.all_ended()
    await eventually(lambda: sum(size for *_, size in world.lanes.depths()) == 0)
    assert set(world.history.handed) == set(puts[:3] + puts[6:]) == set(world.history.offsets)
    assert not world.history.failures
    await world.check()


async def test_unknown_topic_and_partition_are_certain(world: World) -> None:
    strangers = [
        world.history.publish("no-such-topic", 0),
        world.history.publish(world.topic, PARTITIONS),
    ]
    for one in strangers:
        world.lanes.put(one)
    await world.all_ended()
    assert world.history.reasons() == {Reason.UNKNOWN_TOPIC: 2}
    assert not world.history.handed


async def test_too_large_record_is_refused_and_its_neighbours_are_not(world: World) -> None:
    world.put(0)
    large = world.history.publish(world.topic, 0)
    # Random bytes: the broker measures what is left after compression.
    value = b"%d " % large.index + random.randbytes(40_000)
    large.record = changed(large.record, value=value)
    large.size += 40_000
    world.lanes.put(large)
    world.put(0)
    await world.all_ended()
    assert world.history.failures.keys() == {large}
    failure = world.history.failures[large]
    assert failure.reason is Reason.TOO_LARGE
    assert failure.figures is not None
    assert failure.figures["limit"] == "max.message.bytes"
    assert failure.figures["size_bytes"] > 40_000
    await world.check()


async def test_full_lane_refuses_and_takes_again(world: World) -> None:
    state = world.topics.get(world.topic)
    while (refusal := world.lanes.refusal(state, 1)) is None:
        world.put(1)
    assert refusal.reason is Reason.OVERLOADED
    assert refusal.retry_after_s
    assert len(world.history.made) == LIMITS.max_events
    assert world.lanes.refusal(state, 0) is None
    assert [one[2] for one in world.lanes.depths()] == [LIMITS.max_events]
    await world.all_ended()
    assert world.lanes.refusal(state, 1) is None


async def test_drain_ends_everything_and_closed_lanes_say_so(world: World) -> None:
    for number in range(60):
        world.put(number % PARTITIONS, 300)
    await world.lanes.drain(30)
    assert len(world.history.offsets) == 60
    await world.lanes.close()
    late = world.put(0)
    await world.all_ended()
    assert world.history.failures[late].reason is Reason.DRAINING
    await world.check()


async def test_close_ends_everything_at_once(world: World) -> None:
    for number in range(60):
        world.put(number % PARTITIONS, 300)
    await world.lanes.close()
    assert world.history.all_ended()
    assert set(world.history.reasons()) <= {Reason.UNKNOWN, Reason.KAFKA_UNAVAILABLE}
    for one, failure in world.history.failures.items():
        assert failure.reason is not Reason.UNKNOWN or one in world.history.handed
    await world.check()


async def test_what_was_not_handed_over_can_be_taken_out_and_put_again(world: World) -> None:
    puts = [world.put(1, 500) for _ in range(20)]
    puts[2].dropped = True
    assert world.lanes.head(world.topic, 1) is puts[0]
    assert world.lanes.head(world.topic, 0) is None
    in_flight, taken = world.lanes.withdraw(world.topic, 1)
    assert not in_flight  # nothing is handed over within `put`
    assert taken == [one for one in puts if one is not puts[2]]
    assert world.lanes.head(world.topic, 1) is None
    assert sum(size for *_, size in world.lanes.depths()) == 0
    for one in taken:
        world.lanes.put(one)
    await eventually(lambda: bool(world.history.handed))
    in_flight, rest = world.lanes.withdraw(world.topic, 1)
    assert set(in_flight) <= set(world.history.handed)
    assert not {*rest} & {*world.history.handed}
    await eventually(lambda: world.history.all_ended([one for one in taken if one not in rest]))
    assert not {*rest} & {*world.history.offsets}
    assert world.lanes.withdraw("no-such-topic", 0) == ([], [])
    await world.check()
