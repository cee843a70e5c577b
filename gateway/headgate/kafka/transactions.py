"""A transactional aiokafka producer for one owner of a held partition, dropped with it.

aiokafka's own methods are not used to end it: `stop()` flushes and may hang, and `abort` reuses an
epoch whose last request may still be on its way (counterexample 12 of
docs/design/coalescing-protocol.md). After any error the producer is dropped, and the next one's
InitProducerId aborts its open transaction.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.errors import KafkaError, ProducerFenced
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from headgate.kafka.aiokafka_internals import (
    drop_producer,
    forget_failures,
    is_in_transaction,
    keep_requests,
    open_producer,
)
from headgate.kafka.options import ClusterOptions
from headgate.kafka.produce_request import Fate, classify, learn_error_codes
from headgate.kafka.topics import kafka_error
from headgate.model.publish import Record

TRANSACTION_TIMEOUT_MS = 30_000  # the broker aborts a transaction that its owner does not end
STEP_TIMEOUT_S = 20.0  # an ordinary leader loss takes 4-11 s; less than the transaction timeout
# Limit of a batch with several records, below Kafka's default of max.message.bytes (1,048,588).
_MAX_BATCH_BYTES = 1_048_576


class TransactionError(Exception):
    """A failed step of a transaction.

    Attributes:
        label: The type of the error, from a small set.
        is_fenced: Whether another producer has the id, or the broker ended the transaction.
        is_refusal: Whether the broker certainly did not execute the step; otherwise it may have.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(kafka_error(error))
        self.label = type(error).__name__
        self.is_fenced = isinstance(error, ProducerFenced)
        self.is_refusal = self.is_fenced or classify(error, 1).fate is Fate.REFUSED


class TransactionalProducer:
    """A producer with one id and epoch: `start`, then transactions, then `drop`, only once.

    Every method except `drop` may raise TransactionError.

    Args:
        options: The cluster.
        transactional_id: The id.
        max_batch_bytes: The limit of a batch with one record, from its topic.
    """

    def __init__(self, options: ClusterOptions, transactional_id: str, max_batch_bytes: int):
        learn_error_codes()
        self._inner = open_producer(
            options,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            acks="all",
            max_batch_size=max_batch_bytes,
            compression_type=None if options.compression == "none" else options.compression,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=0,
        )
        self._max_bytes = min(max_batch_bytes, _MAX_BATCH_BYTES)
        self._requests = keep_requests(self._inner)

    async def start(self, within_s: float) -> None:
        """Connect and send InitProducerId, which fences the previous producer with this id.

        It waits until the markers of the previous producer's transaction are written.

        Args:
            within_s: The time limit, in seconds.
        """
        async with _translated(within_s):
            await self._inner.start()

    async def begin(self) -> None:
        """Begin a transaction unless one is open. Costs no request."""
        if not is_in_transaction(self._inner):
            async with _translated(STEP_TIMEOUT_S):
                await self._inner.begin_transaction()

    async def append(self, records: Sequence[Record]) -> list[int]:
        """Write records, in order within each partition.

        Returns:
            The offsets; -1 if Kafka returned none.
        """
        by_partition: dict[TopicPartition, list[int]] = {}
        for index, record in enumerate(records):
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(
                index
            )
        offsets = [-1] * len(records)
        waiting: list[tuple[asyncio.Future[Any], list[int]]] = []
        async with _translated(STEP_TIMEOUT_S):
            for tp, indexes in by_partition.items():
                await self._send(tp, records, indexes, waiting)
            for future, indexes in waiting:
                base = (await future).offset
                for step, index in enumerate(indexes):
                    offsets[index] = base + step if base >= 0 else -1
        return offsets

    async def send_offset(self, group: str, tp: TopicPartition, offset: int, text: str) -> None:
        """Commit a group's offset in the transaction, without member and generation."""
        offsets = {tp: OffsetAndMetadata(offset, text)}
        async with _translated(STEP_TIMEOUT_S):
            await self._inner.send_offsets_to_transaction(offsets, group)

    async def commit(self) -> None:
        """Commit the transaction (EndTxn). After an error it may or may not be committed."""
        async with _translated(STEP_TIMEOUT_S):
            await self._inner.commit_transaction()

    async def drop(self) -> None:
        """Shut down the producer at once, in bounded time."""
        await drop_producer(self._inner, self._requests)
        forget_failures(self._inner)

    async def _send(
        self,
        tp: TopicPartition,
        records: Sequence[Record],
        places: Sequence[int],
        waiting: list[tuple[asyncio.Future[Any], list[int]]],
    ) -> None:
        builder, taken = self._inner.create_batch(), list[int]()
        for index in places:
            record = records[index]
            while not self._fits(builder, taken, record):
                waiting.append((await self._hand_over(builder, tp), taken))
                builder, taken = self._inner.create_batch(), []
            taken.append(index)
        waiting.append((await self._hand_over(builder, tp), taken))

    def _fits(self, builder: Any, taken: Sequence[int], record: Record) -> bool:
        if taken and builder.size() + len(record.value or b"") > self._max_bytes:
            return False
        added = builder.append(
            timestamp=record.timestamp_ms,
            key=record.key,
            value=record.value,
            headers=record.headers,
        )
        if added is None and not taken:  # an empty builder takes a first record of any size
            raise KafkaError("a record does not fit into any batch")
        return added is not None

    async def _hand_over(self, builder: Any, tp: TopicPartition) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = await self._inner.send_batch(
            builder, tp.topic, partition=tp.partition
        )
        # A later step may fail first; then no task awaits this future.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return future


@asynccontextmanager
async def _translated(within_s: float) -> AsyncIterator[None]:
    """Limit the time of a step, and convert its errors to TransactionError."""
    try:
        async with asyncio.timeout(within_s):
            yield
    except (KafkaError, OSError, TimeoutError, AssertionError) as error:
        # aiokafka asserts its own states, for example after the sender died
        raise TransactionError(error) from error
