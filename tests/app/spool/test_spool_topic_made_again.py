"""Topics that were deleted while their events were spooled, and made again or not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.model.keys import partition_for
from headgate.model.outcome import OutcomeName
from support.gateway.spool_world import SpoolWorld, names

KEYS = range(20)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


async def spooled(world: SpoolWorld, number: int) -> None:
    """The event with this number of every key is on disk."""
    tickets = [world.post("orders", {"id": key, "n": number}) for key in KEYS]
    await world.writing.write()
    assert {name for one in tickets for name in names(one)} == {OutcomeName.SPOOLED}


def check(world: SpoolWorld, numbers: list[int]) -> None:
    found = defaultdict(list)
    for _, _, value in world.written():
        found[value["id"]].append(value["n"])
    assert dict(found) == dict.fromkeys(KEYS, numbers)
    assert all(one.record.partition < world.partitions for one in world.landed)


@pytest.mark.parametrize("sizes", [[1], [2], [5], [1, 3], [5, 3], [2, 5], [5, 2, 3], [2, 1, 5]])
async def test_a_key_keeps_its_order_whatever_size_its_topic_comes_back_with(
    world: SpoolWorld, sizes: list[int]
) -> None:
    world.away()
    await spooled(world, 0)
    for number, size in enumerate(sizes, 1):
        world.resize(size)
        await spooled(world, number)
    world.back()
    await world.drain()
    check(world, list(range(len(sizes) + 1)))


@pytest.mark.parametrize("sizes", [[1], [2], [5], [2, 5]])
async def test_so_it_does_over_a_start(world: SpoolWorld, sizes: list[int]) -> None:
    world.away()
    await spooled(world, 0)
    for number, size in enumerate(sizes, 1):
        world.resize(size)
        await spooled(world, number)
    await world.end()
    await world.live()
    world.back()
    await world.drain()
    check(world, list(range(len(sizes) + 1)))


async def test_so_it_does_where_all_of_it_came_to_disk_at_once(world: SpoolWorld) -> None:
    world.away()
    for number, size in enumerate([3, 1, 5]):
        world.resize(size)
        for key in KEYS:
            world.post("orders", {"id": key, "n": number})
    await world.writing.write()
    await world.end()
    await world.live()
    world.back()
    await world.drain()
    check(world, [0, 1, 2])


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_a_lane_does_not_go_on_to_what_was_placed_later_before_the_others_are_as_far(
    world: SpoolWorld, size: int
) -> None:
    world.away()
    await spooled(world, 0)
    world.resize(size)
    await spooled(world, 1)
    world.back()
    for backlog in list(world.backlogs):  # one after the other, and nothing is forgotten yet
        for _ in range(3):
            world.now_s += 1.0
            if backlog.left:
                await world.draining._advance(backlog)
            world.publish()
    await world.drain()
    check(world, [0, 1])


async def test_what_was_spooled_waits_for_its_topic_and_is_published_once_it_is_there_again(
    world: SpoolWorld,
) -> None:
    world.away()
    await spooled(world, 0)
    gone = dict(world.topics.states)
    world.topics.states.clear()
    world.back()
    for _ in range(20):
        world.now_s += 1.0
        world.publish()
        await world.draining.turn()
        await world.writing.write()
        world.spool.sweep()
    assert not world.landed
    assert sum(one.events for one in world.backlogs) == len(KEYS)
    made = {name: state._replace(topic_id=b"2" * 16) for name, state in gone.items()}
    world.topics.states.update(made)
    await world.drain()
    check(world, [0])


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_what_was_spooled_waits_for_what_kafka_says_after_the_outage(
    world: SpoolWorld, size: int
) -> None:
    world.away()
    await spooled(world, 0)
    world.partitions = size  # made again while nobody could ask
    world.back()
    await world.drain()
    check(world, [0])
    assert not world.misplaced


async def test_what_waits_for_the_end_of_a_backlog_is_placed_by_the_topic_as_it_is_then(
    world: SpoolWorld,
) -> None:
    world.away()
    await spooled(world, 0)
    world.back()
    for _ in range(3):  # all of it was published, and is not forgotten yet
        world.now_s += 1.0
        world.publish()
        await world.draining.turn()
    waiting = [world.post("orders", {"id": key, "n": 1}) for key in KEYS]
    assert any(one.gate for one in world.backlogs)
    world.resize(5)
    await world.drain()
    assert all(ticket.done for ticket in waiting)
    check(world, [0, 1])
    for publish in world.landed:
        assert publish.record.key is not None
        is_new = publish.owner is None
        assert not is_new or publish.record.partition == partition_for(publish.record.key, 5)
