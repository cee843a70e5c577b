"""The shop's tables in PostgreSQL, and what an event does to them.

The table `revenue` is what can be rebuilt. Each of its builds has rows of its own, and one build
counts: the newest that is ready.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headgate.consumer import Received
from headgate.consumer.idempotence import seen
from headgate.consumer.sql_tables import create_tables

_TABLES = """
CREATE TABLE IF NOT EXISTS offers (
  offer TEXT PRIMARY KEY, title TEXT, cents INT, stock INT, records INT NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS revenue (
  build INT, day DATE, offer TEXT, orders INT, items INT, cents BIGINT,
  PRIMARY KEY (build, day, offer));
CREATE TABLE IF NOT EXISTS builds (build INT PRIMARY KEY, replay TEXT, is_ready BOOLEAN NOT NULL);
INSERT INTO builds VALUES (1, NULL, true) ON CONFLICT DO NOTHING;
"""
_ADD = text(
    "INSERT INTO revenue VALUES (:build, :day, :offer, 1, :items, :cents)"
    " ON CONFLICT (build, day, offer) DO UPDATE SET orders = revenue.orders + 1,"
    " items = revenue.items + excluded.items, cents = revenue.cents + excluded.cents"
)
_OFFER = text(
    "INSERT INTO offers VALUES (:offer, :title, :cents, NULL, 1) ON CONFLICT (offer) DO UPDATE"
    " SET title = excluded.title, cents = excluded.cents, records = offers.records + 1"
)
_STOCK = text(
    "INSERT INTO offers VALUES (:offer, NULL, NULL, :stock, 1) ON CONFLICT (offer) DO UPDATE"
    " SET stock = excluded.stock, records = offers.records + 1"
)
_READY = "SELECT max(build) FROM builds WHERE is_ready"


async def create(engine: AsyncEngine) -> None:
    """Create what is missing; several programs may do so at once."""
    async with engine.begin() as connection:
        await connection.execute(text("SELECT pg_advisory_xact_lock(1)"))
        await create_tables(connection)  # those of headgate.consumer
        for statement in filter(str.strip, _TABLES.split(";")):
            await connection.execute(text(statement))


async def add_order(build: int, connection: AsyncConnection, event: Received) -> None:
    """Count an order: with `SqlOffsets.once`, each record of the log once, whoever is killed.

    `seen` is for an order that is in the log twice, as a second click while Redis is away.
    """
    order = json.loads(event.value or b"{}")
    if await seen(connection, f"build {build}", order["order"], event.timestamp):
        return
    taken_at = datetime.fromtimestamp(event.timestamp / 1000, UTC)  # a replay keeps it
    cents = order["items"] * order["cents"]
    row = {"offer": order["offer"], "items": order["items"], "cents": cents}
    await connection.execute(_ADD, {"build": build, "day": taken_at.date(), **row})


async def save_offer(connection: AsyncConnection, event: Received) -> None:
    """Take over what an offer is now, or how many there are."""
    saved = json.loads(event.value or b"{}")
    await connection.execute(_STOCK if event.topic == "shop-stock" else _OFFER, saved)


async def ready_build(engine: AsyncEngine) -> int:
    """Return the build that counts."""
    async with engine.connect() as connection:
        return int((await connection.execute(text(_READY))).scalar_one())


async def forget_older_builds(engine: AsyncEngine) -> int:
    """Delete what no longer counts; return the build that does."""
    build = await ready_build(engine)
    async with engine.begin() as connection:
        await connection.execute(text("DELETE FROM revenue WHERE build < :build"), {"build": build})
    return build


async def new_build(engine: AsyncEngine, replay: str) -> int:
    """Begin a build that does not count yet."""
    query = text(
        "INSERT INTO builds SELECT max(build) + 1, :replay, false FROM builds RETURNING build"
    )
    async with engine.begin() as connection:
        return int((await connection.execute(query, {"replay": replay})).scalar_one())


async def make_ready(engine: AsyncEngine, build: int) -> None:
    """From now on, this build counts."""
    query = text("UPDATE builds SET is_ready = true WHERE build = :build")
    async with engine.begin() as connection:
        await connection.execute(query, {"build": build})


async def drop_revenue(engine: AsyncEngine) -> None:
    """Lose the view, as by a mistake."""
    async with engine.begin() as connection:
        await connection.execute(text("DELETE FROM revenue"))


async def find_offer(engine: AsyncEngine, offer: str) -> RowMapping | None:
    """Return an offer's row."""
    query = text("SELECT * FROM offers WHERE offer = :offer AND cents IS NOT NULL")
    async with engine.connect() as connection:
        return (await connection.execute(query, {"offer": offer})).mappings().first()


async def shown(engine: AsyncEngine) -> Mapping[str, Any]:
    """Return what the page shows, as JSON."""
    revenue = f"FROM revenue WHERE build = ({_READY}) ORDER BY day DESC, offer"
    queries = {
        "offers": "SELECT * FROM offers ORDER BY offer",
        "revenue": f"SELECT day::text, offer, orders, items, cents {revenue}",
        "build": f"SELECT build, replay FROM builds WHERE build = ({_READY})",
    }
    async with engine.connect() as connection:
        found = {
            name: [dict(row) for row in (await connection.execute(text(query))).mappings()]
            for name, query in queries.items()
        }
    return {**found, "build": found["build"][0]}
