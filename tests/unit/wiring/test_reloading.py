"""Reloads: beside the event loop, one at a time, and whole or not at all."""

import asyncio
import gc
import sys
import threading
from collections.abc import Iterable
from itertools import pairwise
from weakref import WeakSet

import pytest

from headgate.config.settings import HttpSettings, ProducerSettings, Settings
from headgate.formats.json_text import KeyReader
from headgate.http.auth import Authenticator
from headgate.ingest.gate import Routes
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.route import Route
from headgate.model.topics import TopicState
from headgate.wiring.reloading import (
    Preparing,
    Reloading,
    RestartNeededError,
    beside,
    free_in_turns,
    prepared,
)
from support.gateway.fakes import FakeTopics, topic_state
from support.virtual_time import run_in_virtual_time


class Compiled:
    """Counts what is compiled."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, chosen: TopicPolicy, state: TopicState) -> Route:
        self.count += 1
        return Route(chosen, state, KeyReader.parse(chosen.key), 128)


async def test_the_event_loop_goes_on_meanwhile() -> None:
    goes_on = threading.Event()
    asyncio.get_running_loop().call_soon(goes_on.set)
    before = sys.getswitchinterval()

    def work(deadline_s: float) -> tuple[bool, float, bool]:
        return goes_on.wait(deadline_s), sys.getswitchinterval(), gc.isenabled()

    was_set, turn_s, collects = await beside(work, 30.0)
    assert was_set
    assert turn_s < before
    assert not collects
    assert (sys.getswitchinterval(), gc.isenabled()) == (before, True)


def callers_of(settings: Settings) -> Authenticator:
    return Authenticator(settings.auth, settings.producers)


async def test_a_failure_is_the_caller_s_and_leaves_nothing_changed() -> None:
    before = sys.getswitchinterval()
    with pytest.raises(RestartNeededError, match=r"restart: http\.port"):
        await beside(prepared, Settings(), Settings(http=HttpSettings(port=1)), callers_of)
    assert (sys.getswitchinterval(), gc.isenabled()) == (before, True)


def test_what_is_prepared_is_the_new_configuration() -> None:
    new = Settings(topics=(TopicPolicy("orders.*"),), producers={"shop": ProducerSettings()})
    reload = prepared(Settings(), new, callers_of, ["orders.eu"])
    assert reload.settings is new
    assert reload.policies.match("orders.eu") is new.topics[0]


async def test_what_is_asked_for_during_a_reload_is_one_more_reload() -> None:
    begun, may_end = asyncio.Queue[int](), asyncio.Semaphore(0)
    running = count = 0

    async def reload() -> None:
        nonlocal running, count
        running, count = running + 1, count + 1
        assert running == 1
        begun.put_nowait(count)
        await may_end.acquire()
        running -= 1
        if count == 2:
            raise RuntimeError("the next one is not kept from running by this")

    reloading = Reloading(reload)
    reloading.ask()
    assert await begun.get() == 1
    for _ in range(3):
        reloading.ask()
    may_end.release()
    assert await begun.get() == 2
    may_end.release()
    while running:  # noqa: ASYNC110 - it has nobody to tell
        await asyncio.sleep(0)
    reloading.ask()
    assert await begun.get() == 3
    await reloading.close()
    assert begun.empty()


async def test_routes_of_many_topics_are_made_in_turns() -> None:
    states = [topic_state(f"t{number}") for number in range(1000)]
    compile_route = Compiled()
    routes = Routes(PolicyTable([TopicPolicy("t*", "main")]), FakeTopics(*states), compile_route)
    preparing = asyncio.ensure_future(routes.prepare_in_turns(state.name for state in states))
    made = [0]
    while not preparing.done():
        await asyncio.sleep(0)
        made.append(compile_route.count)
    assert made[-1] == 1000
    assert max(after - before for before, after in pairwise(made)) <= 20


async def test_what_is_out_of_force_is_freed_in_turns() -> None:
    class Part:
        """Something that can be watched."""

    parts: list[object] = [Part() for _ in range(3000)]
    left = WeakSet(parts)
    freeing = asyncio.ensure_future(free_in_turns(parts))
    sizes = [len(left)]
    while not freeing.done():
        await asyncio.sleep(0)
        sizes.append(len(left))
    assert sizes[-1] == 0
    assert max(before - after for before, after in pairwise(sizes)) <= 500


async def test_new_topics_are_prepared_soon_and_each_of_them() -> None:
    prepared_ones: list[str] = []

    async def prepare(topics: Iterable[str]) -> None:
        for topic in topics:
            prepared_ones.append(topic)
            await asyncio.sleep(0)

    preparing = Preparing(prepare)
    preparing.ask("a")
    preparing.ask("b")
    assert prepared_ones == []
    await asyncio.sleep(0)
    preparing.ask("c")  # while it is at work
    await preparing.finish()
    assert prepared_ones == ["a", "b", "c"]
    preparing.ask("d")
    await preparing.finish()
    assert prepared_ones[3:] == ["d"]
    await preparing.close()


def test_new_topics_are_prepared_although_others_failed() -> None:
    prepared_ones: list[str] = []

    async def prepare(topics: Iterable[str]) -> None:
        await asyncio.sleep(0)
        if "bad" in topics:
            raise RuntimeError("no such policy")
        prepared_ones.extend(topics)

    async def work() -> None:
        preparing = Preparing(prepare)
        preparing.ask("bad")
        await asyncio.sleep(0)
        preparing.ask("a")  # while it is at work
        await asyncio.sleep(5)
        preparing.ask("b")
        await preparing.finish()
        assert prepared_ones == ["a", "b"]
        await preparing.close()

    run_in_virtual_time(work())
