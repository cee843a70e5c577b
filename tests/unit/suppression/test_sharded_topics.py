"""What holds for a topic as a whole is told to every server before its events go on."""

from __future__ import annotations

import asyncio

from headgate.model.publish import Stage
from headgate.suppression.rules import SuppressionCall, SuppressionReply
from headgate.suppression.sharded import ShardedSuppressor
from support.doubles.suppression_store import MemoryStore
from support.gateway.suppression_world import make_publish
from support.scenarios.sharded_world import Process, World
from support.virtual_time import run_in_virtual_time


class Slow(MemoryStore):
    """Answers after `delay_s`."""

    delay_s = 0.0

    async def run(self, call: SuppressionCall) -> SuppressionReply:
        await asyncio.sleep(self.delay_s)
        return await super().run(call)


class SlowProcess(Process):
    """Whose last server is slow."""

    def __init__(self, world: World) -> None:
        super().__init__(world, (0, 1, 2))
        self.router = self.suppressor
        assert isinstance(self.router, ShardedSuppressor)
        self.slow = Slow(world.redis[2])
        part = list(self.router.parts.values())[2]
        part.store = self.slow
        part._client._store = self.slow


def test_an_event_waits_until_every_server_knows_the_key_rule_of_its_topic() -> None:
    async def run() -> None:
        world = World(1, [(0, 1, 2)])
        process = SlowProcess(world)
        await process.start()
        await asyncio.sleep(1.0)
        process.slow.delay_s = 0.2
        process.scope.rule = b"\x08" * 8
        process.suppressor.rule_changed(process.scope)
        publishes = [make_publish("A", process.scope, f"key-{number}") for number in range(20)]
        for publish in publishes:
            process.suppressor.reserve(publish)
        await asyncio.sleep(0.1)
        assert all(publish.stage is Stage.QUEUED for publish in publishes)
        await asyncio.sleep(1.0)
        assert all(publish.stage is not Stage.QUEUED for publish in publishes)
        rules = {one.values[process.scope.incarnation].value[-8:] for one in world.redis[:3]}
        assert rules == {process.scope.rule}
        await process.stop(kill=False)

    run_in_virtual_time(run())


def test_events_pass_when_every_server_that_answers_was_told() -> None:
    async def run() -> None:
        world = World(1, [(0, 1, 2)])
        process = SlowProcess(world)
        await process.start()
        await asyncio.sleep(1.0)
        process.slow.delay_s = 0.2
        assert not process.suppressor.let_pass(process.scope, 1)
        await asyncio.sleep(0.1)
        assert not process.suppressor.let_pass(process.scope, 1)
        await asyncio.sleep(0.4)
        assert process.suppressor.let_pass(process.scope, 3)
        assert process.scope.unreserved.count == 3
        world.redis[0].up = False
        await asyncio.sleep(10.0)
        assert process.suppressor.let_pass(process.scope, 1)
        await process.stop(kill=True)

    run_in_virtual_time(run())
