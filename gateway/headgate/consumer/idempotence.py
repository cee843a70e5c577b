"""Two queries that make an effect idempotent, in the transaction of the effect.

    async def apply(connection: AsyncConnection, event: Received) -> None:
        if await newer_than(connection, "deals", event.key, event.offset):
            await connection.execute(upsert_deal(event))

They need no `SqlOffsets`: the result is right also for an event that comes again, from another
partition or out of order, because it commits with the effect.
"""

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from headgate.consumer.sql_tables import SEEN, VERSIONS, insert_into


async def seen(connection: AsyncConnection, scope: str, event_id: str, now_ms: int) -> bool:
    """Return whether an event with this id was seen before, and remember it.

    Two transactions with one id wait for each other; if the first one is rolled back, the second
    one gets False.

    Args:
        connection: The connection of the effect's transaction.
        scope: A name for the effect: ids of different scopes are independent.
        event_id: The record's `hg-event-id`.
        now_ms: Time stored with the id, for `forget_seen`, in ms since 1970.
    """
    row = {"scope": scope, "event_id": event_id, "seen_at_ms": now_ms}
    done = await connection.execute(
        insert_into(connection, SEEN).values(row).on_conflict_do_nothing()
    )
    return done.rowcount != 1


async def forget_seen(connection: AsyncConnection, scope: str, before_ms: int) -> int:
    """Forget ids that were seen before this time (ms since 1970); return their number."""
    old = (SEEN.c.scope == scope) & (SEEN.c.seen_at_ms < before_ms)
    return (await connection.execute(delete(SEEN).where(old))).rowcount


async def newer_than(connection: AsyncConnection, scope: str, key: bytes, version: int) -> bool:
    """Return whether a version is greater than all earlier ones of its key, and remember it.

    Equal is not newer, so that an event that comes again has no effect.

    Args:
        connection: The connection of the effect's transaction.
        scope: A name for the effect.
        key: The event's key.
        version: A number that grows with each change of the key at its source: a row's version, a
            change time in ms, or the offset if all events of a key are in one partition.
    """
    insert = insert_into(connection, VERSIONS).values(scope=scope, key=key, version=version)
    done = await connection.execute(
        insert.on_conflict_do_update(
            index_elements=["scope", "key"],
            set_={"version": insert.excluded.version},
            where=VERSIONS.c.version < insert.excluded.version,
        )
    )
    return done.rowcount == 1
