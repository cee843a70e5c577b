"""The wall clock jumps by hours while events are spooled, as after a wrong or a late NTP answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.model.outcome import OutcomeName
from headgate.spool.disk import SpoolOptions
from support.gateway.spool_world import SpoolWorld, names

HOUR_MS = 3_600_000
JUMPS = [-48, -5, -1, 1, 5, 48]


async def spooled(world: SpoolWorld, number: int) -> OutcomeName | None:
    ticket = world.post("orders", {"id": 1, "n": number})
    await world.writing.write()
    [name] = names(ticket)
    return name


def look(world: SpoolWorld) -> None:
    """As `SpoolService` does it, twenty times a second."""
    world.disk.oldest_ms = min((one.oldest_ms for one in world.backlogs if one.events), default=0)


@pytest.mark.parametrize("first", JUMPS)
@pytest.mark.parametrize("second", JUMPS)
@pytest.mark.parametrize("is_killed", [True, False])
async def test_nothing_is_lost_and_the_order_holds_however_the_clock_jumps(
    tmp_path: Path, first: int, second: int, is_killed: bool
) -> None:
    world = SpoolWorld(tmp_path)
    await world.live()
    world.away()
    for number, hours in enumerate((0, first, second)):
        world.now_ms += hours * HOUR_MS
        assert await spooled(world, number) is OutcomeName.SPOOLED
        look(world)
    if is_killed:
        await world.end()
        await world.live()
    world.back()
    world.now_ms -= 3 * HOUR_MS
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [0, 1, 2]
    look(world)
    assert world.disk.oldest_ms == 0
    await world.end()


async def test_a_clock_that_is_set_back_ends_no_age_early_and_one_that_is_set_on_drops_nothing(
    tmp_path: Path,
) -> None:
    world = SpoolWorld(tmp_path, SpoolOptions(tmp_path, 1 << 30, HOUR_MS, 1_000_000))
    await world.live()
    world.away()
    assert await spooled(world, 0) is OutcomeName.SPOOLED
    look(world)
    world.now_ms -= 10 * HOUR_MS
    assert await spooled(world, 1) is OutcomeName.SPOOLED
    look(world)
    assert world.disk.refusal() is None
    world.now_ms += 12 * HOUR_MS  # what is there is older than an hour by this clock
    refused = world.disk.refusal()
    assert refused is not None
    assert "max_age_ms" in refused.detail
    assert await spooled(world, 2) is OutcomeName.REJECTED
    world.back()
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [0, 1]
    look(world)
    assert world.disk.refusal() is None
    await world.end()
