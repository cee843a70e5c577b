"""Effects and offsets in one transaction: the rules, and races for them, on real databases."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headgate.consumer.commits import PositionError
from headgate.consumer.idempotence import forget_seen, newer_than, seen
from headgate.consumer.partition import Received
from headgate.consumer.sql_offsets import SqlOffsets
from support.process.effect_member import EFFECTS, TABLES, engine_of

PLACE = ("orders", 3)


class Origin:
    """Whoever an event is from: nobody."""

    def done(self, received: Received) -> None: ...

    def failed(self, received: Received, error: BaseException | str) -> None: ...


class Record:
    topic, partition = PLACE
    key, value, timestamp = b"key", b"value", 0

    def __init__(self, offset: int) -> None:
        self.offset = offset


def event(offset: int) -> Received:
    return Received(Origin(), Record(offset), ())


async def book(connection: AsyncConnection, received: Received) -> None:
    await connection.execute(insert(EFFECTS).values(key=received.key, number=received.offset))


@pytest.fixture(params=["postgresql", "sqlite"])
async def engine(
    request: pytest.FixtureRequest, databases: dict[str, str]
) -> AsyncIterator[AsyncEngine]:
    """With empty tables for effects, and the offsets' own."""
    found = engine_of(databases[request.param])
    async with found.begin() as connection:
        await connection.run_sync(TABLES.drop_all)
        await connection.run_sync(TABLES.create_all)
    await SqlOffsets(found, "any").create_tables()
    yield found
    await found.dispose()


@pytest.fixture
def offsets(engine: AsyncEngine, topic_name: str) -> SqlOffsets:
    return SqlOffsets(engine, topic_name)


async def booked(engine: AsyncEngine) -> list[int]:
    async with engine.connect() as connection:
        query = select(EFFECTS.c.number).order_by("id")
        return list((await connection.execute(query)).scalars())


async def test_an_event_has_its_effect_once(engine: AsyncEngine, offsets: SqlOffsets) -> None:
    assert await offsets.positions([PLACE]) == {}
    assert await offsets.apply(event(7), book)
    assert not await offsets.apply(event(7), book)
    assert await offsets.apply(event(6), book), "another event, though before"
    await offsets.advance({PLACE: 8})
    for offset in (5, 6, 7):
        assert not await offsets.apply(event(offset), book), "below the position"
    assert await booked(engine) == [7, 6]
    assert await offsets.positions([PLACE, ("orders", 4)]) == {PLACE: 8}


async def test_an_effect_that_fails_leaves_nothing(
    engine: AsyncEngine, offsets: SqlOffsets
) -> None:
    async def book_and_fail(connection: AsyncConnection, received: Received) -> None:
        await book(connection, received)
        raise ValueError("no")

    await offsets.positions([PLACE])
    with pytest.raises(ValueError, match="no"):
        await offsets.apply(event(1), book_and_fail)
    assert await booked(engine) == []
    assert await offsets.apply(event(1), book)


async def test_a_position_never_goes_back(offsets: SqlOffsets) -> None:
    await offsets.positions([PLACE])
    for mark in (5, 9, 3):
        await offsets.advance({PLACE: mark})
    assert await offsets.positions([PLACE]) == {PLACE: 9}


async def test_a_group_begins_where_it_is_told(engine: AsyncEngine, offsets: SqlOffsets) -> None:
    await offsets.start_at({PLACE: 8, ("orders", 4): 0})
    assert await offsets.positions([PLACE, ("orders", 4)]) == {PLACE: 8, ("orders", 4): 0}
    assert not await offsets.apply(event(7), book)
    assert await offsets.apply(event(8), book)
    assert await booked(engine) == [8]


async def test_a_group_that_has_begun_does_not_begin_elsewhere(offsets: SqlOffsets) -> None:
    await offsets.start_at({PLACE: 8})
    with pytest.raises(PositionError, match="is at 8 of orders partition 3"):
        await offsets.start_at({("orders", 2): 1, PLACE: 9})
    assert await offsets.positions([PLACE, ("orders", 2)]) == {PLACE: 8}
    await offsets.forget("orders")
    await offsets.start_at({PLACE: 9})
    assert await offsets.positions([PLACE]) == {PLACE: 9}


async def test_groups_are_apart_and_topics_can_be_forgotten(
    engine: AsyncEngine, offsets: SqlOffsets
) -> None:
    other = SqlOffsets(engine, "other")
    for one in (offsets, other):
        await one.positions([PLACE])
        assert await one.apply(event(1), book)
        await one.advance({PLACE: 2})
    await offsets.forget("orders")
    assert await offsets.positions([PLACE]) == {}
    assert await other.positions([PLACE]) == {PLACE: 2}
    assert await offsets.apply(event(1), book)


async def test_without_a_consumer_it_says_what_is_missing(offsets: SqlOffsets) -> None:
    with pytest.raises(LookupError, match=r"Consumer\(offsets="):
        await offsets.apply(event(1), book)


async def test_owners_that_were_given_up_for_dead_do_nothing_twice(
    engine: AsyncEngine, offsets: SqlOffsets
) -> None:
    """Each owner begins at the position when it came, and goes on for ever at its own pace."""
    chance, last = random.Random(5), 150

    async def slowly(connection: AsyncConnection, received: Received) -> None:
        await asyncio.sleep(chance.uniform(0, 0.004))
        await book(connection, received)

    async def own(wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        position = (await offsets.positions([PLACE])).get(PLACE, 0)
        for offset in range(position, last):
            await offsets.apply(event(offset), slowly)
            if chance.random() < 0.5:
                await offsets.advance({PLACE: offset + 1})

    await asyncio.gather(*(own(0.05 * number) for number in range(6)))
    assert await booked(engine) == list(range(last))


async def test_another_isolation_level_is_not_taken_over(
    engine: AsyncEngine, topic_name: str
) -> None:
    """Under REPEATABLE READ a transaction would not see a position that rose after its begin."""
    level = "SERIALIZABLE" if engine.dialect.name == "sqlite" else "REPEATABLE READ"
    offsets = SqlOffsets(engine.execution_options(isolation_level=level), topic_name)
    await offsets.positions([PLACE])
    levels = []

    async def look(connection: AsyncConnection, received: Received) -> None:
        levels.append(await connection.get_isolation_level())

    assert await offsets.apply(event(1), look)
    assert levels == ["SERIALIZABLE" if engine.dialect.name == "sqlite" else "READ COMMITTED"]


async def test_seen(engine: AsyncEngine, topic_name: str) -> None:
    async with engine.begin() as connection:
        assert not await seen(connection, topic_name, "a", 1_000)
        assert await seen(connection, topic_name, "a", 2_000)
        assert not await seen(connection, f"{topic_name}-other", "a", 2_000)
    async with engine.connect() as connection:
        assert not await seen(connection, topic_name, "b", 3_000)
        await connection.rollback()
    async with engine.begin() as connection:
        assert not await seen(connection, topic_name, "b", 3_000), "what it was for was undone"
        assert await forget_seen(connection, topic_name, 2_000) == 1
        assert not await seen(connection, topic_name, "a", 4_000)


async def test_newer_than(engine: AsyncEngine, topic_name: str) -> None:
    async with engine.begin() as connection:
        asked = [(b"a", 5), (b"a", 4), (b"a", 5), (b"a", 6), (b"b", 1), (b"", -3)]
        told = [await newer_than(connection, topic_name, *one) for one in asked]
    assert told == [True, False, False, True, True, True]


async def test_one_of_two_transactions_with_the_same_version_is_newer(
    engine: AsyncEngine, topic_name: str
) -> None:
    async def ask() -> bool:
        async with engine.begin() as connection:
            answer = await newer_than(connection, topic_name, b"key", 1)
            await asyncio.sleep(0.01)
            return answer

    assert sorted(await asyncio.gather(*(ask() for _ in range(5)))) == [False] * 4 + [True]
