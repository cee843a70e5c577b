"""No owner holds up the event loop, and all owners of a process together do not either."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

from headgate.coalescer.decisions import CoalescingRules, Emission, Read, Turns
from headgate.coalescer.partition import MAX_RECORDS
from headgate.coalescer.windows import DoneMark, HeldBounds, WindowTimes
from support.scenarios.coalescer_sim import RULES, Process, World

OWNERS, PIECES = 12, 30


async def test_between_two_pieces_of_any_owners_the_others_have_the_loop() -> None:
    turns, ticks = Turns(), 0
    pieces: list[tuple[int, int]] = []  # the tick and the owner of each

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async def own(owner: int) -> None:
        for _ in range(PIECES):
            await turns.take()
            pieces.append((ticks, owner))

    ticking = asyncio.ensure_future(tick())
    await asyncio.gather(*(own(number) for number in range(OWNERS)))
    ticking.cancel()
    with suppress(asyncio.CancelledError):
        await ticking
    at = [when for when, _ in pieces]
    assert len(set(at)) == len(at) == OWNERS * PIECES
    # and nobody waits longer than for one piece of each other owner
    for begin in range(0, len(pieces), OWNERS):
        assert len({owner for _, owner in pieces[begin : begin + OWNERS]}) == OWNERS


class Noted(Process):
    """Tells its turns and what it does in them."""

    def __init__(self, world: World, number: int) -> None:
        self.told: list[str] = []
        super().__init__(world, number)

    async def turn(self) -> None:
        self.told.append("turn")

    async def read(self, wait_ms: int) -> Read:
        found = await super().read(wait_ms)
        self.told.append("reads")
        return found

    async def append(self, emissions: Sequence[Emission], marks: Sequence[DoneMark]) -> list[int]:
        self.told.append("appends")
        return await super().append(emissions, marks)


def pieces_of(rules: CoalescingRules) -> list[str]:
    world = World()
    for number in range(40):
        world.hold(f"k{number}", "A")
    kind = type("Sim", (Noted,), {"rules": rules})
    process: Noted = kind(world, 0)
    for _ in range(1500):
        process.resume()
        world.now += 5
        world.write_markers()
    process.die()
    assert len(world.visible()) == 40
    return process.told


def test_each_reading_and_each_writing_has_a_turn_of_its_own() -> None:
    for bounds in (RULES.bounds, HeldBounds(5, 10**6)):  # also where H is read twice
        told = pieces_of(RULES._replace(times=WindowTimes(10, 40, 1000), bounds=bounds))
        assert {"reads", "appends"} <= set(told)
        assert not [pair for pair in pairwise(told) if "turn" not in pair]


def test_the_pieces_are_small() -> None:
    """10-20 us a record, so some 2 ms of reading and some 5 ms of writing."""
    assert MAX_RECORDS <= 100
    assert CoalescingRules(RULES.times, RULES.bounds).max_records <= 500
