"""An idempotent producer that all lanes of a cluster share, and its batches."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiokafka import codec
from aiokafka.errors import NoBrokersAvailable
from aiokafka.structs import RecordMetadata, TopicPartition

from headgate.kafka.aiokafka_internals import (
    AddressedBatch,
    LaneAccess,
    MessageBatch,
    drop_producer,
    open_producer,
    replace_zstd,
)
from headgate.kafka.options import ClusterOptions
from headgate.kafka.produce_request import NOT_NOW, learn_error_codes, request_by_id
from headgate.model.publish import Record
from headgate.model.record import BATCH_OVERHEAD
from headgate.native.chosen import Records, seal, with_body

# ---- replacement of aiokafka's `BatchBuilder` for a lane's batch
#
# aiokafka's builder takes a record through three Python calls by keyword and encodes it piece by
# piece. This one takes a record in one call, and leaves a batch unchanged if a record does not fit.


class Builder:
    """Builder of a batch.

    Args:
        compression: The codec's number in the protocol.
        max_bytes: The limit of the uncompressed batch.
    """

    __slots__ = ("_buffer", "_compression", "_is_closed", "_producer", "_records")

    def __init__(self, compression: int, max_bytes: int) -> None:
        self._compression = compression
        self._records = Records(max_bytes)
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    def append(self, record: Record) -> bool:
        """Add a record; return False if the builder is full. A first record of any size fits.

        Raises:
            TypeError, ValueError, AttributeError: The record cannot be encoded.
        """
        return self._records.append(record.timestamp_ms, record.key, record.value, record.headers)

    def close(self) -> None:
        """Take no more records."""
        self._is_closed = True

    def closed(self) -> bool:
        return self._is_closed

    def record_count(self) -> int:
        return self._records.count

    def size(self) -> int:
        return len(self._buffer) if self._buffer is not None else self._records.size

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            batch = compressed(self._records.take(), self._compression)
            seal(batch, *self._producer)
            self._buffer = batch
        return self._buffer


# ---- one zstd compressor for all batches of a process
#
# aiokafka creates a new one for each batch (through cramjam). This costs 17 us, as much as
# compressing five events of 648 bytes. With a shared compressor, five such records cost 12 us
# instead of 30, and a batch of 130 costs 170 instead of 200 (loadtest/README.md). The frames and
# the level are the same.


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # the default of cramjam and of Kafka's own producer


def keep_zstd() -> None:
    """Make aiokafka's record builder and `compressed` use a shared compressor."""
    replace_zstd(_zstd_encode)


_COMPRESSOR: Final = zstd.ZstdCompressor(level=_LEVEL)
_ZSTD: Final = 4


def _zstd_encode(data: Any) -> bytes:  # any buffer; a compiled function checks its types
    frame: bytes = _COMPRESSOR.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
    return frame


def compressed(batch: bytearray, codec_number: int) -> bytearray:
    """Compress the records of a batch, even if they become larger.

    Args:
        batch: Batch with uncompressed records.
        codec_number: The codec's number in the protocol; 0 for none.
    """
    if codec_number == 0:
        return batch
    records = memoryview(batch)[BATCH_OVERHEAD:]
    if codec_number == _ZSTD:
        return with_body(batch, codec_number, _zstd_encode(records))
    encode = (codec.gzip_encode, codec.snappy_encode, codec.lz4_encode)[codec_number - 1]
    return with_body(batch, codec_number, encode(bytes(records)))


# ---- a batch of one large record, compressed in a thread instead of on the event loop
#
# aiokafka compresses a batch on the loop: 16 MB take 50 ms. Here everything except the header is
# made in advance, so the exact size is known before the hand-over. Only the producer's state (id,
# epoch, sequence) is written later. The format is Kafka's
# record batch, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).


class SingleRecordBatch:
    """A batch with one record; `size` is the bytes of the whole batch, as the broker measures it.

    The constructor compresses, without the interpreter's lock; do not call it on the event loop.
    """

    __slots__ = ("_batch", "size")

    def __init__(self, record: Record) -> None:
        records = Records(0)  # a first record of any size fits
        records.append(record.timestamp_ms, record.key, record.value, record.headers)
        plain = records.take()
        body = zstd.compress(memoryview(plain)[BATCH_OVERHEAD:], level=_LEVEL)
        self._batch = with_body(plain, _ZSTD, body)
        self.size = len(self._batch)

    def builder(self) -> "SingleRecordBuilder":
        """Return a new batch builder for the producer; each hand-over needs its own."""
        return SingleRecordBuilder(self._batch)


class SingleRecordBuilder:
    """Replacement of aiokafka's `BatchBuilder`, with the methods that the sender uses."""

    def __init__(self, batch: bytearray) -> None:
        self._batch = batch
        self._producer = (-1, -1, -1)
        self._buffer: bytearray | None = None

    def close(self) -> None:
        """No-op: the builder is closed from the start."""

    def closed(self) -> bool:
        return True

    def record_count(self) -> int:
        return 1

    def size(self) -> int:
        return len(self._batch)

    def _set_producer_state(self, producer_id: int, epoch: int, base_sequence: int) -> None:
        self._producer = (producer_id, epoch, base_sequence)

    def _build(self) -> bytearray:
        if self._buffer is None:
            self._buffer = bytearray(self._batch)
            seal(self._buffer, *self._producer)
        return self._buffer


# ---- times of hand-overs: many lanes at once, because every request to a broker costs the same
#
# aiokafka sends one request at a time to each broker. A batch that is handed over meanwhile only
# waits in aiokafka and takes no more records. A lane that waits here fills its batch at the last
# moment, and the next request carries the batches of all lanes. Brokers are independent of each
# other.


# After a request with this many records, new records have to wait for their turn anyway. A longer
# gathering makes fewer and larger batches and saves a tenth of the CPU time of an event.
MANY_RECORDS: Final = 100
LONGER: Final = 4
# With at most this many records and lanes there is one client, which gathering would only delay.
FEW: Final = 1


class Round:
    """The lanes for a broker's next request, gathered from the end of the last request on.

    Each lane has its own future, so that the end of one lane does not affect the others.
    """

    __slots__ = ("_sleepers", "_timer", "hurry", "is_quiet")

    def __init__(self) -> None:
        self.is_quiet = True  # there is little traffic: the first lane goes at once
        self.hurry = False  # a lane has a full batch: gather no longer than necessary
        self._sleepers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gathering(self) -> bool:
        """Return whether the time of its end is set."""
        return self._timer is not None

    @property
    def waiting(self) -> int:
        """Return the number of lanes that have joined."""
        return len(self._sleepers)

    def gather(self, seconds: float) -> None:
        """Set its end to this many seconds from now."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._gathered)

    def _gathered(self) -> None:
        self.is_quiet = not self._sleepers
        self.go()

    def stop(self) -> None:
        """Cancel the time of its end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self) -> asyncio.Future[None]:
        """Join, and return a future for the end of the round."""
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        return sleeper

    def go(self) -> None:
        """Wake all lanes that have joined; they run before callbacks that are scheduled later."""
        self.stop()
        self.hurry = False
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():  # cancelled with its lane
                sleeper.set_result(None)


class Rounds:
    """The rounds of all brokers of one producer.

    A round gathers for `linger_s` from the end of the previous request, and LONGER times as long if
    that request had MANY_RECORDS. With little traffic it does not gather: the first lane goes at
    once, and those that come during its request go together (Nagle's rule, RFC 896).

    Args:
        linger_s: The time of gathering, in seconds; 0 for none.
        busy: Ids of the brokers with a request under way, updated by aiokafka's sender.
        is_pressed: Returns whether one producer floods while there are others. The others must not
            wait longer for the savings on its many records.
    """

    def __init__(
        self, linger_s: float, busy: set[int], is_pressed: Callable[[], bool] = lambda: False
    ) -> None:
        self._linger_s = linger_s
        self._busy = busy
        self._is_pressed = is_pressed
        self._rounds: dict[int, Round] = {}

    def turn(self, node: int, was_empty: bool, is_full: bool) -> asyncio.Future[None] | None:
        """Return a future to wait for before the hand-over, or None to hand over now.

        Call it again after the wait, because leaders and producers change.

        Args:
            node: The leader of the partition.
            was_empty: Whether the lane was empty.
            is_full: Whether no more records fit into its batch.
        """
        pending = self._rounds.get(node)
        if pending is None:
            pending = self._rounds[node] = Round()
        if node in self._busy:
            pending.hurry = pending.hurry or is_full
            return pending.join()
        if is_full:
            if pending.is_gathering:
                pending.go()  # the other lanes go, too
            return None
        if was_empty and self._linger_s > 0 and not (pending.is_quiet or pending.is_gathering):
            pending.gather(self._linger_s)
        return pending.join() if pending.is_gathering else None

    def ended(self, node: int, records: int) -> None:
        """Begin the next round after a request to this broker.

        Args:
            node: The broker.
            records: The number of records in the request.
        """
        pending = self._rounds.get(node)
        if pending is None:
            return
        pending.is_quiet = records <= FEW and pending.waiting <= FEW
        if self._linger_s > 0 and not (pending.hurry or pending.is_quiet):
            is_longer = records >= MANY_RECORDS and not self._is_pressed()
            pending.gather(self._linger_s * (LONGER if is_longer else 1))
        else:
            pending.go()

    def go(self) -> None:
        """Wake all lanes, because leaders may have moved or no request will ever end."""
        for pending in self._rounds.values():
            pending.go()


START_TIMEOUT_S = 10.0
_LEARN_S = 1.0
_MAX_EPOCH = 32_000  # an int16 in the protocol
_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "UnknownProducerId")


class Handed(NamedTuple):
    """A batch that is with a producer.

    Attributes:
        producer: The producer.
        future: The result.
        batch: The batch inside of aiokafka.
        base_sequence: The sequence number of its first record.
    """

    producer: "Producer"
    future: asyncio.Future[RecordMetadata]
    batch: MessageBatch
    base_sequence: int

    @property
    def attempts(self) -> int:
        """Return the number of times the batch was sent; 0 means nothing was sent."""
        return int(self.batch.retry_count)

    @property
    def is_waiting(self) -> bool:
        """Return whether the sender has the batch and no request carries it now."""
        return self.producer.access.is_waiting(self.batch)

    def rewind(self) -> None:
        """Restore the sequence numbers of a batch that was refused at its only attempt.

        This is exact, because the lane has no other outstanding batch.
        """
        self.producer.access.rewind(self.batch.tp, self.base_sequence)

    def take_back(self) -> None:
        """Remove a waiting batch that was never sent."""
        self.producer.access.take_back(self.batch)


class Producer:
    """One connected producer, from `start` to `drop`. `broken` is set once with the reason."""

    def __init__(
        self, options: ClusterOptions, max_batch_bytes: int, is_pressed: Callable[[], bool]
    ) -> None:
        learn_error_codes()
        keep_zstd()
        self._inner = open_producer(
            options,
            enable_idempotence=True,
            acks="all",
            max_batch_size=max_batch_bytes,
            compression_type=None if options.compression == "none" else options.compression,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=0,
        )
        self.access = LaneAccess(self._inner, self._request_for, NOT_NOW, self._request_ended)
        self._request_timeout_ms = options.request_timeout_ms
        self._rounds = Rounds(options.linger_ms / 1000, self.access.busy, is_pressed)
        self._topics: set[str] = set()
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._cluster = self._inner.client.cluster
        self._cluster.add_listener(self._metadata_changed)

    async def start(self, before: "Producer | None" = None) -> None:
        """Connect, as the successor of `before`. Raises KafkaError, OSError or TimeoutError."""
        if before is not None and not (before.broken.done() and before.broken.result() in _FENCED):
            self.access.follow(before.access, _MAX_EPOCH)
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._inner.start()
        if (
            not self._cluster.brokers()
        ):  # with the producer id of `before` it starts without a broker
            raise NoBrokersAvailable("the cluster names no broker")
        self.access.on_task_end(self._died)

    def knows(self, tp: TopicPartition) -> bool:
        """Return whether the client's metadata has the partition, as `send` requires."""
        return self._cluster.leader_for_partition(tp) is not None

    def turn(
        self, tp: TopicPartition, was_empty: bool, is_full: bool
    ) -> asyncio.Future[None] | None:
        """Return a future to wait for before `send`, or None (see `Rounds.turn`).

        A lane does not wait for a partition without a leader, because aiokafka looks for the leader
        only if it has a batch.
        """
        leader: int = self._cluster.leader_for_partition(tp)
        return self._rounds.turn(leader, was_empty, is_full) if leader >= 0 else None

    def create_batch(self) -> Builder:
        """Return a new batch for `send`."""
        return Builder(self.access.codec, self.access.batch_bytes)

    async def learn(self, topic: str) -> None:
        """Request a topic's metadata once; give up soon, because the producer may be dropped."""
        client = self._inner.client
        self._topics.add(topic)
        client.add_topic(topic)
        await asyncio.wait([client.force_metadata_update()], timeout=_LEARN_S)

    def forget(self, topic: str) -> None:
        """Stop requesting a deleted topic's metadata."""
        self._topics.discard(topic)
        self._inner.client.set_topics(self._topics)

    def send(self, builder: Any, tp: TopicPartition, topic_id: bytes) -> Handed:
        """Hand over a batch for a partition that it `knows` and that has no other batch.

        Args:
            builder: The batch.
            tp: The partition.
            topic_id: Kafka's id of the topic; no other topic of this name gets the batch.

        Raises:
            KafkaError: The sender has died.
        """
        batch, sequence = self.access.append(builder, tp, topic_id)
        return Handed(self, batch.future, batch, sequence)

    def fail(self, reason: str) -> None:
        """Request a successor."""
        if not self.broken.done():
            self.broken.set_result(reason)

    async def drop(self) -> None:
        """Shut down the producer at once; data that was not sent yet is never sent."""
        self._rounds.go()
        await drop_producer(self._inner, self.access.requests)

    def _request_for(self, by_name: Any, batches: list[AddressedBatch]) -> Any:
        return request_by_id(by_name, batches, self._request_timeout_ms)

    def _request_ended(self, node: int, records: int) -> None:
        self._rounds.ended(node, records)

    def _metadata_changed(self, _: object) -> None:
        self._rounds.go()

    def _died(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.fail(type(error).__name__ if error is not None else "sender_ended")
