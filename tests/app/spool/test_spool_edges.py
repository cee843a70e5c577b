"""The spool where two things meet: a batch that comes back and a write, damage and a new event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headgate.model.outcome import OutcomeName, Reason
from headgate.spool.disk import SpoolOptions
from support.gateway.spool_world import AFTER_S, AWAY, SpoolWorld, names
from support.spool.database import database_of


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    made = SpoolWorld(tmp_path / "spool")
    await made.live()
    yield made
    await made.end()


async def crossing(world: SpoolWorld, *values: object) -> tuple[int, object]:
    """Events that the producer has, and that go to disk as well."""
    ticket = world.post("orders", *values)
    [partition] = world.lanes.queues
    world.lanes.hand_over(partition, 10)
    world.now_s += AFTER_S
    world.spool.sweep()
    return partition, ticket


async def spooled(world: SpoolWorld, *values: object) -> None:
    """Each is a chunk on disk."""
    world.away()
    for value in values:
        world.post("orders", value)
        await world.writing.write()
    world.back()


def damage(world: SpoolWorld, number: int) -> None:
    with database_of(world.options.folder) as database:
        changed = "CAST(x'00' || substr(events, 2) AS BLOB)"
        database.execute(f"UPDATE chunks SET events = {changed} WHERE number = ?", (number,))
    database.close()


@pytest.mark.parametrize("is_written", [True, False])
async def test_what_comes_back_from_the_producer_is_published_from_disk_alone(
    world: SpoolWorld, is_written: bool
) -> None:
    partition, ticket = await crossing(world, {"id": 1, "n": 1}, {"id": 1, "n": 2})
    if is_written:
        await world.writing.write()
    world.lanes.put_back(partition)
    world.spool.sweep()
    await world.writing.write()
    assert names(ticket) == [OutcomeName.SPOOLED, OutcomeName.SPOOLED]
    world.post("orders", {"id": 1, "n": 3})
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [1, 2, 3]
    assert world.admission.events == 0


async def test_what_came_back_while_it_goes_to_disk_is_not_said_to_be_written_nowhere(
    world: SpoolWorld,
) -> None:
    partition, ticket = await crossing(world, {"id": 1})
    world.lanes.put_back(partition)
    world.pipeline.expire(ticket)
    assert names(ticket) == [OutcomeName.UNKNOWN]
    await world.writing.write()
    world.spool.sweep()
    await world.drain()
    assert len(world.landed) == 1
    assert world.admission.events == 0


async def test_what_the_disk_may_have_is_unknown_though_its_lane_has_ended_it(
    world: SpoolWorld,
) -> None:
    ticket = world.post("orders", {"id": 1})
    [partition] = world.lanes.queues
    world.lanes.hand_over(partition, 10)
    world.lanes.fail(partition, AWAY)
    world.disk.fault = "written"
    await world.writing.write()
    [outcome] = ticket.answered()
    assert outcome.failure is not None
    assert outcome.failure.reason is Reason.UNKNOWN


async def test_nothing_goes_past_a_damaged_chunk_while_it_is_set_aside(world: SpoolWorld) -> None:
    await spooled(world, {"id": 1, "n": 1}, {"id": 1, "n": 2})
    damage(world, 2)
    world.now_s += 1
    [backlog] = list(world.backlogs)
    set_aside = world.disk.set_aside

    async def meanwhile(number: int, reason: str) -> None:
        world.post("orders", {"id": 1, "n": 3})
        world.publish()
        await set_aside(number, reason)

    world.disk.set_aside = meanwhile  # type: ignore[method-assign]
    await world.draining._advance(backlog)
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [1, 3]


async def test_a_damaged_chunk_that_cannot_be_set_aside_keeps_nothing_from_being_read(
    world: SpoolWorld,
) -> None:
    await spooled(world, *({"id": 1, "n": number} for number in range(3)))
    damage(world, 2)
    world.now_s += 1
    [backlog] = list(world.backlogs)
    world.disk._journal._database.execute("PRAGMA query_only = 1")  # type: ignore[union-attr]
    await world.draining._advance(backlog)
    world.disk._journal._database.execute("PRAGMA query_only = 0")  # type: ignore[union-attr]
    await world.drain()
    assert [value["n"] for _, _, value in world.written()] == [0, 2]


async def test_the_end_does_not_wait_for_a_disk_that_forgets_nothing(world: SpoolWorld) -> None:
    await spooled(world, {"id": 1})
    world.now_s += 1
    [backlog] = list(world.backlogs)
    await world.draining._advance(backlog)
    world.publish()
    world.disk._journal._database.execute("PRAGMA query_only = 1")  # type: ignore[union-attr]
    async with asyncio.timeout(10):
        await world.writing.write()


async def test_lanes_take_turns_though_each_could_use_the_whole_rate(tmp_path: Path) -> None:
    world = SpoolWorld(tmp_path, SpoolOptions(tmp_path, 1 << 30, 10**10, 100))
    await world.live()
    world.away()
    for number in range(600):
        world.post("orders", *({"id": 10 * number + more} for more in range(10)))
        if number % 30 == 0:
            await world.writing.write()
    await world.writing.write()
    world.back()
    left = {one.partition: one.left for one in world.backlogs}
    assert len(left) == 3
    for _ in range(300):
        world.now_s += 0.1
        await world.draining.turn()
        world.publish()
        await world.writing.write()
        if any(not one.left for one in world.backlogs):
            break
    assert all(one.left < left[one.partition] for one in world.backlogs)
    await world.end()


async def test_what_a_larger_topic_took_is_not_passed_before_the_disk_has_forgotten_it(
    world: SpoolWorld,
) -> None:
    await spooled(world, *({"id": number, "n": 1} for number in range(20)))
    world.grow()
    for _ in range(50):
        world.now_s += 1.0
        for backlog in list(world.backlogs):
            if backlog.left:
                await world.draining._advance(backlog)
        world.publish()
    for number in range(20):  # all have landed, and nothing is forgotten yet
        world.post("orders", {"id": number, "n": 2})
    world.publish()
    await world.end()
    await world.live()
    world.back()
    await world.drain()
    last = {key: value["n"] for key, _, value in world.written()}
    seconds = {key for key, _, value in world.written() if value["n"] == 2}
    assert all(last[key] == 2 for key in seconds)


async def test_keyless_events_go_on_where_the_topic_came_back_with_fewer_partitions(
    world: SpoolWorld,
) -> None:
    world.away()
    for number in range(30):
        world.post("sparks", {"n": number})
    await world.writing.write()
    world.resize(1)
    world.back()
    await world.drain()
    assert {one.record.partition for one in world.landed} == {0}
    assert len(world.landed) == 30


async def test_of_what_comes_back_only_that_is_published_which_has_not_landed(
    world: SpoolWorld,
) -> None:
    partition, ticket = await crossing(world, *({"id": 1, "n": number} for number in range(4)))
    await world.writing.write()
    world.lanes.put_back(partition)
    world.lanes.hand_over(partition, 2)
    world.lanes.acknowledge(partition)
    world.spool.sweep()
    await world.drain()
    assert names(ticket) == [OutcomeName.SPOOLED] * 4
    assert [value["n"] for _, _, value in world.written()] == [0, 1, 2, 3]


async def test_a_topic_that_does_not_spool_any_more_comes_to_an_end_under_steady_traffic(
    world: SpoolWorld,
) -> None:
    await spooled(world, {"id": 1, "n": 0})
    world.after_s = None  # a reload
    tickets = []
    for number in range(1, 100):  # Kafka takes longer than a look at the gate does
        tickets.append(world.post("orders", {"id": 1, "n": number}))
        world.now_s += 0.05
        world.spool.sweep()
        await world.writing.write()
        await world.draining.turn()
        if number % 4 == 0:
            world.publish()
    world.publish()
    await world.writing.write()
    assert names(tickets[-1]) == [OutcomeName.PUBLISHED]
    assert [value["n"] for _, _, value in world.written()] == list(range(100))


async def test_what_is_on_its_way_to_disk_counts_before_it_is_there(tmp_path: Path) -> None:
    world = SpoolWorld(tmp_path, SpoolOptions(tmp_path, 2000, 10**10, 1000))
    await world.live()
    world.away()
    tickets = [world.post("orders", {"id": number, "text": "x" * 300}) for number in range(50)]
    await world.writing.write()
    well = [one for one in tickets if names(one) == [OutcomeName.SPOOLED]]
    assert 1 < len(well) < 8
    assert world.disk.bytes < 3000
    assert world.disk.coming == 0
    await world.end()
