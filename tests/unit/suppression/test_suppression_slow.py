"""Redis answers each call in time, but more events come: they go past it, and it says so."""

from __future__ import annotations

import asyncio

from headgate.model.outcome import Failure
from headgate.model.publish import Publish
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import SuppressionCall, SuppressionReply
from headgate.suppression.suppressor import Suppressor
from support.doubles.suppression_store import MemoryRedis, MemoryStore
from support.gateway.meters import a_meter, counted
from support.gateway.suppression_world import make_publish, make_scope
from support.process.stack import eventually
from support.virtual_time import run_in_virtual_time

CALL_S = 0.3
OPTIONS = SuppressOptions(timeout_ms=500)


class SlowStore(MemoryStore):
    """Takes its time for every call with events."""

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        if call.reservations:
            await asyncio.sleep(CALL_S)
        return await super().run(call)


class Listener:
    """`Verdicts`: all are published, some past Redis."""

    def __init__(self) -> None:
        self.lane: list[Publish] = []

    def publish(self, publish: Publish) -> None:
        self.lane.append(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        raise AssertionError(publish)

    def refused(self, publish: Publish, failure: Failure) -> None:
        raise AssertionError(failure)


def test_it_says_that_redis_is_slow_and_for_how_many() -> None:
    async def run() -> None:
        clock = asyncio.get_running_loop().time
        store, listener = SlowStore(MemoryRedis(lambda: clock() * 1000)), Listener()
        suppressor = Suppressor(store, listener, OPTIONS, clock, bytes, meter := a_meter())
        await suppressor.start()
        scope = make_scope()
        events = [make_publish("A", scope, f"key-{number}") for number in range(1_000)]
        began = clock()
        for publish in events:
            suppressor.reserve(publish)
        await eventually(lambda: len(listener.lane) == len(events), interval_s=0.01)
        assert clock() - began < 1.0, "nobody waits for all of the calls"
        late = int(counted(meter, "suppression_bypassed")[("redis_slow",)])
        assert 0 < late < len(events)
        assert counted(meter, "suppression_bypassed") == {("redis_slow",): late}
        waited = "events did not wait longer than 500 ms (redis.timeout_ms)"
        assert suppressor.health() == (False, f"slow: {late} {waited}")
        await asyncio.sleep(30)
        assert suppressor.health() == (True, "connected")
        await suppressor.close()

    run_in_virtual_time(run())
