"""Random faults under load, and what an independent client reads afterwards."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from headgate.kafka.options import LaneLimits
from headgate.model.outcome import Reason
from support.kafka.kafka_log import read_log
from support.kafka.lane_history import RunningLanes, running_lanes
from support.process.stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka

PARTITIONS = 6


async def load(world: RunningLanes, topic: str, dice: random.Random, ending: asyncio.Event) -> None:
    while not ending.is_set():
        for _ in range(dice.randrange(20)):
            partition = dice.randrange(PARTITIONS)
            if world.lanes.refusal(world.state(topic), partition) is None:
                world.put(topic, partition, size=dice.choice([100, 300, 3_000]))
        await asyncio.sleep(0.01)


async def fault(dice: random.Random, broker: RunningBroker, world: RunningLanes) -> None:
    kind = dice.choice(["pause", "long pause", "kill", "sender", "metadata", "limit"])
    topic = world.topics.states()[0].name
    producer = world.lanes._clusters["main"].producer
    if kind in ("pause", "long pause"):
        broker.pause()
        await asyncio.sleep(dice.uniform(0.1, 2) if kind == "pause" else dice.uniform(4, 6))
        broker.resume()
    elif kind == "kill":
        broker.kill()
        await asyncio.sleep(dice.uniform(0, 1))
        await asyncio.to_thread(broker.restart)
    elif kind == "sender" and producer is not None:
        producer._inner._sender.sender_task.cancel()
    elif kind == "metadata" and producer is not None:
        producer._inner.client._sync_task.cancel()
    elif kind == "limit":
        limits = [{"max.message.bytes": str(size)} for size in (2_000, 1_000_000)]
        for limit in limits:
            await asyncio.to_thread(broker.set_topic_configs, topic, limit)
            await asyncio.sleep(dice.uniform(0, 1))


async def run_rounds(broker: RunningBroker, topic: str, rounds: int, seed: int) -> None:
    dice = random.Random(seed)
    broker.create_topic(topic, PARTITIONS)
    limits = LaneLimits(stall_ms=1_500, election_ms=3_000)
    async with running_lanes(
        broker.bootstrap, topic, limits=limits, delivery_timeout_ms=3_000, compression="none"
    ) as world:
        ending = asyncio.Event()
        loading = asyncio.create_task(load(world, topic, dice, ending))
        for _ in range(rounds):
            before = len(world.history.offsets)
            await fault(dice, broker, world)
            await eventually(lambda n=before: len(world.history.offsets) > n + 500, 60)
        ending.set()
        await loading
        await world.all_ended(60)
        allowed = {Reason.UNKNOWN, Reason.TOO_LARGE, Reason.KAFKA_UNAVAILABLE}
        assert set(world.history.reasons()) <= allowed
        assert sum(events + size for _, _, events, size in world.lanes.depths()) == 0
        world.history.check(await asyncio.to_thread(read_log, broker.bootstrap, topic))


async def test_random_faults(start_broker: Callable[..., RunningBroker], topic_name: str) -> None:
    seed = random.randrange(10**9)
    try:
        await run_rounds(start_broker(), topic_name, 6, seed)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.full
@pytest.mark.timeout(1800)
async def test_many_random_faults(
    start_broker: Callable[..., RunningBroker], topic_name: str
) -> None:
    seed = random.randrange(10**9)
    try:
        await run_rounds(start_broker(), topic_name, 60, seed)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise


@pytest.mark.parametrize("task", ["_sender._sender_task", "client._sync_task"])
async def test_dead_task_of_the_producer_is_noticed(
    kafka: RunningBroker, topic_name: str, task: str
) -> None:
    kafka.create_topic(topic_name, 2)
    async with running_lanes(kafka.bootstrap, topic_name) as world:
        world.put(topic_name, 0)
        await world.all_ended()
        producer = world.lanes._clusters["main"].producer
        assert producer is not None
        owner, name = task.split(".")
        getattr(getattr(producer._inner, owner), name).cancel()
        for _ in range(10):
            world.put(topic_name, 0)
            world.put(topic_name, 1)
        await world.all_ended()
        # The records may all be written before anything but their sender is missed.
        await eventually(lambda: world.history.rebuilds == ["sender_ended"])
        assert set(world.history.reasons()) <= {Reason.UNKNOWN}
        world.history.check(await asyncio.to_thread(read_log, kafka.bootstrap, topic_name))


async def test_bytes_in_flight_are_bounded_over_all_lanes(
    kafka: RunningBroker, topic_name: str
) -> None:
    kafka.create_topic(topic_name, PARTITIONS)
    limits = LaneLimits(max_handed_bytes=50_000)
    async with running_lanes(kafka.bootstrap, topic_name, limits=limits) as world:
        most = 0

        def watch(batch: object) -> None:
            nonlocal most
            most = max(most, world.lanes._clusters["main"].handed_bytes)
            handed_over(batch)

        handed_over = world.history.handed_over
        world.history.handed_over = watch  # type: ignore[method-assign,assignment]
        for number in range(300):
            world.put(topic_name, number % PARTITIONS, size=30_000)
        await world.all_ended()
        assert not world.history.failures
        assert 50_000 <= most < 50_000 + 300_000, "one batch may go over it"
        assert world.lanes._clusters["main"].handed_bytes == 0
