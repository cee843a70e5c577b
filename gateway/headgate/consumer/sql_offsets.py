"""Effects in a database, exactly once: the effect and its offset in one transaction.

    engine = create_async_engine("postgresql+asyncpg://...")
    offsets = SqlOffsets(engine, group="billing")
    await offsets.create_tables()
    async with Consumer("orders", group="billing", bootstrap=..., offsets=offsets) as consumer:
        await consumer.run(offsets.once(book))

    async def book(connection: AsyncConnection, event: Received) -> None:
        await connection.execute(insert(bookings).values(...))

Why it is exactly once, also with members of the group that were given up for dead and go on:
- Each effect's transaction first inserts the row (group, topic, partition, offset). Of two that
  try, the second waits for the first, and does nothing when that one committed.
- Rows below the position are removed in the transaction that raises it. A position only rises over
  events that are done, so it is right also if its writer no longer owns the partition.
- After its insert the transaction reads the position. If the row of an effect had been removed, so
  that the insert could succeed again, the position had been raised before, and shows it. This needs
  READ COMMITTED, where each statement sees what was committed before it; or SQLite, where the
  insert has made this transaction the one writer.
A key's next event is handed out when this one's transaction has ended, here or elsewhere, so that
effects of a key are in the order of the log.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeAlias

from sqlalchemy import ColumnElement, Table, and_, delete, select, update
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from headgate.consumer.commits import Place, PositionError
from headgate.consumer.partition import Received
from headgate.consumer.sql_tables import DONE, POSITIONS, TOPICS, create_tables, insert_into

Effect: TypeAlias = Callable[[AsyncConnection, Received], Awaitable[None]]


class SqlOffsets:
    """The offsets of a group, in the database of its effects.

    Implements `consumer.commits.OffsetStore`.

    Args:
        engine: SQLAlchemy's engine for PostgreSQL or SQLite. Its pool limits the number of
            concurrent effects.
        group: Id of the group.
    """

    def __init__(self, engine: AsyncEngine, group: str) -> None:
        self._engine = engine
        self._group = group

    async def create_tables(self) -> None:
        """Create the tables if they are missing."""
        async with self._engine.begin() as connection:
            await create_tables(connection)

    def once(self, effect: Effect) -> Callable[[Received], Awaitable[None]]:
        """Return a handler for `Consumer.run` that applies `effect` once for each event."""

        async def handler(received: Received) -> None:
            await self.apply(received, effect)

        return handler

    async def apply(self, received: Received, effect: Effect) -> bool:
        """Run `effect` in a transaction with the event's offset; return False if it was done.

        An exception of `effect` rolls back both. SQLAlchemy's errors are raised, too.
        """
        async with self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":  # overrides the engine: see the module
                await connection.execution_options(isolation_level="READ COMMITTED")
            async with connection.begin() as transaction:
                if not await self._is_first(connection, received):
                    await transaction.rollback()
                    return False
                await effect(connection, received)
        return True

    async def _is_first(self, connection: AsyncConnection, received: Received) -> bool:
        tp = (received.topic, received.partition)
        row = {**self._names(tp), "record_offset": received.offset}
        inserted = await connection.execute(
            insert_into(connection, DONE).values(row).on_conflict_do_nothing()
        )
        if inserted.rowcount != 1:
            return False
        query = select(POSITIONS.c.position).where(self._is(POSITIONS, tp))
        stored = (await connection.execute(query)).first()
        if stored is None:
            raise LookupError("SqlOffsets: give it to the consumer, too: Consumer(offsets=...)")
        return stored.position is None or received.offset >= stored.position

    # ---- consumer.commits.OffsetStore

    async def check_topics(self, ids: Mapping[str, str]) -> None:
        """Note topics that are new here. Raises PositionError, and OSError as `positions`."""
        with self._away_is_an_os_error():
            async with self._engine.begin() as connection:
                for topic, topic_id in sorted(ids.items()):
                    await self._check_topic(connection, topic, topic_id)

    async def _check_topic(self, connection: AsyncConnection, topic: str, topic_id: str) -> None:
        query = select(TOPICS.c.topic_id).where(
            (TOPICS.c.group_name == self._group) & (TOPICS.c.topic == topic)
        )
        stored_id = (await connection.execute(query)).scalar_one_or_none()
        if stored_id is None:
            row = {"group_name": self._group, "topic": topic, "topic_id": topic_id}
            await connection.execute(
                insert_into(connection, TOPICS).values(row).on_conflict_do_nothing()
            )
        elif stored_id != topic_id:
            raise PositionError(
                f"{topic} was deleted and made again: its id is {topic_id}, and offsets of group "
                f"{self._group} are kept for {stored_id}. Stop all members and let the store "
                "forget them (SqlOffsets.forget)"
            )

    async def positions(self, places: Iterable[Place]) -> Mapping[Place, int]:
        """Return the stored next offsets. Raises OSError while the database is unavailable."""
        positions: dict[Place, int] = {}
        with self._away_is_an_os_error():
            async with self._engine.begin() as connection:
                for tp in sorted(set(places)):
                    position = await self._open(connection, tp)
                    if position is not None:
                        positions[tp] = position
        return positions

    async def _open(self, connection: AsyncConnection, tp: Place) -> int | None:
        # Every effect must find a row: a missing one is an error.
        row = {**self._names(tp), "position": None}
        await connection.execute(
            insert_into(connection, POSITIONS).values(row).on_conflict_do_nothing()
        )
        query = select(POSITIONS.c.position).where(self._is(POSITIONS, tp))
        position: int | None = (await connection.execute(query)).scalar_one()
        return position

    async def advance(self, marks: Mapping[Place, int]) -> None:
        """Raise the positions. Raises OSError while the database is unavailable."""
        with self._away_is_an_os_error():
            for tp, mark in sorted(marks.items()):
                async with self._engine.begin() as connection:
                    await self._raise(connection, tp, mark)

    async def _raise(self, connection: AsyncConnection, tp: Place, mark: int) -> None:
        lower = (POSITIONS.c.position < mark) | POSITIONS.c.position.is_(None)
        is_lower = self._is(POSITIONS, tp) & lower
        await connection.execute(update(POSITIONS).where(is_lower).values(position=mark))
        below = self._is(DONE, tp) & (DONE.c.record_offset < mark)
        await connection.execute(delete(DONE).where(below))

    async def forget(self, topic: str) -> None:
        """Forget a topic, such as one that was deleted and made again. No member may run."""
        async with self._engine.begin() as connection:
            for table in (POSITIONS, DONE, TOPICS):
                is_topic = (table.c.group_name == self._group) & (table.c.topic == topic)
                await connection.execute(delete(table).where(is_topic))

    async def start_at(self, starts: Mapping[Place, int]) -> None:
        """Let the group begin at these offsets, such as behind a replay that has been read.

        Call it before its first member runs.

        Raises:
            PositionError: The group has already begun.
        """
        async with self._engine.begin() as connection:
            for tp, offset in sorted(starts.items()):
                begun = await self._open(connection, tp)
                if begun is not None:
                    raise PositionError(
                        f"group {self._group} is at {begun} of {tp[0]} partition {tp[1]}: "
                        "forget the topic first, or use another group"
                    )
                await self._raise(connection, tp, offset)

    def _names(self, tp: Place) -> dict[str, str | int]:
        return {"group_name": self._group, "topic": tp[0], "partition": tp[1]}

    def _is(self, table: Table, tp: Place) -> ColumnElement[bool]:
        return and_(*(table.c[name] == value for name, value in self._names(tp).items()))

    @contextmanager
    def _away_is_an_os_error(self) -> Iterator[None]:
        try:
            yield
        except (DataError, IntegrityError, ProgrammingError):
            raise  # such as tables that are not there: waiting does not help
        except (DBAPIError, OSError, TimeoutError) as error:
            raise OSError(f"the database of group {self._group}: {error}") from error
