"""Events that failed their last attempt: they go to a dead-letter topic, or end the consumer."""

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from hashlib import sha256
from uuid import uuid4

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError

from headgate.consumer.options import GaveUpError, Retries
from headgate.consumer.partition import Received
from headgate.errors_in_words import connection_error
from headgate.kafka.aiokafka_internals import legible, open_producer, stop_producer
from headgate.kafka.options import ClusterOptions
from headgate.model.keys import partition_for
from headgate.oversize.chunks import (
    MAX_BYTES,
    MIN_CHUNK_BYTES,
    Head,
    cut,
    headers_of,
    read_head,
)

log = logging.getLogger("headgate.consumer")

_MAX_REASON_BYTES = 1_000
_STOP_S = 10.0  # each event has waited for its acknowledgement, so nothing is left to send
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)

Headers = Sequence[tuple[str, bytes | None]]


class DeadLetterError(Exception):
    """The dead-letter topic cannot take an event, also with retries."""


class Failures:
    """The producer of dead letters, if there is a dead-letter topic."""

    def __init__(self, cluster: ClusterOptions, retries: Retries, client_id: str) -> None:
        self._topic = retries.dead_letter
        self._producer: AIOKafkaProducer | None = None
        self._cluster = cluster
        self._client_id = client_id
        self._piece_bytes = MAX_BYTES  # size of a chunk that the topic accepts, as far as known
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> None:
        """Start the producer. Raises KafkaError."""
        if self._topic is not None:
            # Not idempotent: after a refused batch aiokafka leaves a hole in the sequence, and the
            # broker refuses every later batch, too. So a dead letter may come twice.
            self._producer = open_producer(self._cluster, client_id=self._client_id, acks="all")
            await self._producer.start()

    async def close(self) -> None:
        if self._producer is not None:
            error = await stop_producer(self._producer, _STOP_S)
            if error is not None:
                why = connection_error(error)
                log.warning("producer of dead letters dropped, not stopped: %s", why)

    async def bury(self, received: Received, error: BaseException | str) -> None:
        """Write an event to the dead-letter topic, unchanged, and wait for the acknowledgement.

        An event that is too large for the topic is written in chunks, as `Assembler` reads them.

        Raises:
            KafkaError: The write failed.
            DeadLetterError: The topic does not even take the chunks.
        """
        origin = f"{received.topic}-{received.partition}@{received.offset}"
        headers = [
            *((legible(name), value) for name, value in received.headers),
            ("hg-dead-from", origin.encode()),
            ("hg-dead-reason", str(error).encode("utf-8", "replace")[:_MAX_REASON_BYTES]),
            ("hg-dead-attempts", b"%d" % received.attempt),
        ]
        async with self._one_at_a_time:  # chunks of an event lie next to each other
            partition = await self._partition(received.key)
            try:
                await self._send(received, partition, received.value, headers)
            except _TOO_LARGE:
                await self._send_in_chunks(received, partition, headers)

    async def _send_in_chunks(self, received: Received, partition: int, headers: Headers) -> None:
        value = received.value or b""
        if len(value) > MAX_BYTES or read_head(received.headers) is not None:
            raise DeadLetterError(
                f"{self._topic} does not take a value of {len(value)} bytes, and it cannot be cut "
                f"into chunks (over {MAX_BYTES} bytes, or a chunk itself): raise the topic's "
                "max.message.bytes"
            )
        piece = min(self._piece_bytes, (len(value) + 1) // 2)
        while piece >= MIN_CHUNK_BYTES:
            try:
                for part, more in _chunks(value, piece):
                    await self._send(received, partition, part, [*headers, *more])
            except _TOO_LARGE:  # the first one was, so nothing is written
                piece //= 2
            else:
                self._piece_bytes = max(piece, MIN_CHUNK_BYTES)
                return
        raise DeadLetterError(
            f"{self._topic} does not even take chunks of {MIN_CHUNK_BYTES} bytes with a key and "
            f"headers of {_size(received.key, headers)}: raise the topic's max.message.bytes"
        )

    async def _send(
        self, received: Received, partition: int, value: bytes | None, headers: Headers
    ) -> None:
        """Send a record in a batch of its own.

        aiokafka's `send` has its own size limit, refuses records without key and value, and may
        replace a timestamp of -1 by the next record's.
        """
        assert self._producer is not None
        batch = self._producer.create_batch()
        batch.append(
            key=received.key, value=value, timestamp=received.timestamp, headers=list(headers)
        )
        batch.close()
        await (await self._producer.send_batch(batch, self._topic, partition=partition))

    async def _partition(self, key: bytes | None) -> int:
        assert self._producer is not None
        partitions = sorted(await self._producer.partitions_for(self._topic))
        return random.choice(partitions) if key is None else partition_for(key, len(partitions))

    @staticmethod
    def gave_up(received: Received, error: BaseException | str) -> GaveUpError:
        """Return the error that ends the consumer; the event's offset stays uncommitted."""
        text = f"{received!r} failed {received.attempt} times: {error}"
        give_up = GaveUpError(text)
        if isinstance(error, BaseException):
            give_up.__cause__ = error
        return give_up


def _chunks(value: bytes, piece: int) -> Iterator[tuple[bytes, list[tuple[str, bytes | None]]]]:
    parts, set_id, digest = cut(value, piece), uuid4().hex.encode(), sha256(value).digest()
    for number, part in enumerate(parts):
        yield part, headers_of(Head(set_id, number, len(parts), len(value), digest))


def _size(key: bytes | None, headers: Headers) -> int:
    return len(key or b"") + sum(len(name) + len(value or b"") for name, value in headers)
