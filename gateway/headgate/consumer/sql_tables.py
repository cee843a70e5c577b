"""The tables of the idempotence helpers in a service's own database."""

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, MetaData, String, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

_TABLES = MetaData()

# One row a partition that was ever owned. position: the next offset; null as long as none is known.
# Everything below it is done for ever.
POSITIONS = Table(
    "headgate_positions",
    _TABLES,
    Column("group_name", String(255), primary_key=True),
    Column("topic", String(255), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("position", BigInteger),
)

# Identity of the topic: a recreated topic has another id, and other offsets.
TOPICS = Table(
    "headgate_topics",
    _TABLES,
    Column("group_name", String(255), primary_key=True),
    Column("topic", String(255), primary_key=True),
    Column("topic_id", String(32), nullable=False),
)

# Events that are done at or above the position: events of different keys end in any order.
DONE = Table(
    "headgate_done",
    _TABLES,
    Column("group_name", String(255), primary_key=True),
    Column("topic", String(255), primary_key=True),
    Column("partition", Integer, primary_key=True),
    Column("record_offset", BigInteger, primary_key=True),
)

SEEN = Table(
    "headgate_seen",
    _TABLES,
    Column("scope", String(255), primary_key=True),
    Column("event_id", String(255), primary_key=True),
    Column("seen_at_ms", BigInteger, nullable=False, index=True),
)

VERSIONS = Table(
    "headgate_versions",
    _TABLES,
    Column("scope", String(255), primary_key=True),
    Column("key", LargeBinary, primary_key=True),
    Column("version", BigInteger, nullable=False),
)


async def create_tables(connection: AsyncConnection) -> None:
    """Create the missing ones of the five tables; for services without migrations."""
    await connection.run_sync(_TABLES.create_all)


def insert_into(connection: AsyncConnection, table: Table) -> "postgresql.Insert | sqlite.Insert":
    """Return an INSERT with ON CONFLICT. Raises ValueError for databases that are not tested."""
    name = connection.dialect.name
    if name == "postgresql":
        return postgresql.insert(table)
    if name == "sqlite":
        return sqlite.insert(table)
    raise ValueError(f"database {name!r}: use PostgreSQL or SQLite")
