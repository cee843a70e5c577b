"""Several servers: what one of them does leaves the others alone, and nothing is left over."""

from __future__ import annotations

import asyncio

import pytest

from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.redis.script import StoreError
from headgate.suppression.rules import (
    Agreement,
    LayoutReply,
    SuppressionCall,
    SuppressionReply,
    layout_spans,
)
from headgate.suppression.sharded import ShardedSuppressor
from headgate.suppression.suppressor import wait_to_begin
from support.doubles.suppression_store import MemoryStore
from support.gateway.suppression_world import make_publish
from support.scenarios.sharded_world import Process, World
from support.virtual_time import run_in_virtual_time


class Odd(MemoryStore):
    """Waits for `hold` before it answers, and fails to close if `breaks`."""

    hold: asyncio.Event | None = None
    breaks = False
    closed = False

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        if self.hold is not None:
            await self.hold.wait()
        return await super().run(call)

    async def close(self) -> None:
        await super().close()
        if self.breaks:
            raise OSError("cannot be closed")
        await asyncio.sleep(0.1)
        self.closed = True


class OddProcess(Process):
    """The store of each of its three servers can be odd."""

    def __init__(self, world: World) -> None:
        super().__init__(world, (0, 1, 2))
        assert isinstance(self.suppressor, ShardedSuppressor)
        self.router = self.suppressor
        self.odd = [Odd(one) for one in world.redis[:3]]
        for part, store in zip(self.router.parts.values(), self.odd, strict=True):
            part.store = part._client._store = store


async def started() -> OddProcess:
    process = OddProcess(World(1, [(0, 1, 2)]))
    await process.start()
    await asyncio.sleep(1.0)
    return process


def tasks() -> set[asyncio.Task[object]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


def test_a_server_that_cannot_be_closed_leaves_none_open() -> None:
    async def run() -> None:
        process = await started()
        process.odd[0].breaks = True
        with pytest.raises(OSError, match="cannot be closed"):
            await process.router.close()
        assert [one.closed for one in process.odd] == [False, True, True]
        assert not tasks()

    run_in_virtual_time(run())


def test_forgetting_ends_with_the_connection() -> None:
    """Whoever asked would wait for ever for a call that nobody makes any more."""

    async def run() -> None:
        process = await started()
        process.odd[2].hold = asyncio.Event()
        asked = [asyncio.ensure_future(process.router.forget(process.scope)) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert not any(one.done() for one in asked)
        await process.router.close()
        for one in asked:
            with pytest.raises(StoreError):
                await asyncio.wait_for(one, 1.0)
        assert not tasks()

    run_in_virtual_time(run())


def test_who_gives_up_forgetting_leaves_nothing_running() -> None:
    async def run() -> None:
        process = await started()
        process.odd[2].hold = asyncio.Event()
        before = tasks()
        asked = asyncio.ensure_future(process.router.forget(process.scope))
        await asyncio.sleep(0.1)
        asked.cancel()
        await asyncio.wait([asked])
        assert tasks() == before
        process.odd[2].hold.set()
        await process.router.close()

    run_in_virtual_time(run())


def test_events_wait_for_the_second_change_of_a_rule_as_long_as_for_the_first() -> None:
    """The timer of what waited before must not let them go on."""

    async def run() -> None:
        process = await started()
        for number, rule in enumerate((b"\x08" * 8, b"\x09" * 8)):
            process.odd[2].hold = asyncio.Event()
            process.scope.rule = rule
            process.router.rule_changed(process.scope)
            publish = make_publish("A", process.scope, f"key-{number}")
            process.router.reserve(publish)
            await asyncio.sleep(0.3)  # of 0.5
            assert publish.stage is Stage.QUEUED
            process.odd[2].hold.set()
            await asyncio.sleep(0.01)
            assert publish.stage is not Stage.QUEUED
        assert not process.router._timers
        await process.router.close()

    run_in_virtual_time(run())


def test_what_comes_while_others_go_on_does_not_overtake_them() -> None:
    async def run() -> None:
        process = await started()
        router, scope = process.router, process.scope
        process.odd[2].hold = asyncio.Event()
        scope.rule = b"\x08" * 8
        router.rule_changed(scope)
        waiting = [make_publish(content, scope, "k1") for content in "AB"]
        for publish in waiting:
            router.reserve(publish)
        for part in router.parts.values():  # so that verdicts come at once
            part.reservations.lost(StoreError("redis_error", "away"))
        lane: list[Publish] = []
        third = make_publish("C", scope, "k1")

        def publish_it(publish: Publish) -> None:
            publish.advance(Stage.LANE)
            lane.append(publish)
            if publish is waiting[0]:
                router.reserve(third)

        process.publish = publish_it  # type: ignore[method-assign]
        for part in router.parts.values():
            part.reservations._verdicts = process
        router._go_on(scope)
        assert lane == [*waiting, third]
        assert not router._waiting
        process.odd[2].hold.set()
        await process.stop(kill=True)

    run_in_virtual_time(run())


def passed_in(scope: Scope, key: str) -> Publish:
    publish = make_publish("A", scope, key)
    publish.digest, publish.reservation = None, Reservation(scope, scope.partitions)
    return publish


@pytest.mark.parametrize("certain", [True, False])
def test_what_ends_in_a_topic_that_was_recreated_counts_in_the_new_one(certain: bool) -> None:
    async def run() -> None:
        process = await started()
        router, old = process.router, process.scope
        passed = passed_in(old, "k1")
        old.unreserved.count += 1
        new = Scope("deals", b"\x02" * 16, 1, old.rule)
        router.scope_changed(old, new)
        router.ended(passed, certain)
        assert new.unreserved.count == 0
        late = make_publish("B", old, "k2")  # it was compared before, and comes only now
        router.reserve(late)
        assert late.reserved.scope.topic_id == new.topic_id
        assert set(router._scopes) == {new}
        assert len(router._numbers) == 3
        known = {
            one.reserved.scope.topic_id
            for part in router.parts.values()
            for one, _ in part.reservations._in_flight.unknown.values()
        }
        assert known == (set() if certain else {new.topic_id})
        await router.close()

    run_in_virtual_time(run())


def test_what_is_acknowledged_without_an_offset_fences_what_was_unknown() -> None:
    async def run() -> None:
        process = await started()
        router = process.router
        sent = [make_publish("A", process.scope, f"key-{number}") for number in range(20)]
        for publish in sent:
            router.reserve(publish)
        await asyncio.sleep(0.001)
        for publish in sent[:-1]:
            router.ended(publish, False)
        parts = [part.reservations._in_flight for part in router.parts.values()]
        assert any(one.unfenced for one in parts)
        router.acknowledged(sent[-1:], -1)
        left = [token for one in parts for tokens in one.unfenced.values() for token in tokens]
        assert left == [sent[-1].reserved.token]
        await process.stop(kill=True)

    run_in_virtual_time(run())


def test_a_server_that_answers_while_a_start_waits_makes_it_wait_for_longer() -> None:
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        agreement = Agreement(2, layout_spans(8000.0, 60_000.0))
        began_s, reply = clock(), LayoutReply(1_000_000, 999_000, True)
        agreement.apply_reply(0, clock(), clock(), reply)
        began = asyncio.ensure_future(wait_to_begin(agreement, clock))
        await asyncio.sleep(3.0)
        agreement.apply_reply(1, clock(), clock(), reply)
        await began
        assert clock() - began_s == pytest.approx(7.0)

    run_in_virtual_time(run())
