"""Kafka away, stopped, killed or never there: what lanes answer, and what the log shows."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from headgate.devstack.ports import LOOPBACK
from headgate.kafka.options import LaneLimits
from headgate.model.outcome import Reason
from support.gateway.meters import counted
from support.kafka.lane_history import running_lanes
from support.process.stack import PATIENCE, RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka

StartBroker = Callable[..., RunningBroker]


async def test_order_holds_under_concurrent_puts(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 6)
    limits = LaneLimits(max_batch_bytes=4_000)
    async with running_lanes(kafka.bootstrap, topic_name, limits=limits) as world:

        async def writer() -> None:
            for _ in range(100):
                for _ in range(random.randrange(1, 8)):
                    world.put(topic_name, random.randrange(6), size=random.randrange(1500))
                await asyncio.sleep(random.random() / 200)

        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(writer())
        await world.all_ended()
        assert not world.history.failures
        (acknowledged,) = counted(world.meter, "acknowledged_records").values()
        assert len(world.history.offsets) == len(world.history.made) == acknowledged
        assert set(world.history.handed.values()) == {1}
        assert sum(events + size for _, _, events, size in world.lanes.depths()) == 0
        await world.check_log(kafka.bootstrap, topic_name)


@pytest.mark.full  # test_faults_kafka.py kills Kafka behind a gateway under load
async def test_killed_kafka_loses_nothing_and_is_refused_early(
    start_broker: StartBroker, topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name, 6)
    limits = LaneLimits(stall_ms=2_000)
    async with running_lanes(broker.bootstrap, topic_name, limits=limits) as world:
        ending = asyncio.Event()
        loading = asyncio.create_task(world.load(topic_name, 6, ending))
        await eventually(lambda: len(world.history.offsets) > 600)
        broker.kill()
        state = world.state(topic_name)
        killed_at = time.monotonic()
        await eventually(lambda: world.lanes.refusal(state, 0) is not None, 10)
        refusal = world.lanes.refusal(state, 0)
        assert refusal is not None
        assert refusal.reason is Reason.KAFKA_UNAVAILABLE
        assert refusal.retry_after_s
        await eventually(lambda: not world.lanes.health("main")[0])
        await eventually(lambda: time.monotonic() - killed_at > 12, 20)
        await asyncio.to_thread(broker.restart)
        before = len(world.history.offsets)
        await eventually(lambda: len(world.history.offsets) > before + 900, 30)
        await eventually(lambda: world.lanes.refusal(state, 0) is None)
        await eventually(lambda: world.lanes.health("main")[0])
        ending.set()
        await loading
        await world.all_ended()
        assert not world.history.failures
        assert world.history.rebuilds == []
        await world.check_log(broker.bootstrap, topic_name)


async def test_batch_of_a_stopped_broker_ends_unknown_and_nothing_lands_out_of_turn(
    pausable: RunningBroker, topic_name: str
) -> None:
    pausable.create_topic(topic_name, 2)
    async with running_lanes(pausable.bootstrap, topic_name, delivery_timeout_ms=6_000) as world:
        for _ in range(20):
            world.put(topic_name, 0)
        await world.all_ended()
        pausable.pause()
        handed = [world.put(topic_name, 0) for _ in range(5)]
        await eventually(lambda: all(one in world.history.handed for one in handed))
        queued = [world.put(topic_name, 0) for _ in range(5)]
        await eventually(lambda: world.history.all_ended(handed), 20)
        assert world.history.reasons() == {Reason.UNKNOWN: 5}
        await asyncio.to_thread(pausable.resume)
        await eventually(lambda: world.history.rebuilds == ["delivery_timeout"])
        last = [world.put(topic_name, 0) for _ in range(5)]
        await world.all_ended()
        assert all(one in world.history.offsets for one in queued + last)
        await world.check_log(pausable.bootstrap, topic_name)


async def test_fenced_batch_is_refused_after_its_successor(
    kafka: RunningBroker, topic_name: str
) -> None:
    """A batch that is still on its way when the lane gives up cannot land behind later ones."""
    kafka.create_topic(topic_name)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        producer = world.lanes._clusters["main"].producer
        assert producer is not None
        manager = producer._inner._txn_manager
        before = manager._pid_and_epoch
        producer.fail("test")
        await eventually(lambda: world.history.rebuilds == ["test"])
        world.put(topic_name, 0)
        await world.all_ended()
        successor = world.lanes._clusters["main"].producer
        assert successor is not None
        after = successor._inner._txn_manager._pid_and_epoch
        assert (after.pid, after.epoch) == (before.pid, before.epoch + 1)
        # What the old producer would have sent comes now: the broker refuses the old epoch.
        successor._inner._txn_manager._pid_and_epoch = before
        late = world.put(topic_name, 0)
        await eventually(lambda: len(world.history.rebuilds) == 2)
        await world.all_ended()
        assert world.history.rebuilds[1] in ("InvalidProducerEpoch", "ProducerFenced")
        assert late in world.history.offsets, "it was certainly not written, so it is sent again"
        await world.check_log(kafka.bootstrap, topic_name)


async def test_gateway_starts_without_kafka_and_recovers(
    start_broker: StartBroker, topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name)
    broker.kill()
    async with running_lanes(broker.bootstrap, topic_name) as world:
        ok, detail = world.lanes.health("main")
        assert not ok
        assert "connect" in detail
        assert world.topics.missing_reason(topic_name).reason is Reason.KAFKA_UNAVAILABLE
        assert world.topics.missing_reason("other").reason is Reason.UNKNOWN_TOPIC
        await asyncio.to_thread(broker.restart)
        await eventually(lambda: world.topics.get(topic_name) is not None)
        await eventually(lambda: world.lanes.health("main")[0])
        assert world.lanes.refusal(world.state(topic_name), 0) is None
        world.put(topic_name, 0)
        await world.all_ended()
        await world.check_log(broker.bootstrap, topic_name)


async def test_empty_lanes_refuse_while_kafka_is_away_and_open_by_themselves(
    start_broker: StartBroker, topic_name: str
) -> None:
    broker = start_broker()
    broker.create_topic(topic_name, 2)
    limits = LaneLimits(stall_ms=1_000)
    async with running_lanes(broker.bootstrap, topic_name, limits=limits, refresh_ms=500) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        state = world.state(topic_name)
        broker.kill()
        for partition in (0, 1):
            await eventually(lambda p=partition: world.lanes.refusal(state, p) is not None)
        await asyncio.to_thread(broker.restart)
        for partition in (0, 1):
            await eventually(lambda p=partition: world.lanes.refusal(state, p) is None)


async def test_drain_waits_for_the_acknowledgements(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 6)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        for number in range(2_000):
            world.put(topic_name, number % 6, size=2_000)
        await world.lanes.drain(30)
        assert len(world.history.offsets) == 2_000
        await world.lanes.close()
        late = world.put(topic_name, 0)
        await world.all_ended()
        assert world.history.failures[late].reason is Reason.DRAINING
        await world.check_log(kafka.bootstrap, topic_name)


async def test_drain_is_bounded_while_kafka_is_stopped(
    pausable: RunningBroker, topic_name: str
) -> None:
    pausable.create_topic(topic_name, 1)
    limits = LaneLimits(max_batch_bytes=1_000)
    async with running_lanes(pausable.bootstrap, topic_name, limits=limits) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        pausable.pause()
        for _ in range(10):
            world.put(topic_name, 0, size=300)
        await eventually(lambda: len(world.history.handed) > 1)
        dropped = world.history.made[-1]
        dropped.dropped = True
        began = time.monotonic()
        await world.lanes.drain(1.0)
        assert time.monotonic() - began < 10 * PATIENCE
        assert world.history.all_ended()
        reasons = world.history.reasons()
        assert set(reasons) == {Reason.UNKNOWN, Reason.KAFKA_UNAVAILABLE}
        assert reasons[Reason.UNKNOWN] == len(world.history.handed) - 1
        assert dropped not in world.history.failures
        pausable.resume()
        await world.check_log(pausable.bootstrap, topic_name)


async def test_full_lane_is_overloaded(pausable: RunningBroker, topic_name: str) -> None:
    pausable.create_topic(topic_name, 2)
    limits = LaneLimits(max_bytes=10_000)
    async with running_lanes(pausable.bootstrap, topic_name, limits=limits) as world:
        state = world.state(topic_name)
        pausable.pause()
        while world.lanes.refusal(state, 0) is None:
            world.put(topic_name, 0, size=1_000)
        refusal = world.lanes.refusal(state, 0)
        assert refusal is not None
        assert refusal.reason is Reason.OVERLOADED
        assert len(world.history.made) == 10
        assert world.lanes.refusal(state, 1) is None, "other lanes have room"
        pausable.resume()
        await world.all_ended()
        assert world.lanes.refusal(state, 0) is None


async def test_stopped_kafka_is_refused_early_and_then_goes_on(
    pausable: RunningBroker, topic_name: str
) -> None:
    """SIGSTOP: connections stay open and nothing answers."""
    pausable.create_topic(topic_name, 2)
    limits = LaneLimits(stall_ms=1_000)
    async with running_lanes(pausable.bootstrap, topic_name, limits=limits) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        state = world.state(topic_name)
        pausable.pause()
        for _ in range(3):
            world.put(topic_name, 0)
        refusal = await eventually(lambda: world.lanes.refusal(state, 0), 10)
        assert refusal.reason is Reason.KAFKA_UNAVAILABLE
        pausable.resume()
        await eventually(lambda: world.lanes.refusal(state, 0) is None, 10)
        await world.all_ended()
        assert not world.history.failures
        assert world.history.rebuilds == []
        await world.check_log(pausable.bootstrap, topic_name)


async def test_unreachable_bootstrap_ends_quickly(topic_name: str) -> None:
    nowhere = f"{LOOPBACK}:{free_port()}"
    began = time.monotonic()
    async with running_lanes(nowhere, topic_name) as world:
        assert world.topics.get(topic_name) is None
        assert not world.topics.healthy("main")
    assert time.monotonic() - began < 15 * PATIENCE
