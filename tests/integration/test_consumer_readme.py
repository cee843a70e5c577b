"""The examples of the consumer's README are run as they stand."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

import headgate.consumer
from consumer_world import fill
from headgate.consumer import Received
from stack import RunningBroker, eventually

pytestmark = pytest.mark.kafka
README = Path(headgate.consumer.__file__).with_name("README.md")


def example(number: int, topic: str) -> dict[str, Any]:
    """The names that a block of the README defines, with a topic of the test's own."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {}
    exec(compile(blocks[number].replace('"orders"', repr(topic)), README.name, "exec"), found)
    return found


async def test_a_handler(kafka: RunningBroker, topic_name: str) -> None:
    kafka.create_topic(topic_name, 2)
    kafka.create_topic(f"{topic_name}.dead", 1)
    fill(kafka.bootstrap, topic_name, 2, 50)
    names, handled = example(0, topic_name), set()

    async def book(event: Received) -> None:
        handled.add((event.partition, event.offset))

    names["book"] = book
    task = asyncio.create_task(names["main"](kafka.bootstrap))
    try:
        await eventually(lambda: len(handled) == 100, 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_effects_in_a_database(
    kafka: RunningBroker, databases: dict[str, str], topic_name: str
) -> None:
    kafka.create_topic(topic_name, 2)
    fill(kafka.bootstrap, topic_name, 2, 50)
    url = databases["postgresql"]
    engine = create_async_engine(url)
    async with engine.begin() as connection:
        await connection.execute(text("DROP TABLE IF EXISTS bookings"))
        await connection.execute(text("CREATE TABLE bookings (customer BYTEA, body BYTEA)"))
    task = asyncio.create_task(example(1, topic_name)["main"](kafka.bootstrap, url))

    async def booked() -> bool:
        async with engine.connect() as connection:
            return (await connection.execute(text("SELECT count(*) FROM bookings"))).scalar() == 100

    try:
        await eventually(booked, 60)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engine.dispose()
