"""An idempotent aiokafka producer as lanes need it; the only file that touches its inside.

Public: `start`. Private, and why (aiokafka is pinned to 0.14):
- `_txn_manager._sequence_numbers`: a refused batch consumes its sequence numbers and nothing ever
  gives them back (aio-libs/aiokafka #1017); `rewind` does.
- `_txn_manager._pid_and_epoch`: the successor keeps the producer id and raises the epoch, as
  Java's producer does (KIP-360). Brokers then refuse what may still be on its way from before.
- `_sender`, `client._sync_task`: a dead one leaves a producer that accepts and never sends (#1039).
- `_message_accumulator`: how often a batch was attempted, and that it never expires by itself.
  `_append_batch` is what `send_batch` ends in; before it come checks that the lane has made, and
  after it a shield around a future that nobody here ever cancels. Without that shield a lane also
  hears of its batch before the sender looks for the next request's batches, not after.
- `_sender._in_flight`: the brokers that have a request under way.
- `SendProduceReqHandler`: it tries again what a broker refused for one topic, and the other topics
  of the broker wait meanwhile; and it names topics by name alone. See `produce_request`.
"""

import asyncio
import copy
import sys
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiokafka import AIOKafkaProducer
from aiokafka.errors import NoBrokersAvailable, ProducerClosed
from aiokafka.producer.message_accumulator import MessageBatch
from aiokafka.producer.transaction_manager import PidAndEpoch
from aiokafka.record import default_records
from aiokafka.structs import RecordMetadata, TopicPartition

from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.produce_request import (
    BatchSender,
    address,
    learn_error_codes,
)
from headgate.core.record import Record
from headgate.kafka.access import client_arguments
from headgate.kafka.aiokafka_internals import drop_client, use_own_metadata
from headgate.native.chosen import Records, seal
from headgate.native.records import compressed

# A lane's batch under construction: what aiokafka's sender asks of its own `BatchBuilder`.
#
# aiokafka's takes a record through three Python calls by keyword and encodes it piece by piece;
# this one is told a whole record at once, and leaves a batch as it was when a record does not fit.


class Builder:
    """compression: a codec's number in the protocol.  max_bytes: of the batch, uncompressed."""

    __slots__ = ("_buffer", "_compression", "_is_closed", "_producer", "_records")

    def __init__(self, compression: int, max_bytes: int) -> None:
        self._compression = compression
        self._records = Records(max_bytes)
        self._producer = (-1, -1, 0)
        self._is_closed = False
        self._buffer: bytearray | None = None

    def append(self, record: Record) -> bool:
        """Add a record; False: it is full. The first one fits, whatever its size.

        Raises TypeError, ValueError or AttributeError where a record cannot be encoded.
        """
        return self._records.append(record.timestamp_ms, record.key, record.value, record.headers)

    def close(self) -> None:
        """Takes no more."""
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


# One zstd compressor for all batches of a process.
#
# aiokafka makes a new one for each batch (through cramjam), and its setting up costs 17 us: as much
# as compressing five events of 648 bytes. Kept, five such records cost 12 us instead of 30, a batch
# of 130 costs 170 instead of 200 (loadtest/README.md). The frames are the same, at the same level.


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # what cramjam and Kafka's own producer take when none is given


def keep_zstd() -> None:
    """Teach aiokafka's record builder to compress with the compressor that is kept.

    The compiled builder looks the function up in its own module at each batch.
    """
    compressor = zstd.ZstdCompressor(level=_LEVEL)

    def encode(data: bytes) -> bytes:
        return compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)

    module = sys.modules[default_records.DefaultRecordBatchBuilder.__module__]
    module.zstd_encode = encode  # type: ignore[attr-defined]


# When lanes hand over: many at a time, because every request to a broker costs the same.
#
# aiokafka sends one request at a time to each broker. A batch that is handed over meanwhile only
# waits inside, and takes no more records; a lane that waits here fills its batch at the last
# moment, and the next request carries the batches of all lanes. Brokers are independent of each
# other.


# Behind a request that carried so many records, what arrives has to wait for its turn anyway.
# Gathering longer makes fewer and larger batches: a tenth off the processor time of an event.
MANY_RECORDS: Final = 100
LONGER: Final = 4
# So few records, and so few lanes behind them, are one client's: gathering only makes it wait.
FEW: Final = 1


class Round:
    """What one broker's next request will carry: it gathers from the end of the last request on.

    Whoever joins has a future of its own: ending one lane must leave the others alone.
    """

    __slots__ = ("_sleepers", "_timer", "hurry", "is_quiet")

    def __init__(self) -> None:
        self.is_quiet = True  # there is little traffic: who comes first goes at once
        self.hurry = False  # somebody in it has a full batch: it gathers no longer than it must
        self._sleepers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gathering(self) -> bool:
        """Tell whether a time is set at which it goes."""
        return self._timer is not None

    @property
    def waiting(self) -> int:
        """How many have joined."""
        return len(self._sleepers)

    def gather(self, seconds: float) -> None:
        """Go after so many seconds."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._gathered)

    def _gathered(self) -> None:
        self.is_quiet = not self._sleepers
        self.go()

    def stop(self) -> None:
        """Forget when to go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self) -> asyncio.Future[None]:
        """Return what ends when it goes."""
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        return sleeper

    def go(self) -> None:
        """Wake all that have joined; they run before whatever is scheduled later."""
        self.stop()
        self.hurry = False
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():  # cancelled with its lane
                sleeper.set_result(None)


class Rounds:
    """The rounds of all brokers of one producer.

    linger_s: for how long a round gathers, from the end of the request before it. 0: not at all.
    LONGER times as long where that request carried MANY_RECORDS; not at all while there is little
    traffic: then the first goes at once, and what comes during its request goes together (Nagle's
    rule, RFC 896).
    busy: ids of the brokers with a request under way; aiokafka's sender keeps it.
    is_pressed: whether one producer floods while others are there, who must not wait longer for
    what its many records save.
    """

    def __init__(
        self, linger_s: float, busy: set[int], is_pressed: Callable[[], bool] = lambda: False
    ) -> None:
        self._linger_s = linger_s
        self._busy = busy
        self._is_pressed = is_pressed
        self._rounds: dict[int, Round] = {}

    def turn(self, node: int, is_first: bool, is_full: bool) -> asyncio.Future[None] | None:
        """Return what to wait for before handing over, or None to do it now.

        is_first: the lane was empty.  is_full: more records would not fit into its batch anyway.
        After the wait look again: leaders and producers change.
        """
        pending = self._rounds.get(node)
        if pending is None:
            pending = self._rounds[node] = Round()
        if node in self._busy:
            pending.hurry = pending.hurry or is_full
            return pending.join()
        if is_full:
            if pending.is_gathering:
                pending.go()  # the others come along
            return None
        if is_first and self._linger_s > 0 and not (pending.is_quiet or pending.is_gathering):
            pending.gather(self._linger_s)
        return pending.join() if pending.is_gathering else None

    def ended(self, node: int, records: int) -> None:
        """The request to this broker has ended. records: how many it carried."""
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
        """Leaders may have moved, or no request will ever end: all look again."""
        for pending in self._rounds.values():
            pending.go()


START_TIMEOUT_S = 10.0
_LEARN_S = 1.0
_MAX_EPOCH = 32_000  # an int16 in the protocol
_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "UnknownProducerId")


class Handed(NamedTuple):
    """A batch that is with the producer. base_sequence: what `rewind` goes back to."""

    future: asyncio.Future[RecordMetadata]
    inside: MessageBatch
    base_sequence: int

    @property
    def attempts(self) -> int:
        """How often the batch was given to a connection; 0 = not one byte has left."""
        return int(self.inside.retry_count)


class Producer:
    """One connected producer, from `start` to `drop`. `broken` is set once with the reason."""

    def __init__(
        self, options: ClusterOptions, max_batch_bytes: int, is_pressed: Callable[[], bool]
    ) -> None:
        learn_error_codes()
        keep_zstd()
        self._inner = AIOKafkaProducer(
            **client_arguments(options),
            enable_idempotence=True,
            acks="all",
            max_batch_size=max_batch_bytes,
            compression_type=None if options.compression == "none" else options.compression,
            request_timeout_ms=options.request_timeout_ms,
            linger_ms=0,
        )
        # A batch without a leader would expire after request_timeout_ms and poison its partition.
        # The lane's own deadline ends it instead.
        self._accumulator = self._inner._message_accumulator
        self._accumulator._batch_ttl = float("inf")
        use_own_metadata(self._inner.client)
        self._requests: set[asyncio.Task[None]] = set()
        busy = self._inner._sender._in_flight
        self._rounds = Rounds(options.linger_ms / 1000, busy, is_pressed)
        self._own_requests()
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._cluster = self._inner.client.cluster
        self._cluster.add_listener(self._metadata_changed)

    async def start(self, before: "Producer | None" = None) -> None:
        """Connect, as the successor of `before`. Raises KafkaError, OSError or TimeoutError."""
        if before is not None:
            self._follow(before)
        async with asyncio.timeout(START_TIMEOUT_S):
            await self._inner.start()
        if not self._cluster.brokers():  # with the producer id of `before` it needs none to start
            raise NoBrokersAvailable("the cluster names no broker")
        self._inner._sender.sender_task.add_done_callback(self._died)
        self._inner.client._sync_task.add_done_callback(self._died)

    def knows(self, tp: TopicPartition) -> bool:
        """Tell whether the partition is in this client's metadata, which `send` relies on."""
        partitions = self._cluster._partitions.get(tp.topic)
        return partitions is not None and tp.partition in partitions

    def turn(
        self, tp: TopicPartition, is_first: bool, is_full: bool
    ) -> asyncio.Future[None] | None:
        """Return what to wait for before `send`, or None (see `Rounds.turn`).

        Nobody waits for a partition without leader: aiokafka looks for it, and does so only for
        batches that it has.
        """
        leader = self._cluster._partitions[tp.topic][tp.partition].leader
        return self._rounds.turn(leader, is_first, is_full) if leader >= 0 else None

    def create_batch(self) -> Builder:
        """A new batch for `send`."""
        accumulator = self._accumulator
        return Builder(accumulator._compression_type, accumulator._batch_size)

    async def learn(self, topic: str) -> None:
        """Ask for a topic's metadata once; give up after a while, the producer may be dropped."""
        client = self._inner.client
        client.add_topic(topic)
        await asyncio.wait([client.force_metadata_update()], timeout=_LEARN_S)

    def forget(self, topic: str) -> None:
        """Ask for a deleted topic's metadata no more."""
        self._inner.client._topics.discard(topic)

    def send(self, builder: Any, tp: TopicPartition, topic_id: bytes) -> Handed:
        """Hand a batch over, of a partition that it `knows` and that has no other outstanding.

        topic_id: of the topic that the batch is for; no other topic of this name gets it.

        Raises KafkaError when the sender has died.
        """
        accumulator = self._accumulator
        if accumulator._exception is not None:
            raise copy.copy(accumulator._exception)
        if accumulator._closed or self._inner._closed or tp in accumulator._batches:
            raise ProducerClosed
        sequence = self._inner._txn_manager.sequence_number(tp)
        builder.close()
        batch = accumulator._append_batch(builder, tp)
        address(batch, topic_id)
        return Handed(batch.future, batch, sequence)

    def rewind(self, handed: Handed) -> None:
        """Take back the sequence numbers of a batch that was refused at its only attempt.

        Exact because the lane has no other batch outstanding.
        """
        self._inner._txn_manager._sequence_numbers[handed.inside.tp] = handed.base_sequence

    def is_waiting(self, handed: Handed) -> bool:
        """Tell whether the sender has the batch, and no request carries it now."""
        return handed.inside in self._accumulator._batches.get(handed.inside.tp, ())

    def take_back(self, handed: Handed) -> None:
        """Give up a batch that is waiting and was never sent."""
        batches = self._accumulator._batches
        batches[handed.inside.tp].remove(handed.inside)
        if not batches[handed.inside.tp]:
            del batches[handed.inside.tp]

    def fail(self, reason: str) -> None:
        """Ask for a successor."""
        if not self.broken.done():
            self.broken.set_result(reason)

    async def drop(self) -> None:
        """End it for good, at once: nothing that has not left this machine is sent any more."""
        self._inner._closed = True  # what stop() would set; stop() itself can hang
        for request in self._requests:
            request.cancel()
        sender = self._inner._sender.sender_task
        if sender is not None:
            sender.cancel()
        self._rounds.go()
        await drop_client(self._inner.client, sender, *self._requests)

    def _follow(self, before: "Producer") -> None:
        pid, epoch = before._inner._txn_manager._pid_and_epoch
        fenced = before.broken.done() and before.broken.result() in _FENCED
        if pid >= 0 and epoch < _MAX_EPOCH and not fenced:
            self._inner._txn_manager._pid_and_epoch = PidAndEpoch(pid, epoch + 1)

    def _own_requests(self) -> None:
        # The sender keeps its request tasks in a local variable; cancelling it could leave some.
        sender = self._inner._sender

        async def send_owned(node: int, batches: dict[TopicPartition, MessageBatch]) -> None:
            task = asyncio.current_task()
            if task is not None:
                self._requests.add(task)
                task.add_done_callback(self._requests.discard)
            records = sum([batch.record_count for batch in batches.values()])
            try:
                await BatchSender(sender, batches).do(node)
                sender._in_flight.remove(node)
                sender._muted_partitions.difference_update(batches)
            finally:
                self._rounds.ended(node, records)

        sender._send_produce_req = send_owned

    def _metadata_changed(self, _: object) -> None:
        self._rounds.go()

    def _died(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.fail(type(error).__name__ if error is not None else "sender_ended")
