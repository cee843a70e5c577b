"""Asking suppression about windows: nothing stays under way when the asking is broken off."""

from __future__ import annotations

import asyncio
from typing import cast

from headgate.backends.base import Verdicts
from headgate.coalescer.decisions import Decisions, Digests, Turns, WindowVerdict
from headgate.coalescer.windows import HeldEvent, Window
from headgate.ingest.gate import Compiler
from headgate.offload.helper_process import HelperProcess
from support.gateway.fakes import FakeSuppression, policy, topic_state
from support.process.stack import eventually


class World:
    def __init__(self) -> None:
        digests = Digests(cast(HelperProcess, None), lambda topic, why: None, Turns())
        self.decisions = Decisions(digests, self._connect, Turns())
        state = {"kind": "state", "key": ("/id",), "coalesce_quiet_ms": 100, "suppress": "raw"}
        self.route = Compiler(128, "ns")(policy(**state), topic_state())

    def _connect(self, verdicts: Verdicts) -> FakeSuppression:
        self.suppression = FakeSuppression(verdicts)
        return self.suppression


def window(key: bytes) -> Window:
    return Window(HeldEvent(0, key, b"{}", (), 0, 0, "p", False, None, 100))


async def test_each_window_has_its_verdict_and_is_settled() -> None:
    world = World()
    asking = asyncio.create_task(world.decisions.reserve(world.route, [window(b"a")]))
    await eventually(lambda: len(world.suppression.queue) == 1)
    world.suppression.decide()
    (decided,) = await asking
    assert decided.verdict is WindowVerdict.PUBLISH
    world.decisions.settle(decided, 7)
    assert world.suppression.published[b"a"][1] == 7


async def test_asking_that_is_broken_off_leaves_nothing_under_way() -> None:
    world = World()
    asking = asyncio.create_task(world.decisions.reserve(world.route, [window(b"a"), window(b"b")]))
    await eventually(lambda: len(world.suppression.queue) == 2)
    world.suppression.decide()  # of the first alone
    asking.cancel()
    await asyncio.wait([asking])
    world.suppression.decide()
    assert [one.record.key for one, certain in world.suppression.ends if certain] == [b"a"]
    assert not world.suppression.queue  # nothing was reserved for the other
    assert not any(world.suppression.in_flight.values())


async def test_asking_that_is_cancelled_in_the_turn_of_its_answer_leaves_nothing_either() -> None:
    world = World()
    asking = asyncio.create_task(world.decisions.reserve(world.route, [window(b"a")]))
    await eventually(lambda: len(world.suppression.queue) == 1)
    world.suppression.decide()
    asking.cancel()
    await asyncio.wait([asking])
    assert asking.cancelled()
    assert [one.record.key for one, certain in world.suppression.ends if certain] == [b"a"]
    assert not any(world.suppression.in_flight.values())
