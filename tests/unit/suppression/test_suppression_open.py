"""Namespaces are born before their first event, and calls are paced."""

from __future__ import annotations

import asyncio
import os

import pytest

from headgate.model.outcome import Failure
from headgate.model.publish import Publish
from headgate.model.suppression import Scope
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import SuppressionCall, SuppressionReply
from headgate.suppression.suppressor import Suppressor
from support.doubles.suppression_store import MemoryRedis, MemoryStore
from support.failing_clock import FailingClock
from support.gateway.meters import a_meter
from support.gateway.suppression_world import QUARANTINE_MS, World, make_publish, make_scope
from support.process.stack import eventually
from support.virtual_time import run_in_virtual_time


def test_an_opened_namespace_is_out_of_quarantine_when_its_first_event_comes() -> None:
    world = World(warm=False)
    for process in (world.g0, world.g1):
        process.reservations.open(world.scope)
        process.exchange()
        process.reservations.open(world.scope)
        assert not process.reservations.has_news
    world.later(QUARANTINE_MS)
    assert world.g0.publish_all("A") == "published"
    assert world.g0.publish_all("A") == "unchanged@0"


def test_a_namespace_opened_while_redis_is_away_is_born_at_the_reconnect() -> None:
    world = World(warm=False)
    world.g0.cut()
    world.g0.reservations.open(world.scope)
    world.g0.reconnect()
    assert world.scope.incarnation in world.values


def test_a_namespace_whose_first_call_is_lost_is_born_at_the_reconnect() -> None:
    world = World(warm=False)
    world.g0.reservations.open(world.scope)
    assert world.g0.reservations.next_call(world.g0.seconds) is not None
    world.g0.cut()
    world.g0.reconnect()
    assert world.scope.incarnation in world.values


def test_all_namespaces_are_born_again_when_redis_comes_back_empty() -> None:
    world = World(warm=False)
    scopes = [make_scope(number) for number in range(1, 4)]
    for scope in scopes:
        world.g0.reservations.open(scope)
    world.restart_redis()
    world.g0.reconnect()
    assert all(scope.incarnation in world.values for scope in scopes)


def test_all_namespaces_are_born_again_when_one_is_found_flushed() -> None:
    world = World(warm=False)
    scopes = [make_scope(number) for number in range(1, 4)]
    for scope in scopes:
        world.g0.reservations.open(scope)
    world.g0.exchange()
    world.values.clear()
    world.g0.talk(scopes[0])
    assert all(scope.incarnation in world.values for scope in scopes)


def test_a_new_topic_of_the_same_name_is_opened_at_once() -> None:
    world = World(warm=False)
    world.g0.reservations.open(world.scope)
    world.g0.exchange()
    new = make_scope(2)
    world.g0.reservations.scope_changed(world.scope, new)
    world.g0.exchange()
    assert new.incarnation in world.values


def test_more_namespaces_than_one_call_has_places_for() -> None:
    world = World(warm=False)
    scopes = [Scope(f"t{number}", bytes(16), 1, b"%08d" % number) for number in range(300)]
    for scope in scopes:
        world.g0.reservations.open(scope)
    publishes = [make_publish("A", scope) for scope in scopes]
    for publish in publishes:
        world.g0.reservations.reserve(publish)
    world.g0.exchange()
    assert world.g0.lane == publishes
    assert all(scope.incarnation in world.values for scope in scopes)


class Slow(MemoryStore):
    """Counts the reservations of each call."""

    def __init__(self, redis: MemoryRedis) -> None:
        super().__init__(redis)
        self.sizes: list[int] = []

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        self.sizes.append(call.reservations)
        return await super().run(call)


class Listener:
    """`Verdicts`."""

    def __init__(self) -> None:
        self.lane: list[Publish] = []

    def publish(self, publish: Publish) -> None:
        self.lane.append(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        raise AssertionError(publish)

    def refused(self, publish: Publish, failure: Failure) -> None:
        raise AssertionError(failure)


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def start(clock: Clock, linger_ms: float) -> tuple[Suppressor, Slow, Listener]:
    store, listener = Slow(MemoryRedis(lambda: clock() * 1000)), Listener()
    options = SuppressOptions(linger_ms=linger_ms)
    suppressor = Suppressor(store, listener, options, clock, lambda count: bytes(count), a_meter())
    await suppressor.start()
    await eventually(lambda: suppressor.health()[0], interval_s=0)
    return suppressor, store, listener


def arrive(suppressor: Suppressor, key: int) -> Publish:
    publish = make_publish("A", SCOPE, f"key-{key}")
    suppressor.reserve(publish)
    return publish


SCOPE = make_scope()


async def test_an_event_that_finds_the_connection_idle_does_not_wait() -> None:
    clock = Clock()
    suppressor, store, listener = await start(clock, 3_600_000)
    arrive(suppressor, 0)
    await eventually(lambda: listener.lane, interval_s=0)
    clock.now += 3_600
    arrive(suppressor, 1)
    await eventually(lambda: len(listener.lane) == 2, interval_s=0)
    assert store.sizes == [1, 1]
    await suppressor.close()


async def test_events_that_keep_arriving_share_a_call() -> None:
    suppressor, store, listener = await start(Clock(), 3_600_000)
    for key in range(50):
        arrive(suppressor, key)
        await asyncio.sleep(0)
    await eventually(lambda: len(listener.lane) == 50, interval_s=0)
    assert max(store.sizes) > 40  # the first few went at once
    await suppressor.close()


async def test_a_call_waits_no_longer_than_it_may() -> None:
    clock = Clock()
    suppressor, store, listener = await start(clock, 5)
    for key in range(200):
        arrive(suppressor, key)
        await asyncio.sleep(0)
        clock.now += 0.001
    await eventually(lambda: len(listener.lane) == 200, interval_s=0)
    assert 4 <= max(store.sizes) <= 8
    await suppressor.close()


async def test_a_full_call_does_not_wait() -> None:
    suppressor, store, listener = await start(Clock(), 3_600_000)
    for key in range(1000):
        arrive(suppressor, key)
        if not key % 10:
            await asyncio.sleep(0)
    await eventually(lambda: len(listener.lane) == 1000, interval_s=0)
    assert max(store.sizes) == 200
    await suppressor.close()


async def test_settlements_wait_for_an_event_but_not_the_event_for_them() -> None:
    clock = Clock()
    suppressor, store, listener = await start(clock, 3_600_000)
    first = arrive(suppressor, 0)
    await eventually(lambda: listener.lane, interval_s=0)
    clock.now += 3_600
    suppressor.acknowledged([first], 0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert store.sizes == [1]
    arrive(suppressor, 1)
    await eventually(lambda: len(listener.lane) == 2, interval_s=0)
    assert store.sizes == [1, 1]
    await suppressor.close()


@pytest.mark.parametrize("linger_ms", [0, 5])
async def test_settlements_go_alone_when_no_event_comes(linger_ms: float) -> None:
    suppressor, store, listener = await start(Clock(), linger_ms)
    publish = arrive(suppressor, 0)
    await eventually(lambda: listener.lane, interval_s=0)
    suppressor.acknowledged([publish], 0)
    await eventually(lambda: store.sizes == [1, 0])
    await suppressor.close()


async def test_close_does_not_linger() -> None:
    suppressor, store, listener = await start(Clock(), 3_600_000)
    publish = arrive(suppressor, 0)
    await eventually(lambda: listener.lane, interval_s=0)
    suppressor.acknowledged([publish], 0)
    await asyncio.sleep(0)
    await suppressor.close()
    assert store.sizes == [1, 0]


def test_topics_come_out_of_quarantine_although_a_tick_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def work() -> None:
        loop = asyncio.get_running_loop()
        clock = FailingClock(loop.time)
        store, listener = Slow(MemoryRedis(lambda: loop.time() * 1000)), Listener()
        options = SuppressOptions()
        suppressor = Suppressor(store, listener, options, clock, os.urandom, a_meter())
        await suppressor.start()
        suppressor.open(SCOPE)
        await asyncio.sleep(options.tick_s * 1.5)
        clock.fails = True
        await asyncio.sleep(options.quarantine_ms / 1000 + 3 * options.tick_s)
        assert not clock.fails
        assert "failed and continues" in caplog.text
        assert caplog.messages[-1].endswith("active, the quarantine is over")
        await suppressor.close()

    run_in_virtual_time(work())
