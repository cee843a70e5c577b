"""Batches that the broker refuses: who is to blame, and that everything else goes on."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from headgate.kafka.options import LaneLimits
from headgate.model.outcome import Reason
from support.kafka.kafka_log import read_log
from support.kafka.lane_history import RunningLanes, changed, running_lanes
from support.process.stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka

OLD_LIMIT = {"max.message.bytes": "200000"}
NEW_LIMIT = {"max.message.bytes": "10000"}


async def checked(world: RunningLanes, broker: RunningBroker, topic: str) -> None:
    await world.all_ended()
    world.history.check(await asyncio.to_thread(read_log, broker.bootstrap, topic))


async def test_lowered_limit_refuses_the_large_and_publishes_the_small(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 2, OLD_LIMIT)
    seed = random.randrange(10**9)
    dice = random.Random(seed)
    async with running_lanes(kafka.bootstrap, topic_name, compression="none") as world:
        first = world.put(topic_name, 0, size=20_000)
        await world.all_ended()
        assert first in world.history.offsets
        await asyncio.to_thread(kafka.set_topic_configs, topic_name, NEW_LIMIT)
        # The lanes still believe in the old limit, so small records share batches that are now
        # too large, and large ones are refused whatever their company.
        large = []
        for _ in range(300):
            size = 20_000 if dice.random() < 0.03 else dice.randrange(100, 900)
            made = world.put(topic_name, dice.randrange(2), size=size)
            large += [made] if size == 20_000 else []
        await checked(world, kafka, topic_name)
        assert set(world.history.failures) == set(large), f"seed {seed}"
        assert set(world.history.reasons()) <= {Reason.TOO_LARGE}
        for failure in world.history.failures.values():
            assert failure.figures is not None
            assert failure.figures["size_bytes"] > 20_000
        assert world.history.rebuilds == [], "a definite refusal needs no new producer"
        await eventually(lambda: world.state(topic_name).max_message_bytes == 10_000)


async def test_partition_works_on_after_a_refused_timestamp(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1, {"message.timestamp.after.max.ms": "60000"})
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        for _ in range(5):
            world.put(topic_name, 0)
        bad = world.put(topic_name, 0, timestamp_ms=int(time.time() * 1000) + 7_200_000)
        for _ in range(5):
            world.put(topic_name, 0)
        await checked(world, kafka, topic_name)
        assert {bad: Reason.TIMESTAMP_OUT_OF_RANGE} == {
            one: failure.reason for one, failure in world.history.failures.items()
        }
        assert world.history.rebuilds == []


async def test_record_without_key_is_refused_by_a_compacted_topic(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 1, {"cleanup.policy": "compact"})
    async with running_lanes(kafka.bootstrap, topic_name, delivery_timeout_ms=10_000) as world:
        bad = world.history.publish(topic_name, 0)
        bad.record = changed(bad.record, key=None)
        world.put(topic_name, 0)
        world.lanes.put(bad)
        world.put(topic_name, 0)
        await checked(world, kafka, topic_name)
        assert {bad: Reason.BROKER_REFUSED} == {
            one: failure.reason for one, failure in world.history.failures.items()
        }


async def test_record_larger_than_a_batch_goes_alone(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name)
    limits = LaneLimits(max_batch_bytes=10_000)
    async with running_lanes(kafka.bootstrap, topic_name, limits=limits) as world:
        for size in (10, 50_000, 10, 900_000, 10):
            world.put(topic_name, 0, size=size)
        await checked(world, kafka, topic_name)
        assert not world.history.failures
        assert world.history.batches == [1, 1, 1, 1, 1]


async def test_record_that_cannot_be_encoded_ends_alone(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        bad = world.history.publish(topic_name, 0)
        bad.record = changed(bad.record, headers=[("\ud800", b"")])
        world.lanes.put(bad)
        world.put(topic_name, 0)
        await checked(world, kafka, topic_name)
        assert {bad: Reason.INTERNAL} == {
            one: failure.reason for one, failure in world.history.failures.items()
        }


async def test_broken_sequence_is_repaired_by_a_new_producer(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, 2)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        world.put(topic_name, 1)
        await world.all_ended()
        # What a refusal that nobody repairs leaves behind.
        producer = world.lanes._clusters["main"].producer
        assert producer is not None
        sequences = producer._inner._txn_manager._sequence_numbers
        for tp in sequences:
            if tp.partition == 0:
                sequences[tp] += 7
        for _ in range(20):
            world.put(topic_name, 0)
            world.put(topic_name, 1)
        await checked(world, kafka, topic_name)
        assert not world.history.failures
        assert world.history.rebuilds == ["OutOfOrderSequenceNumber"]
