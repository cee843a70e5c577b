"""Writes chunks to the target, each in one transaction with its records of the offset map.

One producer id and epoch: `start` fences whoever had the transactional id and ends what they left
open, then transactions, then `drop`, and never again. After any error it is dropped: whether a
commit was done says the map, read after the next start.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    InvalidTimestampError,
    KafkaError,
    MessageSizeTooLargeError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
)

from headgate.core.replays.offset_map import MAP_TOPIC
from headgate_spark.batch import Batch
from headgate_spark.chunks import Chunk, SourceRecord, Written
from headgate_spark.connections import Connection
from headgate_spark.kafka_clients import (
    CLIENT_ERRORS,
    client_arguments,
    drop,
    never_create_topics,
)
from headgate_spark.mirror_topics import roomy
from headgate_spark.transactions import is_fenced, send

TRANSACTION_TIMEOUT_MS = 30_000  # the broker aborts what its owner does not end
STEP_TIMEOUT_S = 25.0  # an ordinary leader loss takes 4-11 s; less than the above
START_TIMEOUT_S = 60.0  # InitProducerId waits for the markers of what it ends
MOST_BATCH_BYTES = 1_048_576  # of one batch with several records

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


class RefusedError(WriteError):
    """The target will never take this."""


class Target(NamedTuple):
    """Where a partition is written. max_batch_bytes: the topic's max.message.bytes."""

    topic: str
    partition: int
    map_partition: int
    max_batch_bytes: int = MOST_BATCH_BYTES


class Writer:
    """The transactional producer of one partition. Every call but `drop` raises WriteError."""

    def __init__(self, connection: Connection, transactional_id: str, target: Target) -> None:
        codec = connection.compression
        self._target = target
        self._inner = AIOKafkaProducer(
            **client_arguments(connection),
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            acks="all",
            max_batch_size=min(MOST_BATCH_BYTES, target.max_batch_bytes),
            compression_type=None if codec == "none" else codec,
            linger_ms=0,
        )
        never_create_topics(self._inner.client)

    async def start(self) -> None:
        """InitProducerId: returns when no older producer of this id can commit any more."""
        async with self._translated(START_TIMEOUT_S):
            await self._inner.start()

    async def drop(self) -> None:
        """End it at once."""
        await drop(self._inner)

    async def write(
        self, chunk: Chunk, mapped: Callable[[Sequence[Written]], Iterable[MapRecord]]
    ) -> list[Written]:
        """One transaction: the records, then what `mapped` makes of their places, then commit."""
        target = self._target
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.begin_transaction()
            written = await self._append(chunk.records)
            await self._append_map(mapped(written), target.map_partition)
        async with self._translated(STEP_TIMEOUT_S):
            await self._inner.commit_transaction()
        return written

    async def _append(self, records: Sequence[SourceRecord]) -> list[Written]:
        topic, partition = self._target.topic, self._target.partition
        waiting: list[tuple[int, int, asyncio.Future[Any]]] = []
        batch, first = Batch.of(self._inner), 0
        for at, one in enumerate(records):
            while not batch.append(one.timestamp, one.key, one.value, one.headers):
                if at == first:  # an empty batch takes its first record whatever its size
                    raise KafkaError("a record does not fit into any batch")
                waiting.append((first, at, await send(self._inner, batch, topic, partition)))
                batch, first = Batch.of(self._inner), at
        if records:
            sent = await send(self._inner, batch, topic, partition)
            waiting.append((first, len(records), sent))
        return [Written(first, behind, await _base(future)) for first, behind, future in waiting]

    async def _append_map(self, records: Iterable[MapRecord], partition: int) -> None:
        builder, waiting = self._inner.create_batch(), []
        for key, value in records:
            if builder.append(timestamp=None, key=key, value=value) is None:
                waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
                builder = self._inner.create_batch()
                builder.append(timestamp=None, key=key, value=value)
        if builder.record_count():
            waiting.append(await send(self._inner, builder, MAP_TOPIC, partition))
        for future in waiting:
            await _base(future)

    @asynccontextmanager
    async def _translated(self, within_s: float) -> AsyncIterator[None]:
        """Bound a step, and raise WriteError for whatever ends it."""
        try:
            async with asyncio.timeout(within_s):
                yield
        except MessageSizeTooLargeError as error:
            target = self._target
            raise RefusedError(
                f"{type(error).__name__}: a record is larger than the {target.max_batch_bytes} "
                f"bytes that topic {target.topic} takes there, since its producer compressed it "
                f"better: set its max.message.bytes to {roomy(target.max_batch_bytes)}"
            ) from error
        except _REFUSALS as error:
            raise RefusedError(f"{type(error).__name__}: {error}") from error
        except CLIENT_ERRORS as error:
            kind = FencedError if is_fenced(self._inner, error) else WriteError
            raise kind(f"{type(error).__name__}: {error}") from error


async def _base(future: asyncio.Future[Any]) -> int:
    offset: int = (await future).offset
    if offset < 0:
        raise KafkaError("Kafka acknowledged a batch without its offset")
    return offset
