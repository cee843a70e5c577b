"""When a worker gives freed memory back."""

import asyncio
import gc
import weakref
from itertools import chain, repeat

import pytest

from headgate.wiring import reloading as memory
from headgate.wiring.reloading import Leftovers, give_back_leftovers
from support.process.stack import eventually

MIB = 2**20


def looks(leftovers: Leftovers, count: int, resident: int, in_flight: int) -> list[bool]:
    return [leftovers.are_worth_it(resident * MIB, in_flight * MIB) for _ in range(count)]


def test_memory_is_given_back_once_a_backlog_is_gone_for_some_looks() -> None:
    leftovers = Leftovers(80 * MIB)
    assert not any(looks(leftovers, 20, 300, 64))
    assert looks(leftovers, 5, 300, 1) == [False] * 4 + [True]


def test_a_load_with_short_pauses_keeps_its_memory() -> None:
    leftovers = Leftovers(80 * MIB)
    for _ in range(5):
        assert not any(looks(leftovers, 4, 200, 0))
        assert not any(looks(leftovers, 1, 200, 60))


def test_little_memory_is_kept() -> None:
    assert not any(looks(Leftovers(80 * MIB), 20, 95, 0))


def test_what_cannot_be_given_back_is_not_tried_again() -> None:
    leftovers = Leftovers(80 * MIB)
    assert looks(leftovers, 5, 300, 0)[-1]
    leftovers.given_back(160 * MIB)
    assert not any(looks(leftovers, 20, 160, 0))
    assert looks(leftovers, 5, 180, 0)[-1]


def test_growth_counts_from_the_least_that_was_seen() -> None:
    leftovers = Leftovers(200 * MIB)
    assert not any(looks(leftovers, 5, 100, 0))
    assert looks(leftovers, 5, 120, 0)[-1]


class Cycle:
    def __init__(self) -> None:
        self.itself = self


async def test_cycles_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector would come for them in an hour, and with them for what they hold."""
    resident = chain([80 * MIB], repeat(200 * MIB))
    monkeypatch.setattr(memory, "_LOOK_S", 0.001)
    monkeypatch.setattr(memory, "memory_bytes", lambda: next(resident))
    gc.collect()
    gc.disable()
    try:
        cycle = weakref.ref(Cycle())
        assert cycle() is not None
        async with asyncio.TaskGroup() as group:
            task = group.create_task(give_back_leftovers(lambda: 0))
            await eventually(lambda: cycle() is None, 10)
            task.cancel()
    finally:
        gc.enable()
