"""Lane of one topic-partition into Kafka: ordered, bounded, with one outstanding batch."""

import asyncio
import logging
import sys
import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata, TopicPartition

from headgate.backends.base import Deliveries
from headgate.kafka.produce_request import Fate, Refusal, classify, refusal
from headgate.kafka.producer import Handed, Producer
from headgate.model.outcome import Failure, Reason
from headgate.model.oversize import Prepared
from headgate.model.publish import Publish, Stage, advance_all
from headgate.model.record import BATCH_OVERHEAD, Record
from headgate.native.chosen import Records, seal, with_body

# ---- A lane's batch, and outcomes without a broker's response


UNKNOWN = Failure(Reason.UNKNOWN, "sent to Kafka without an acknowledgement")
BAD_RECORD = Failure(Reason.INTERNAL, "the record could not be encoded")


class LaneBatch(NamedTuple):
    """Publishes in one builder; `size` is the sum of their sizes in bytes."""

    publishes: list[Publish]
    builder: Any
    size: int

    @classmethod
    def alone(cls, publish: Publish, prepared: Prepared) -> "LaneBatch":
        """Return the batch of a record that is already compressed.

        The size of the record keeps it out of a batch with others, which would compress it again.
        """
        return cls([publish], prepared.builder(), publish.size)


# ---- A batch of one large record, compressed in a thread instead of on the event loop
#
# aiokafka compresses a batch on the loop: 16 MB take 50 ms. Here everything except the header is
# made in advance, so the exact size is known before the hand-over. Only the producer's state (id,
# epoch, sequence) is written later. The format is Kafka's
# record batch, magic 2 (org.apache.kafka.common.record.DefaultRecordBatch).


if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 3  # the default of Kafka's own producer
_ZSTD = 4


class SingleRecordBatch:
    """A batch with one record; `size` is the bytes of the whole batch, as the broker measures it.

    The constructor compresses, without the interpreter's lock; do not call it on the event loop.
    """

    __slots__ = ("_batch", "size")

    def __init__(self, record: Record) -> None:
        plain = _plain(record)
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


def _plain(record: Record) -> bytearray:
    """Return the uncompressed batch of a record."""
    records = Records(0)  # a first record of any size fits
    records.append(record.timestamp_ms, record.key, record.value, record.headers)
    return records.take()


# ---- Search for the invalid records of a refused batch


_NO_CAP = sys.maxsize


class Halving:
    """Maximum number of records in a batch, after a batch was refused.

    A broker refuses a whole batch because of one record. The records go back to the front of their
    lane and are sent again in halves. k invalid records among n cost about k * log2(n) batches, the
    valid ones are published, and all keep their order.
    """

    __slots__ = ("_suspects", "cap")

    def __init__(self) -> None:
        self.cap = _NO_CAP
        self._suspects = 0

    def refused(self, count: int) -> bool:
        """Record the refusal of a batch, and return whether its only record is the invalid one."""
        if count == 1:
            self._suspects = max(0, self._suspects - 1)
            return True
        self._suspects = max(self._suspects, count)
        self.cap = max(1, count // 2)
        return False

    def accepted(self, count: int) -> None:
        """Record the acknowledgement of a batch of `count` records."""
        if self._suspects:
            self._suspects = max(0, self._suspects - count)
            self.cap = self.cap * 2 if self._suspects else _NO_CAP


# ---- Wake-up of a waiting task


class Wakeup:
    """Wake-up for one waiting task; a ring without a waiting task has no effect."""

    def __init__(self) -> None:
        self._waiting: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait for the next ring."""
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None

    def ring(self) -> None:
        """Wake the waiting task."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


# ---- Interface of a lane's cluster


class SharedProducer(Protocol):
    """The producer that all lanes of a cluster share, with feedback from the lanes.

    Attributes:
        handed_bytes: Bytes of all batches in flight.
        acked_at: Time of the last acknowledgement, in monotonic seconds.
    """

    handed_bytes: int
    acked_at: float

    async def ready(self) -> Producer:
        """Wait until a batch may be handed over."""
        ...

    def fail(self, producer: Producer, reason: str) -> None:
        """Hold all lanes and replace this producer."""
        ...

    def topics_are_old(self) -> None:
        """Read the topics again, because a broker's response shows that the state is old."""
        ...

    def measured(self, topic: str, partition: int, seconds: float, records: int, size: int) -> None:
        """Count an acknowledged batch."""
        ...


log = logging.getLogger("headgate.kafka")

# If the sequence is still broken with a third producer, a fourth does not repair it.
_MAX_RESENDS = 3
_PUT_OFF_S = 0.1  # pause before a batch that its topic did not accept is sent again; it doubles
_MAX_PUT_OFF_S = 1.0
# Looking a member up in an Enum class costs 0.1 us in Python 3.11: as much as a small call.
_LANE: Final = Stage.LANE
_HANDED: Final = Stage.HANDED
_ENDED: Final = Stage.ENDED


class Lane:
    """A queue and at most one batch in flight. Its task is `run`; the owner calls the rest.

    Attributes:
        bytes: Bytes of everything queued or in flight.
        moved_at: Time of the last progress while it was not empty, in monotonic seconds.
        handed_at: Time of the last hand-over, in monotonic seconds.
        unsent_since: Since this time no connection has received any of its present events.
        refusing: Why it takes nothing now; the cluster sets it.
        is_stamped: Whether Kafka overwrites the timestamps of this topic's records.
        topic_id: Kafka's id of the topic; its events are for no other topic of this name.
        former: The closed lane of a deleted topic with the same name. This lane waits for its batch
            in flight, because sequence numbers allow one batch at a time.
    """

    def __init__(
        self, tp: TopicPartition, batch_limit: int, shared: SharedProducer, deliveries: Deliveries
    ) -> None:
        self._tp = tp
        self.topic, self.partition = tp
        self.batch_limit = batch_limit
        self.bytes = 0
        self.moved_at = self.handed_at = self.unsent_since = 0.0
        self.refusing: Failure | None = None
        self.is_stamped = False
        self.topic_id = b""
        self.former: Lane | None = None
        self._shared = shared
        self._deliveries = deliveries
        self._queue: deque[Publish] = deque()
        self._batch: LaneBatch | None = None
        self._producer: Producer | None = None
        self._handed: Handed | None = None
        self._bell = Wakeup()
        self._closing: Failure | None = None
        self._halving = Halving()
        self._resends = 0
        self._put_off_s = 0.0

    @property
    def events(self) -> int:
        """Return the number of events that are queued or in flight."""
        return len(self._queue) + (len(self._batch.publishes) if self._batch else 0)

    @property
    def is_in_flight(self) -> bool:
        """Return whether a batch is with the producer."""
        return self._batch is not None

    @property
    def is_lost(self) -> bool:
        """Return whether a batch was sent, got no response, and waits to be sent again."""
        handed, producer = self._handed, self._producer
        if handed is None or producer is None:
            return False
        return handed.attempts > 0 and producer.is_waiting(handed)

    @property
    def is_closed(self) -> bool:
        """Return whether the lane takes no more events."""
        return self._closing is not None

    def put(self, publish: Publish) -> None:
        """Queue an event."""
        if not self._queue and self._batch is None:
            self.moved_at = self.unsent_since = time.monotonic()
            self._bell.ring()
        publish.advance(_LANE)
        self._queue.append(publish)
        self.bytes += publish.size

    async def run(self) -> None:
        """Hand over batches until the lane is closed."""
        if self._batch is not None:  # an earlier run of this task failed right after a hand-over
            await self._bell.wait()
        while self._closing is None:
            is_first = not self._queue
            if is_first:
                await self._bell.wait()
            producer = await self._turn(is_first)
            if producer is None:
                return
            batch = self._fill(producer)
            if batch is not None and self._hand_over(producer, batch):
                await self._bell.wait()

    def head(self) -> Publish | None:
        """Return the oldest event that has not ended."""
        self.prune()
        first = self._queue if self._batch is None else self._batch.publishes
        return first[0] if first else None

    def withdraw(self) -> tuple[list[Publish], list[Publish]]:
        """Remove the queued events.

        Returns:
            The events in flight, and the removed events.
        """
        queued = self._take_queue()
        self.bytes -= sum([publish.size for publish in queued])
        in_flight = list(self._batch.publishes) if self._batch is not None else []
        return in_flight, [publish for publish in queued if not publish.dropped]

    def prune(self) -> None:
        """Remove dropped events from the front of the queue."""
        queue = self._queue
        while queue and queue[0].dropped:
            self.bytes -= queue.popleft().size

    def take_back(self) -> bool:
        """Take an unsent batch back from the producer; return False if there is none."""
        handed, producer = self._handed, self._producer
        if handed is None or producer is None:
            return False
        if handed.attempts > 0 or not producer.is_waiting(handed):
            return False
        producer.take_back(handed)
        self.abandon()
        return True

    def abandon(self) -> None:
        """End or requeue the batch of a dropped producer.

        A batch that was never sent is requeued. The outcome of a sent batch is unknown for ever.
        """
        handed, self._handed = self._handed, None
        if handed is None:
            return
        if handed.attempts == 0:  # nothing was sent, and nothing will be
            self._put_back()
        else:
            self.unsent_since = time.monotonic()
            self._fail(UNKNOWN)
        self._bell.ring()

    def close(self, failure: Failure) -> None:
        """Take no more events, and end the queued ones; a batch in flight may still succeed."""
        self._closing = failure
        self.empty(failure)
        self._bell.ring()

    def empty(self, failure: Failure) -> None:
        """End the queued events, which are certainly not written."""
        self._end(self._take_queue(), failure)

    def _take_queue(self) -> list[Publish]:
        queued = list(self._queue)
        self._queue.clear()
        return queued

    async def _turn(self, is_first: bool) -> Producer | None:
        # Wait until the producer would send a batch at once. None: the lane was closed meanwhile.
        if self._put_off_s:
            await asyncio.sleep(self._put_off_s)
            await (await self._shared.ready()).learn(self.topic)
        while self._closing is None:
            producer = await self._shared.ready()
            if not producer.knows(self._tp):
                await producer.learn(self.topic)
                if not producer.knows(self._tp):
                    self._put_off()
                    await asyncio.sleep(self._put_off_s)
                continue
            if self.former is not None:
                if self.former.is_in_flight:
                    await asyncio.sleep(_PUT_OFF_S)
                    continue
                self.former = None
            turn = producer.turn(self._tp, is_first, self.bytes >= self.batch_limit)
            if turn is None:
                return producer
            await turn
            is_first = False
        return None

    def _fill(self, producer: Producer) -> LaneBatch | None:
        self.prune()
        large = self._queue[0].large if self._queue else None
        if large is not None and large.batch is not None:
            publish = self._queue.popleft()
            publish.advance(_HANDED)
            return LaneBatch.alone(publish, large.batch)
        queue, publishes, size = self._queue, list[Publish](), 0
        limit, cap = self.batch_limit - BATCH_OVERHEAD, self._halving.cap
        builder = producer.create_batch()
        try:
            while queue and len(publishes) < cap:
                publish = queue[0]
                if publish.dropped:
                    self.bytes -= queue.popleft().size
                    continue
                if publishes and size + publish.size > limit:
                    break
                if not builder.append(publish.record):
                    break  # the builder is full; an empty one takes a first record of any size
                publishes.append(queue.popleft())
                size += publish.size
        except (TypeError, ValueError, AttributeError, OverflowError):
            log.exception("record of %s-%s cannot be encoded", self.topic, self.partition)
            self._end([queue.popleft()], BAD_RECORD)
            self._requeue(publishes)
            return None
        except BaseException:  # not caused by a record, for example a lack of memory
            self._requeue(publishes)
            raise
        advance_all(publishes, _HANDED)
        return LaneBatch(publishes, builder, size) if publishes else None

    def _hand_over(self, producer: Producer, batch: LaneBatch) -> bool:
        self._batch = batch
        self._shared.handed_bytes += batch.size
        self.handed_at = time.monotonic()
        try:
            handed = producer.send(batch.builder, self._tp, self.topic_id)
        except KafkaError as error:
            self._put_back()
            self._shared.fail(producer, type(error).__name__)
            return False
        self._producer, self._handed = producer, handed
        handed.future.add_done_callback(self._on_end)
        self._deliveries.handed_over(batch.publishes)
        return True

    def _on_end(self, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if self._handed is None or self._handed.future is not future:
            return  # abandoned
        handed, self._handed = self._handed, None
        try:
            if error is None:
                self._acknowledge(future.result(), handed.attempts)
            else:
                self._judge(error, handed)
        finally:
            self._bell.ring()

    def _acknowledge(self, written: RecordMetadata, attempts: int) -> None:
        batch = self._take_batch()
        if batch is None:
            return
        now = time.monotonic()
        self.moved_at = self.unsent_since = self._shared.acked_at = now
        self.refusing = None
        self.bytes -= batch.size
        self._resends, self._put_off_s = 0, 0.0
        self._halving.accepted(len(batch.publishes))
        # For a batch that it has already, a broker may return a timestamp from a producer.
        if self.is_stamped or (written.timestamp >= 0 and attempts == 1):
            for publish in batch.publishes:
                publish.record.timestamp_ms = written.timestamp
        advance_all(batch.publishes, _ENDED)
        self._deliveries.acknowledged(batch.publishes, written.offset)
        took_s, count = now - self.handed_at, len(batch.publishes)
        self._shared.measured(self.topic, self.partition, took_s, count, batch.size)

    def _judge(self, error: BaseException, handed: Handed) -> None:
        verdict = classify(error, handed.attempts)
        log.log(verdict.log_level, "%s-%s: %r, %s", self.topic, self.partition, error, verdict)
        if self._producer is None or self._batch is None:
            return
        if verdict.fate is Fate.LATER:  # this is no progress
            if not self._put_off_s:
                log.warning(
                    "%s-%s accepts no records at the moment: %r", self.topic, self.partition, error
                )
            self._producer.rewind(handed)
            self._put_off()
            self._shared.topics_are_old()
            self._put_back()
            return
        self.moved_at = time.monotonic()
        if handed.attempts > 0:
            self.unsent_since = self.moved_at
        if verdict.fate is Fate.REFUSED:
            self._producer.rewind(handed)
            self._refused(self._batch, verdict)
            return
        self._shared.fail(self._producer, verdict.label)
        self._resends += 1
        if verdict.fate is Fate.RESEND and self._resends <= _MAX_RESENDS:
            self._put_back()
        elif verdict.fate is Fate.RESEND:
            self._fail(refusal(verdict, self._batch.size, self.batch_limit))
        else:
            self._fail(UNKNOWN)

    def _refused(self, batch: LaneBatch, verdict: Refusal) -> None:
        if verdict.reason is Reason.TOO_LARGE:
            self._shared.topics_are_old()
        if not verdict.one_is_guilty or self._halving.refused(len(batch.publishes)):
            self._fail(refusal(verdict, batch.size, self.batch_limit))
        else:
            self._put_back()

    def _put_off(self) -> None:
        self._put_off_s = min(_MAX_PUT_OFF_S, 2 * self._put_off_s or _PUT_OFF_S)

    def _take_batch(self) -> LaneBatch | None:
        batch, self._batch = self._batch, None
        if batch is not None:
            self._shared.handed_bytes -= batch.size
        return batch

    def _put_back(self) -> None:
        batch = self._take_batch()
        if batch is None:
            return
        if self._closing is not None:
            self._end(batch.publishes, self._closing)
        else:
            self._requeue(batch.publishes)

    def _requeue(self, publishes: list[Publish]) -> None:
        advance_all(publishes, _LANE)
        self._queue.extendleft(reversed(publishes))

    def _fail(self, failure: Failure) -> None:
        batch = self._take_batch()
        if batch is not None:
            self._end(batch.publishes, failure)

    def _end(self, publishes: Iterable[Publish], failure: Failure) -> None:
        ended = []
        for publish in publishes:
            self.bytes -= publish.size
            if not publish.dropped:
                publish.advance(_ENDED)
                ended.append(publish)
        if ended:
            self._deliveries.failed(ended, failure)
