"""The examples of docs/consume are run as they are copied, as programs of their own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from support.kafka.kafka_log import group_offsets
from support.pages import sources
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka
BLOCKS = [
    source
    for page in ("index", "chunks", "exactly-once", "pauses")
    for source in sources(f"consume/{page}", "python")
]


@asynccontextmanager
async def running(number: int, folder: Path, *arguments: str) -> AsyncIterator[None]:
    """The program of one block; it must end by SIGTERM, and without a traceback."""
    file, errors = folder / "example.py", folder / "errors"
    file.write_text(BLOCKS[number])
    with errors.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(file), *arguments, stderr=out
        )
        try:
            yield
            assert process.returncode is None, errors.read_text()
            process.terminate()
            async with asyncio.timeout(60):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    assert "Traceback" not in errors.read_text()


def test_every_example_is_run_here() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize(("number", "group"), [(0, "billing"), (1, "shipping")])
async def test_events_are_handled(
    kafka: RunningBroker, tmp_path: Path, number: int, group: str
) -> None:
    topics = ("orders", "orders.dead")
    for topic in topics:
        kafka.create_topic(topic, 2)
    try:
        fill(kafka.bootstrap, "orders", 2, 50)

        async def is_handled() -> bool:
            found = await asyncio.to_thread(group_offsets, kafka.bootstrap, group, "orders")
            return sorted(found.values()) == [50, 50]

        async with running(number, tmp_path, kafka.bootstrap):
            await eventually(is_handled, 60)
    finally:
        for topic in topics:
            kafka.delete_topic(topic)


async def test_effects_in_a_database(
    kafka: RunningBroker, databases: dict[str, str], tmp_path: Path
) -> None:
    kafka.create_topic("orders", 2)
    engine = create_async_engine(databases["postgresql"])
    try:
        fill(kafka.bootstrap, "orders", 2, 50)
        async with engine.begin() as connection:
            await connection.execute(text("DROP TABLE IF EXISTS bookings"))
            await connection.execute(text("CREATE TABLE bookings (customer BYTEA, body BYTEA)"))
        async with running(2, tmp_path, kafka.bootstrap, databases["postgresql"]):
            await eventually(lambda: has_rows(engine, "bookings", 100), 60)
    finally:
        await engine.dispose()
        kafka.delete_topic("orders")


async def test_only_newer_versions_and_one_mail(kafka: RunningBroker, tmp_path: Path) -> None:
    kafka.create_topic("deals", 1)
    database = f"sqlite+aiosqlite:///{tmp_path}/deals.sqlite"
    engine = create_async_engine(database)
    try:
        producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
        for version, price in [(1, 10), (3, 30), (2, 20), (3, 30)]:
            value = json.dumps({"version": version, "price": price}).encode()
            headers: list[tuple[str, str | bytes | None]] = [("hg-event-id", f"e-{version}")]
            producer.produce("deals", value, b"a", headers=headers)
        assert producer.flush(90) == 0
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE deals (id BLOB PRIMARY KEY, price INT)"))
            await connection.execute(text("CREATE TABLE mails (deal BLOB)"))

        async def is_handled() -> bool:
            found = await asyncio.to_thread(group_offsets, kafka.bootstrap, "prices", "deals")
            return list(found.values()) == [4]

        async with running(3, tmp_path, kafka.bootstrap, database):
            await eventually(is_handled, 60)
        async with engine.connect() as connection:
            assert (await connection.execute(text("SELECT price FROM deals"))).all() == [(30,)]
        assert await has_rows(engine, "mails", 3)
    finally:
        await engine.dispose()
        kafka.delete_topic("deals")


async def has_rows(engine: AsyncEngine, table: str, rows: int) -> bool:
    async with engine.connect() as connection:
        count = (await connection.execute(text(f"SELECT count(*) FROM {table}"))).scalar_one()
    return bool(count == rows)
