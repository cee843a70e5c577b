"""A consumer of any version, by the names that are documented, in a process of its own.

python reader_program.py BOOTSTRAP TOPIC GROUP DATABASE BLOBS COUNT END

After COUNT events it ends, or (END = killed) dies with the next one, having committed nothing to
Kafka. Their effects are rows in the database, with the offsets.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from headgate.consumer import Consumer, ConsumerOptions, Received
from headgate.consumer.claims import ClaimChecks
from headgate.consumer.sql_offsets import SqlOffsets

TABLE = text(
    "CREATE TABLE IF NOT EXISTS effects (id INTEGER PRIMARY KEY, key BLOB, sha256 TEXT NOT NULL)"
)
INSERT = text("INSERT INTO effects (key, sha256) VALUES (:key, :sha256)")


async def main(
    bootstrap: str, topic: str, group: str, database: str, blobs: str, count: str, end: str
) -> None:
    engine, claims, left = create_async_engine(database), ClaimChecks(blobs), int(count)
    offsets = SqlOffsets(engine, group)
    await offsets.create_tables()
    async with engine.begin() as connection:
        await connection.execute(TABLE)

    async def effect(connection: AsyncConnection, event: Received) -> None:
        nonlocal left
        if left == 0 and end == "killed":
            os._exit(0)
        value = await claims.value(event) or b""
        row = {"key": event.key, "sha256": hashlib.sha256(value).hexdigest()}
        await connection.execute(INSERT, row)
        left -= 1
        if left == 0 and end != "killed":
            consumer.stop()

    options = ConsumerOptions(concurrency=1, commit_interval_s=600, session_timeout_ms=6_000)
    consumer = Consumer(topic, group=group, bootstrap=bootstrap, options=options, offsets=offsets)
    async with consumer:
        await consumer.run(offsets.once(effect), tasks=1)
    await engine.dispose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
