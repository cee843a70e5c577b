"""Writes chunks to the target, each in one transaction with its records of the offset map.

One producer id and epoch: `start` fences whoever had the transactional id and ends what they left
open, then transactions, then `drop`, and never again. After any error it is dropped: whether a
commit was done says the map, read after the next start.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokafka.errors import (
    InvalidTimestampError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from headgate.replays.offset_map import MAP_TOPIC, READ_BYTES
from headgate_spark.copying.chunks import Chunk, Written
from headgate_spark.copying.copied_topics import roomy
from headgate_spark.copying.transactions import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    Connections,
    is_fenced,
    offset_of,
    open_producer,
    send,
    send_records,
)
from headgate_spark.job.connections import Connection
from headgate_spark.job.errors import in_words
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS

MAX_BATCH_BYTES = 1_048_576  # of one batch with several records

_REFUSALS = (
    InvalidTimestampError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)
MapRecord = tuple[bytes, bytes | None]


class WriteError(Exception):
    """It was not done, or nobody knows; a new producer and the map tell."""


class FencedError(WriteError):
    """Another producer has the transactional id, or the broker ended a transaction that hung."""


class UnwritableError(WriteError):
    """The target will never take this."""


class Target(NamedTuple):
    """Where a partition is written. max_batch_bytes: the topic's max.message.bytes."""

    topic: str
    partition: int
    map_partition: int
    max_batch_bytes: int = MAX_BATCH_BYTES


class Writer:
    """The transactional producer of one partition. Every call but `drop` raises WriteError.

    connections: those of other partitions' producers, which it uses, too.
    """

    def __init__(
        self, connection: Connection, transactional_id: str, target: Target,
        connections: Connections,
    ) -> None:  # fmt: skip
        self._target = target
        batch_bytes = min(MAX_BATCH_BYTES, target.max_batch_bytes)
        self._inner, self._connections = (
            open_producer(connection, transactional_id, batch_bytes), connections,
        )  # fmt: skip
        connections.use_in(self._inner)

    async def start(self) -> None:
        """InitProducerId: returns when no older producer of this id can commit any more."""
        async with self._translated(START_TIMEOUT_S):
            await self._inner.start()

    async def drop(self) -> None:
        """End it at once."""
        await self._connections.drop(self._inner)

    async def write(
        self, chunk: Chunk, mapped: Callable[[Sequence[Written]], Iterable[MapRecord]],
        read_bytes: int = 0,
    ) -> list[Written]:  # fmt: skip
        """One transaction: the records, then what `mapped` makes of their places, then commit.

        read_bytes: from the source for it; the map's first record says so.
        """
        target = self._target
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.begin_transaction()
            written = await send_records(self._inner, target.topic, target.partition, chunk.records)
            await self._append_map(mapped(written), target.map_partition, read_bytes)
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.commit_transaction()
        return written

    async def _append_map(
        self, records: Iterable[MapRecord], partition: int, read_bytes: int
    ) -> None:
        builder, waiting = self._inner.create_batch(), []
        headers = [(READ_BYTES, b"%d" % read_bytes)] if read_bytes else []
        for key, value in records:
            if builder.append(timestamp=None, key=key, value=value, headers=headers) is None:
                waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
                builder = self._inner.create_batch()
                builder.append(timestamp=None, key=key, value=value, headers=headers)
            headers = []
        if builder.record_count():
            waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
        for future in waiting:
            await offset_of(future)

    @asynccontextmanager
    async def _translated(self, within_s: float) -> AsyncIterator[None]:
        """Bound a step, and raise WriteError for whatever ends it."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except MessageSizeTooLargeError as error:
            target = self._target
            raise UnwritableError(
                f"{type(error).__name__}: a record is larger than the {target.max_batch_bytes} "
                f"bytes that topic {target.topic} takes there, since its producer compressed it "
                f"better: set its max.message.bytes to {roomy(target.max_batch_bytes)}"
            ) from error
        except _REFUSALS as error:
            raise UnwritableError(in_words(error)) from error
        except CLIENT_ERRORS as error:
            kind = FencedError if is_fenced(self._inner, error) else WriteError
            raise kind(in_words(error)) from error
