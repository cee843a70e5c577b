"""A record batch of copied records, with the interface of aiokafka's own `BatchBuilder`.

aiokafka's compiled encoder is five times as fast as its encoder in Python, but it cannot copy every
record:

- It takes the timestamp -1, which means that a record has none, for a missing argument, and gives
  such records the next timestamp.
- It refuses header names that are not UTF-8.
- It compresses batches that only grow by compression, so that a record that the source has taken
  may be too large for the target.

So the encoder in Python encodes the batches with such records, and the compiled one all others. The
opener of the producer chooses the size of a batch (`mirror.writer`, `replay.registry`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, KafkaError, ProducerFenced

from headgate.kafka import aiokafka_internals
from headgate.kafka.aiokafka_internals import (
    AIOKafkaConnection,
    CompiledEncoder,
    PythonEncoder,
    RawName,
    batch_settings,
    drop_producer,
    sender_error,
    share_connections,
)
from headgate.replays.packed import NO_TIMESTAMP, earliest
from headgate.replays.segments import Segment, merge
from headgate_spark.copying.cluster import CLIENT_ID
from headgate_spark.job.options import Connection

# ---- chunks: records of a partition as they were read, and the segments that they become
#
# One transaction copies one chunk. It is written as one or more of Kafka's record batches.


class SourceRecord(Protocol):
    """A record as aiokafka's consumer returns it. `timestamp`: ms since 1970, or -1."""

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]: ...


class Chunk(NamedTuple):
    """Records in the order of the source, which was read up to `end`, exclusive."""

    records: Sequence[SourceRecord]
    end: int


class Written(NamedTuple):
    """A batch on the target.

    Attributes:
        first, behind: The range of the chunk's records.
        base: The offset of the first one.
    """

    first: int
    behind: int
    base: int

    @property
    def end(self) -> int:
        """Return the offset behind its last record."""
        return self.base + self.behind - self.first


def segments_of(chunk: Chunk, batches: Sequence[Written]) -> list[Segment]:
    """Return the segments of a chunk that was written as these batches."""
    segments = merge(_segments(chunk.records, batches))
    if segments:
        segments[-1] = segments[-1]._replace(end=chunk.end)
    return segments


def _segments(records: Sequence[SourceRecord], batches: Sequence[Written]) -> Iterator[Segment]:
    for batch in batches:
        for first, behind in _runs(records, batch.first, batch.behind):
            run = records[first:behind]
            times = [record.timestamp for record in run]
            following = records[behind].offset if behind < len(records) else run[-1].offset + 1
            yield Segment(
                run[0].offset,
                batch.base + first - batch.first,
                behind - first,
                following,
                earliest(times),
                max(times),
            )


def _runs(records: Sequence[SourceRecord], first: int, behind: int) -> Iterator[tuple[int, int]]:
    """Return the stretches in which the source's offsets advance by one."""
    # Most chunks are one run, which their first and last offsets show.
    while first < behind:
        end = behind
        if records[end - 1].offset - records[first].offset != end - 1 - first:
            end = first + 1
            while records[end].offset == records[end - 1].offset + 1:
                end += 1
        yield first, end
        first = end


# ---- a record batch of copied records


_MAGIC = 2
_PLAIN = 0

Header = tuple[str, bytes | None]


class _StrangeNameError(Exception):
    """The compiled encoder refused a header's name. `taken`: the number of records that it has."""

    def __init__(self, taken: int) -> None:
        super().__init__(taken)
        self.taken = taken


class Batch:
    """A batch.

    Attributes:
        codec: Number of the compression codec in the protocol.
        max_bytes: Limit of several records together, uncompressed; the first one fits whatever
            its size.
    """

    def __init__(self, codec: int, max_bytes: int) -> None:
        self._codec, self._max_bytes = codec, max_bytes
        self._records: Sequence[SourceRecord] = ()
        self._added: Sequence[Header] = ()
        self._first = self._count = 0
        self._encoder: Any = None
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    @classmethod
    def of(cls, producer: AIOKafkaProducer) -> "Batch":
        """Return an empty batch for this producer."""
        return cls(*batch_settings(producer))

    def fill(
        self, records: Sequence[SourceRecord], first: int = 0, added: Sequence[Header] = ()
    ) -> int:
        """Take records from `first` on, with these headers behind their own.

        Returns the index behind the last record taken; another batch must take the rest.
        """
        self._records, self._first, self._added = records, first, added
        is_odd = first < len(records) and records[first].timestamp == NO_TIMESTAMP
        self._encoder = (self._encoder_in_python if is_odd else self._compiled_encoder)(self._codec)
        try:
            self._count = self._append_all()
        except _StrangeNameError as error:
            self._count = error.taken
            if not self._count:
                self._encoder = self._encoder_in_python(self._codec)
                self._count = self._append_all()
        return first + self._count

    def close(self) -> None:
        """Close the batch: it takes no more records."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def record_count(self) -> int:
        return self._count

    def size(self) -> int:
        return len(self._buffer) if self._buffer is not None else int(self._encoder.size())

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            uncompressed = self._encoder.size()
            self._buffer = self._built(self._encoder)
            if len(self._buffer) > uncompressed:
                self._buffer = self._built(self._encoded_again())
        return self._buffer

    def _built(self, encoder: Any) -> bytearray:
        encoder.set_producer_state(*self._producer)
        built: bytearray = encoder.build()
        return built

    def _encoded_again(self) -> Any:
        self._encoder = self._compiled_encoder(_PLAIN)
        self._append_all(self._count)
        return self._encoder

    def _append_all(self, limit: int | None = None) -> int:
        """Append records and return the number that the encoder has taken."""
        append, added, number = self._encoder.append, self._added, 0
        end = None if limit is None else self._first + limit
        is_raw = type(self._encoder) is PythonEncoder
        # This loop runs once per copied record: one more call or allocation in it is measurable.
        for record in islice(self._records, self._first, end):
            headers = [*record.headers, *added]  # the compiled encoder takes no tuple
            if is_raw:
                headers = [(RawName(name), value) for name, value in headers]
            try:
                if append(number, record.timestamp, record.key, record.value, headers) is None:
                    break
            except UnicodeEncodeError as error:
                raise _StrangeNameError(number) from error
            number += 1
        return number

    def _compiled_encoder(self, codec: int) -> Any:
        return CompiledEncoder(_MAGIC, codec, 1, -1, -1, 0, self._max_bytes)

    def _encoder_in_python(self, codec: int) -> Any:
        return PythonEncoder(_MAGIC, codec, True, -1, -1, 0, self._max_bytes)


# ---- transactional producers, each of which writes to one partition in order
#
# A sender that was fenced ends, and later calls fail with an assertion of aiokafka's, so the sender
# is asked for its error. Producers may share connections: producer id and epoch are in each
# request, so fencing a producer has nothing to do with the connection that it writes to.


# The size of one batch with several records, below Kafka's default of max.message.bytes, 1,048,588.
# A mirror's producer has one limit for the batches of its topic and of the map topic: this one, or
# the topic's max.message.bytes if that is smaller.
MAX_BATCH_BYTES = 1_048_576
TRANSACTION_TIMEOUT_MS = 30_000  # the broker aborts what its owner does not end
STEP_TIMEOUT_S = 25.0  # an ordinary leader loss takes 4-11 s; less than the above
START_TIMEOUT_S = 60.0  # InitProducerId waits for the markers of what it ends

_FENCED = (ProducerFenced, InvalidProducerEpoch)


class Connections:
    """Connections to one cluster that several producers share.

    There are two to each broker, one of them for requests to coordinators.
    """

    def __init__(self) -> None:
        self._open: dict[Any, AIOKafkaConnection] = {}
        self._opening = asyncio.Lock()

    def use_in(self, producer: AIOKafkaProducer) -> None:
        """Make a producer that has not been started use the connections."""
        share_connections(producer.client, self._open, self._opening)

    async def drop(self, producer: AIOKafkaProducer) -> None:
        """End a producer that uses the connections, at once.

        Its sent requests may still be carried out, as with a connection of its own; a later start
        with its id fences it.
        """
        share_connections(producer.client, {}, self._opening)
        await drop_producer(producer)

    def close(self) -> None:
        """Close all connections. Their users must have been dropped before."""
        for connection in self._open.values():
            connection.close()
        self._open.clear()


def open_producer(
    connection: Connection, transactional_id: str, max_batch_bytes: int
) -> AIOKafkaProducer:
    """Open a producer whose start fences every older one with this id.

    Args:
        max_batch_bytes: Limit of a batch with several records, on any topic that it writes.
    """
    codec = connection.compression
    return aiokafka_internals.open_producer(
        connection,
        client_id=CLIENT_ID,
        transactional_id=transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        acks="all",
        max_batch_size=max_batch_bytes,
        compression_type=None if codec == "none" else codec,
        linger_ms=0,
    )


async def send_records(
    producer: AIOKafkaProducer,
    topic: str,
    partition: int,
    records: Sequence[SourceRecord],
    headers: Sequence[Header] = (),
) -> list[Written]:
    """Append records unchanged, with these headers behind their own. Raises aiokafka's errors."""
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
    """Hand a batch over and return the future of its offset. Raises aiokafka's errors."""
    sent: asyncio.Future[Any] = await producer.send_batch(builder, topic, partition=partition)
    # An earlier step may fail first; then this one is not awaited.
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())
    return sent


async def offset_of(sent: asyncio.Future[Any]) -> int:
    """Return the first offset of a batch once it is acknowledged. Raises aiokafka's errors."""
    offset: int = (await sent).offset
    if offset < 0:
        raise KafkaError("Kafka acknowledged a batch without its offset")
    return offset


def is_fenced(producer: AIOKafkaProducer, error: BaseException) -> bool:
    """Return whether a later producer with the same transactional id has taken over."""
    return isinstance(error, _FENCED) or isinstance(sender_error(producer), _FENCED)
