"""The runner's producer: copied records and the status that tells of them, in one transaction.

Its transactional id is the runner's lease: whoever starts it last is the runner, and what an older
one had open is undone. After any error it is dropped: what was committed says the registry.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from headgate.core.record import REPLAY_ID
from headgate.core.replays.replay import REGISTRY_TOPIC
from headgate.kafka.closing import drop_producer
from headgate_spark.copying.chunks import SourceRecord
from headgate_spark.copying.transactions import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    is_fenced,
    open_producer,
    send,
    send_records,
)
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS
from headgate_spark.kafka.topic_ids import id_of

LEASE_ID = "headgate.replay.runner"
_MAX_BATCH_BYTES = 950_000
_TRIES, _PAUSE_S = 3, 1.0

Pair = tuple[bytes, bytes | None]


class LeaseError(Exception):
    """It was not done, or nobody knows. is_lost: another runner has the lease."""

    def __init__(self, text: str, *, is_lost: bool) -> None:
        super().__init__(text)
        self.is_lost = is_lost


class ReplayWriter:
    """Every call but `drop` raises LeaseError."""

    def __init__(self, connection: Connection) -> None:
        self._inner = open_producer(connection, LEASE_ID, _MAX_BATCH_BYTES)

    async def start(self) -> None:
        """Take the lease: returns when no older runner can commit any more."""
        async with self._translated(START_TIMEOUT_S):
            await self._inner.start()

    async def write(
        self,
        topic: str,
        partition: int,
        records: Sequence[SourceRecord],
        replay_id: str,
        status_records: Callable[[int | None], Sequence[Pair]],
    ) -> None:
        """One transaction: records to one partition, then what `status_records` makes of the
        offset behind the last of them, None when there are none."""
        marks = [(REPLAY_ID, replay_id.encode())]
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.begin_transaction()
            written = await send_records(self._inner, topic, partition, records, marks)
            await self._put(status_records(written[-1].end if written else None))
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.commit_transaction()

    async def tell(self, pairs: Sequence[Pair]) -> None:
        """One transaction with registry records alone."""
        await self.write(REGISTRY_TOPIC, 0, (), "", lambda _: pairs)

    async def lacks(self, topic: str, wanted: str | None) -> bool:
        """Whether a topic was deleted, or is not the one with this id; None: any will do."""
        async with self._translated(STEP_TIMEOUT_S):
            for number in range(_TRIES):  # a node may not have heard of a topic that is new
                await asyncio.sleep(_PAUSE_S if number else 0.0)
                found = await id_of(self._inner.client, topic)
                if found is not None and wanted in (None, found):
                    return False
        return True

    async def drop(self) -> None:
        """End it at once."""
        await drop_producer(self._inner)

    async def _put(self, pairs: Sequence[Pair]) -> None:
        waiting = []
        for key, value in pairs:  # a batch each: a status may be large
            builder = self._inner.create_batch()
            builder.append(timestamp=None, key=key, value=value)
            waiting.append(await send(self._inner, builder, REGISTRY_TOPIC, 0))
        for sent in waiting:
            await sent

    @asynccontextmanager
    async def _translated(self, within_s: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(within_s):
                yield
        except CLIENT_ERRORS as error:
            is_lost = is_fenced(self._inner, error)
            raise LeaseError(f"{type(error).__name__}: {error}", is_lost=is_lost) from error
