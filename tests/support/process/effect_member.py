"""A member of a group whose effects are rows in a database, in a process of its own to be killed.

python effect_member.py MODE BOOTSTRAP TOPIC GROUP URL   MODE: exactly-once | plain
"""

from __future__ import annotations

import asyncio
import random
import signal
import sys

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, Table, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from headgate.consumer.consumer import Consumer
from headgate.consumer.options import ConsumerOptions, Retries
from headgate.consumer.partition import Received
from headgate.consumer.sql_offsets import SqlOffsets

TABLES = MetaData()
EFFECTS = Table(
    "effects",
    TABLES,
    # in the order of the inserts; of one key also in that of the transactions
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("key", LargeBinary, nullable=False),
    Column("number", Integer, nullable=False),
)


def engine_of(url: str) -> AsyncEngine:
    """SQLite waits for its one writer; PostgreSQL has ten connections."""
    if url.startswith("sqlite"):
        return create_async_engine(url, connect_args={"timeout": 30})
    return create_async_engine(url, pool_size=10)


async def effect(connection: AsyncConnection, event: Received) -> None:
    await asyncio.sleep(random.uniform(0, 0.005))
    assert event.value is not None
    await connection.execute(insert(EFFECTS).values(key=event.key, number=int(event.value)))
    await asyncio.sleep(random.uniform(0, 0.005))


async def main(mode: str, bootstrap: str, topic: str, group: str, url: str) -> None:
    engine = engine_of(url)
    offsets = SqlOffsets(engine, group)
    is_exact = mode == "exactly-once"
    options = ConsumerOptions(
        concurrency=8,
        prefetch=200,
        # plain members are killed between effect and commit, and quite often
        commit_interval_s=0.2 if is_exact else 2,
        drain_s=2,
        session_timeout_ms=1_500,
        retries=Retries(attempts=50, first_s=0.05, max_s=0.5),
    )

    async def plain(event: Received) -> None:
        async with engine.begin() as connection:
            await effect(connection, event)

    consumer = Consumer(
        topic,
        group=group,
        bootstrap=bootstrap,
        options=options,
        offsets=offsets if is_exact else None,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
    async with consumer:
        await consumer.run(offsets.once(effect) if is_exact else plain, tasks=8)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
