"""Incident E (docs/design/incidents.md): effects exactly once and in order, whoever is killed.

And the last version of a key wins.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headgate.consumer.commits import PositionError
from headgate.consumer.consumer import Consumer
from headgate.consumer.idempotence import newer_than
from headgate.consumer.partition import Received
from headgate.consumer.sql_offsets import SqlOffsets
from headgate.consumer.sql_tables import DONE, VERSIONS
from headgate.devstack.servers import KafkaInstallation
from support.process import effect_member
from support.process.effect_member import EFFECTS, TABLES, engine_of
from support.process.stack import RunningBroker, eventually, running_broker
from support.scenarios.consumer_world import fill

log = logging.getLogger(__name__)
pytestmark = pytest.mark.kafka

PARTITIONS, KEYS = 4, 7
SESSION_S = 1.5  # of the members


class Members:
    """Two members. At random, one is killed with -9 and started again, or given up for dead."""

    def __init__(self, engine: AsyncEngine, chance: random.Random, *arguments: str) -> None:
        self._engine, self._chance = engine, chance
        self._command = [sys.executable, effect_member.__file__, *arguments]
        self._members = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command)

    async def kill(self, times: int) -> None:
        """Kill one so many times, each time in the midst of its work."""
        for _ in range(times):
            await self._some_work()
            number = self._chance.randrange(len(self._members))
            self._members[number].kill()
            self._members[number].wait()
            self._members[number] = self._start()

    async def stand_still(self) -> None:
        """Stop one until the group has moved on; then it goes on with what it had."""
        await self._some_work()
        process = self._chance.choice(self._members)
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(2 * SESSION_S)
        process.send_signal(signal.SIGCONT)

    async def _some_work(self) -> None:
        more = await how_many(self._engine) + self._chance.randint(20, 60)

        async def is_done() -> bool:
            return await how_many(self._engine) >= more

        await eventually(is_done, 60)

    def stop(self) -> None:
        for process in self._members:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._members:
            try:
                process.wait(90)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


async def effects(engine: AsyncEngine) -> dict[bytes, list[int]]:
    """By key, the numbers of its events in the order of their effects."""
    found: dict[bytes, list[int]] = defaultdict(list)
    async with engine.connect() as connection:
        rows = await connection.execute(select(EFFECTS.c.key, EFFECTS.c.number).order_by("id"))
        for key, number in rows:
            found[key].append(number)
    return found


async def how_many(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        count: int = (await connection.execute(select(func.count(EFFECTS.c.id)))).scalar_one()
    return count


def expected(each: int) -> dict[bytes, list[int]]:
    """What `fill` wrote."""
    return {
        f"{partition}-{key}".encode(): list(range(key, each, KEYS))
        for partition in range(PARTITIONS)
        for key in range(KEYS)
    }


async def prepared(url: str) -> AsyncEngine:
    engine = engine_of(url)
    async with engine.begin() as connection:
        await connection.run_sync(TABLES.drop_all)
        await connection.run_sync(TABLES.create_all)
    await SqlOffsets(engine, "any").create_tables()
    return engine


@pytest.fixture(scope="module")
def broker(
    kafka_installation: KafkaInstallation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """One that gives members up soon, so that a kill costs two seconds and not seven."""
    options = {"group.min.session.timeout.ms": "500"}
    folder = tmp_path_factory.mktemp("broker")
    with running_broker(kafka_installation, folder, options) as found:
        yield found


@pytest.mark.parametrize(
    ("database", "rounds", "kills", "each"),
    [
        ("postgresql", 1, 2, 300),
        pytest.param("sqlite", 1, 5, 400, marks=pytest.mark.full),
        pytest.param("postgresql", 10, 10, 10_000, marks=pytest.mark.full),
        pytest.param("sqlite", 10, 10, 3_000, marks=pytest.mark.full),
    ],
)
async def test_effects_are_there_exactly_once_and_in_order(
    broker: RunningBroker, databases: dict[str, str], topic_name: str, database: str, rounds: int,
    kills: int, each: int,
) -> None:  # fmt: skip
    seed = random.randrange(1_000_000)
    log.warning("seed %d", seed)
    url, group = databases[database], f"effects-{topic_name}"
    broker.create_topic(topic_name, PARTITIONS)
    fill(broker.bootstrap, topic_name, PARTITIONS, each, KEYS)
    engine = await prepared(url)
    arguments = ("exactly-once", broker.bootstrap, topic_name, group, url)
    members = Members(engine, random.Random(seed), *arguments)
    try:
        for _ in range(rounds):
            await members.kill(kills)
            await members.stand_still()

        async def all_there() -> bool:
            return await how_many(engine) >= PARTITIONS * each

        await eventually(all_there, 60 + 0.02 * PARTITIONS * each, 0.2)
        # A partition may have no owner at the moment; the next one commits what is done.
        await eventually(lambda: nothing_beside(engine, group), 60, 0.2)
    finally:
        await asyncio.to_thread(members.stop)
    assert await effects(engine) == expected(each)
    assert await nothing_beside(engine, group)
    await engine.dispose()


async def nothing_beside(engine: AsyncEngine, group: str) -> bool:
    """Whether all that is done is behind the positions."""
    async with engine.connect() as connection:
        query = select(func.count()).where(DONE.c.group_name == group)
        return bool((await connection.execute(query)).scalar_one() == 0)


@pytest.mark.full
async def test_without_the_offset_in_the_transaction_some_are_there_twice(
    broker: RunningBroker, databases: dict[str, str], topic_name: str
) -> None:
    """So the harness can see what it is there to see."""
    url = databases["postgresql"]
    broker.create_topic(topic_name, PARTITIONS)
    fill(broker.bootstrap, topic_name, PARTITIONS, 3_000, KEYS)
    engine = await prepared(url)
    arguments = ("plain", broker.bootstrap, topic_name, f"plain-{topic_name}", url)
    members = Members(engine, random.Random(1), *arguments)
    try:

        async def some_twice() -> bool:
            await members.kill(1)
            return any(len(set(one)) < len(one) for one in (await effects(engine)).values())

        await eventually(some_twice, 120)
    finally:
        await asyncio.to_thread(members.stop)
        await engine.dispose()


@pytest.mark.parametrize("database", ["postgresql", "sqlite"])
async def test_the_last_version_wins_when_events_come_out_of_order(
    kafka: RunningBroker, databases: dict[str, str], topic_name: str, database: str
) -> None:
    """Events of a key lie on all partitions, and some twice: an upsert with `newer_than`."""
    chance = random.Random(3)
    versions = [(f"deal-{key}".encode(), version) for key in range(20) for version in range(30)]
    wrote = [*versions, *chance.choices(versions, k=200)]
    chance.shuffle(wrote)
    kafka.create_topic(topic_name, PARTITIONS)
    engine = await prepared(databases[database])
    write_anywhere(kafka.bootstrap, topic_name, wrote)
    applied: dict[bytes, list[int]] = defaultdict(list)
    handled = 0

    async def upsert(received: Received) -> None:
        nonlocal handled
        assert received.key is not None
        assert received.value is not None
        version = int(received.value)
        async with engine.begin() as connection:
            if await newer_than(connection, topic_name, received.key, version):
                await asyncio.sleep(chance.uniform(0, 0.002))
                applied[received.key].append(version)
        handled += 1

    group = f"upsert-{topic_name}"
    async with Consumer(topic_name, group=group, bootstrap=kafka.bootstrap) as consumer:
        work = asyncio.create_task(consumer.run(upsert, tasks=8))
        await eventually(lambda: handled >= len(wrote), 60)
        consumer.stop()
        await work
    assert all(found == sorted(set(found)) for found in applied.values()), "only ever upwards"
    assert {key: found[-1] for key, found in applied.items()} == dict.fromkeys(
        {key for key, _ in versions}, 29
    )
    assert sum(map(len, applied.values())) < len(versions), "some came too late"
    async with engine.connect() as connection:
        kept = await stored(connection, topic_name)
    assert set(kept.values()) == {29}
    await engine.dispose()


async def test_a_log_that_ends_before_the_position_is_another_log(
    kafka: RunningBroker, databases: dict[str, str], topic_name: str
) -> None:
    """Such as that of a topic that was made again: its events would pass for done."""
    kafka.create_topic(topic_name, 1)
    fill(kafka.bootstrap, topic_name, 1, 10)
    engine = await prepared(databases["postgresql"])
    offsets = SqlOffsets(engine, topic_name)
    await offsets.positions([(topic_name, 0)])
    await offsets.advance({(topic_name, 0): 11})
    consumer = Consumer(topic_name, group=topic_name, bootstrap=kafka.bootstrap, offsets=offsets)
    async with consumer:
        with pytest.raises(ExceptionGroup) as caught:
            await consumer.run(offsets.once(effect_member.effect))
    assert isinstance(caught.value.exceptions[0], PositionError)
    assert "ends at 10, but its next offset is 11" in str(caught.value.exceptions[0])
    await engine.dispose()


async def test_a_topic_that_was_made_again_is_another_however_long_it_is(
    kafka: RunningBroker, databases: dict[str, str], topic_name: str
) -> None:
    """Its first events would pass for done, and nothing of its length would tell."""
    engine = await prepared(databases["sqlite"])
    offsets = SqlOffsets(engine, topic_name)
    applied: list[int] = []

    async def note(connection: AsyncConnection, received: Received) -> None:
        applied.append(received.offset)

    def consumer() -> Consumer:
        return Consumer(topic_name, group=topic_name, bootstrap=kafka.bootstrap, offsets=offsets)

    async def apply_all(count: int) -> None:
        async with consumer() as running:
            work = asyncio.create_task(running.run(offsets.once(note)))
            await eventually(lambda: len(applied) == count, 60)
            running.stop()
            await work

    kafka.create_topic(topic_name, 1)
    fill(kafka.bootstrap, topic_name, 1, 10)
    await apply_all(10)
    kafka.delete_topic(topic_name)
    await eventually(lambda: created(kafka, topic_name), 60)
    fill(kafka.bootstrap, topic_name, 1, 30)
    applied.clear()
    async with consumer() as stopped:
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.timeout(60):
                await stopped.run(offsets.once(note))
    assert "deleted and made again" in str(caught.value.exceptions[0])
    assert applied == []
    await offsets.forget(topic_name)
    await apply_all(30)
    assert sorted(applied) == list(range(30))
    await engine.dispose()


def created(kafka: RunningBroker, topic: str) -> bool:
    """Whether it could be created: one that was just deleted may still be there."""
    try:
        kafka.create_topic(topic, 1)
    except KafkaException:
        return False
    return True


async def stored(connection: AsyncConnection, scope: str) -> dict[bytes, int]:
    query = select(VERSIONS.c.key, VERSIONS.c.version).where(VERSIONS.c.scope == scope)
    return {row.key: row.version for row in await connection.execute(query)}


def write_anywhere(bootstrap: str, topic: str, wrote: list[tuple[bytes, int]]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number, (key, version) in enumerate(wrote):
        producer.produce(topic, str(version).encode(), key, partition=number % PARTITIONS)
    assert producer.flush(90) == 0
