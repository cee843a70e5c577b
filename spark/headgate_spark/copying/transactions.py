"""The transactional producers that write copied records, each to one partition in order.

Private parts of aiokafka 0.14: a sender that was fenced ends, and whoever calls then meets an
assertion of aiokafka's, so the sender is asked what ended it. And a client's connections, which
producers may share: producer id and epoch are in each request, so what fences a producer has
nothing to do with the connection that it writes to.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from headgate.kafka.aiokafka_internals import drop_producer, use_own_metadata
from headgate_spark.copying.batch import Batch, Header
from headgate_spark.copying.chunks import SourceRecord, Written
from headgate_spark.job.connections import Connection
from headgate_spark.kafka.kafka_clients import job_arguments

TRANSACTION_TIMEOUT_MS = 30_000  # the broker aborts what its owner does not end
STEP_TIMEOUT_S = 25.0  # an ordinary leader loss takes 4-11 s; less than the above
START_TIMEOUT_S = 60.0  # InitProducerId waits for the markers of what it ends

_FENCED = (ProducerFenced, InvalidProducerEpoch)


class Connections:
    """Connections to one cluster that several producers use: two to each broker, one of them for
    what coordinators are asked."""

    def __init__(self) -> None:
        self._open: dict[Any, AIOKafkaConnection] = {}
        self._opening = asyncio.Lock()

    def use_in(self, producer: AIOKafkaProducer) -> None:
        """Have a producer that has not been started use them."""
        client = producer.client
        client._conns, client._get_conn_lock_value = self._open, self._opening

    async def drop(self, producer: AIOKafkaProducer) -> None:
        """End a producer that uses them at once. What it has sent may still be done, as with a
        connection of its own; who starts with its id later fences it."""
        producer.client._conns = {}
        await drop_producer(producer)

    def close(self) -> None:
        """Close all. Whoever uses them must have been dropped."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()


def open_producer(
    connection: Connection, transactional_id: str, max_batch_bytes: int
) -> AIOKafkaProducer:
    """A producer whose start fences every older one of this id. max_batch_bytes: of several
    records."""
    codec = connection.compression
    producer = AIOKafkaProducer(
        **job_arguments(connection),
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        acks="all",
        max_batch_size=max_batch_bytes,
        compression_type=None if codec == "none" else codec,
        linger_ms=0,
    )
    use_own_metadata(producer.client)
    return producer


async def send_records(
    producer: AIOKafkaProducer,
    topic: str,
    partition: int,
    records: Sequence[SourceRecord],
    headers: Sequence[Header] = (),
) -> list[Written]:
    """Append records as they are, with these headers behind their own. Raises what aiokafka
    raises."""
    waiting: list[tuple[int, int, asyncio.Future[Any]]] = []
    first = 0
    while first < len(records):
        batch = Batch.of(producer)
        behind = batch.fill(records, first, headers)
        if behind == first:  # an empty batch takes its first record whatever its size
            raise KafkaError("a record does not fit into any batch")
        waiting.append((first, behind, await send(producer, batch, topic, partition)))
        first = behind
    return [Written(first, behind, await offset_of(sent)) for first, behind, sent in waiting]


async def send(
    producer: AIOKafkaProducer, builder: Any, topic: str, partition: int
) -> asyncio.Future[Any]:
    """Hand a batch over; the future tells its place. Raises what aiokafka raises."""
    sent: asyncio.Future[Any] = await producer.send_batch(builder, topic, partition=partition)
    # A step before may fail first; then nobody asks this one.
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())
    return sent


async def offset_of(sent: asyncio.Future[Any]) -> int:
    """Where a batch begins, once it is acknowledged. Raises what aiokafka raises."""
    offset: int = (await sent).offset
    if offset < 0:
        raise KafkaError("Kafka acknowledged a batch without its offset")
    return offset


def is_fenced(producer: AIOKafkaProducer, error: BaseException) -> bool:
    """Whether a later producer with the same transactional id has taken over."""
    sender = producer._sender.sender_task
    is_over = sender is not None and sender.done() and not sender.cancelled()
    return isinstance(error, _FENCED) or (is_over and isinstance(sender.exception(), _FENCED))
