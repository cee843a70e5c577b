"""Lanes: an ordered, bounded queue into each topic-partition, and the producer that they share.

Rules:

1. A lane has at most one batch with the producer. So its events keep their order, and the sequence
   number before its batch is exact.
2. A lane fills its batch at the last moment: when the producer would send it at once.
3. An event that certainly is not in Kafka goes back to the front of its lane, if it is worth
   another attempt. So does the batch of a producer that was dropped before it sent the batch.
4. If a broker refuses a batch for one of its records, the lane sends the records again in halves,
   until the invalid record is alone (`Halving`).
5. A batch that was sent and has no usable response ends as `unknown`, and the cluster replaces the
   producer. The successor raises the epoch, so brokers refuse late requests of the former one.
6. A dropped event (its deadline passed) is neither handed over nor reported. Every other event is
   reported once to `Deliveries`.
7. While the producer is replaced, or while too many bytes are in flight, no lane hands over.

States of a lane:

    state      queue   batch  next                             because of
    idle       empty   none   waiting                          `put`
    waiting    events  none   in flight                        the producer, the leader, its turn
    in flight  any     one    idle, waiting or in flight       the result, `take_back`, `abandon`
    pausing    events  none   waiting                          the topic accepts nothing at present
    closed     empty   any    the end, once no batch is left   a deleted topic, or the end of all

`produce_request.classify` decides between refusal, another attempt and `unknown`.
"""

import asyncio
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from aiokafka.errors import KafkaError
from aiokafka.structs import RecordMetadata, TopicPartition

from headgate.backends.base import Deliveries
from headgate.kafka.options import ClusterOptions, LaneLimits
from headgate.kafka.produce_request import Fate, Refusal, classify, refusal
from headgate.kafka.producer import START_TIMEOUT_S, Handed, Producer
from headgate.kafka.topics import (
    READ_ERRORS,
    RETRY_AFTER_S,
    KafkaTopics,
    kafka_error,
    kafka_in_log,
    kafka_in_words,
)
from headgate.metrics.library_lines import ClusterOutage, in_cluster
from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Publish, Stage, advance_all
from headgate.model.record import BATCH_OVERHEAD
from headgate.model.topics import TopicState

log = logging.getLogger("headgate.kafka")

UNKNOWN = Failure(Reason.UNKNOWN, "sent to Kafka without an acknowledgement")
BAD_RECORD = Failure(Reason.INTERNAL, "the record could not be encoded")

# If the sequence is still broken with a third producer, a fourth does not repair it.
_MAX_RESENDS = 3
_PAUSE_S = 0.1  # before a batch that its topic did not accept is sent again; it doubles
_MAX_PAUSE_S = 1.0
# Looking a member up in an Enum class costs 0.1 us in Python 3.11: as much as a small call.
_LANE: Final = Stage.LANE
_HANDED: Final = Stage.HANDED
_ENDED: Final = Stage.ENDED


class Lane:
    """A queue and at most one batch in flight. Its task is `run`; the owner calls the rest.

    Args:
        state: The topic.
        partition: The partition.
        cluster: The cluster of the topic.
        deliveries: The listener for outcomes.
        former: The closed lane of a deleted topic with the same name. This lane waits for its
            batch in flight, because sequence numbers allow one batch at a time.

    Attributes:
        bytes: Bytes of everything queued or in flight.
        progress_at: Time of the last progress while it was not empty, in monotonic seconds.
        handed_at: Time of the last hand-over, in monotonic seconds.
        unsent_since: Since this time no connection has received any of its present events.
        refusing: Why it takes nothing now; the cluster sets it.
        topic_id: Kafka's id of the topic; its events are for no other topic of this name.
    """

    def __init__(
        self,
        state: TopicState,
        partition: int,
        cluster: "ProducingCluster",
        deliveries: Deliveries,
        former: "Lane | None" = None,
    ) -> None:
        self._tp = TopicPartition(state.name, partition)
        self.topic, self.partition, self.topic_id = state.name, partition, state.topic_id
        self.bytes = 0
        self.progress_at = self.handed_at = self.unsent_since = 0.0
        self.refusing: Failure | None = None
        self._cluster = cluster
        self._deliveries = deliveries
        self._former = former
        self._queue: deque[Publish] = deque()
        self._batch: LaneBatch | None = None
        self._handed: Handed | None = None
        self._waiter: asyncio.Future[None] | None = None  # for the next wake-up
        self._closing: Failure | None = None
        self._halving = Halving()
        self._resends = 0
        self._pause_s = 0.0
        self._batch_limit = 0
        self._is_stamped = False  # Kafka overwrites the timestamps of this topic's records
        self.follow(state)

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
        handed = self._handed
        return handed is not None and handed.attempts > 0 and handed.is_waiting

    @property
    def is_closed(self) -> bool:
        """Return whether the lane takes no more events."""
        return self._closing is not None

    def follow(self, state: TopicState) -> None:
        """Apply the settings of the topic."""
        limit = self._cluster.limits.max_batch_bytes
        self._batch_limit = min(limit, state.batch_limit_bytes)
        self._is_stamped = state.rules.is_stamped

    def put(self, publish: Publish) -> None:
        """Queue an event."""
        if not self._queue and self._batch is None:
            self.progress_at = self.unsent_since = time.monotonic()
            self._wake()
        publish.advance(_LANE)
        self._queue.append(publish)
        self.bytes += publish.size

    async def run(self) -> None:
        """Hand over batches until the lane is closed."""
        if self._batch is not None:  # an earlier run of this task failed right after a hand-over
            await self._woken()
        while self._closing is None:
            was_empty = not self._queue
            if was_empty:
                await self._woken()
            producer = await self._next_turn(was_empty)
            if producer is None:
                return
            batch = self._fill(producer)
            if batch is not None and self._hand_over(producer, batch):
                await self._woken()

    def oldest_event(self) -> Publish | None:
        """Return the oldest event that has not ended."""
        self.discard_dropped()
        events = self._queue if self._batch is None else self._batch.publishes
        return events[0] if events else None

    def withdraw(self) -> tuple[list[Publish], list[Publish]]:
        """Remove the queued events.

        Returns:
            The events in flight, and the removed events.
        """
        queued = self._take_queue()
        self.bytes -= sum([publish.size for publish in queued])
        in_flight = list(self._batch.publishes) if self._batch is not None else []
        return in_flight, [publish for publish in queued if not publish.dropped]

    def discard_dropped(self) -> None:
        """Remove dropped events from the front of the queue."""
        queue = self._queue
        while queue and queue[0].dropped:
            self.bytes -= queue.popleft().size

    def take_back(self) -> bool:
        """Take an unsent batch back from the producer; return False if there is none."""
        handed = self._handed
        if handed is None or handed.attempts > 0 or not handed.is_waiting:
            return False
        handed.take_back()
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
            self._put_back(self._take_batch())
        else:
            self.unsent_since = time.monotonic()
            self._fail(self._take_batch().publishes, UNKNOWN)
        self._wake()

    def close(self, failure: Failure) -> None:
        """Take no more events, and end the queued ones; a batch in flight may still succeed."""
        self._closing = failure
        self.fail_queued(failure)
        self._wake()

    def fail_queued(self, failure: Failure) -> None:
        """End the queued events, which are certainly not written."""
        self._fail(self._take_queue(), failure)

    def _take_queue(self) -> list[Publish]:
        queued = list(self._queue)
        self._queue.clear()
        return queued

    async def _woken(self) -> None:
        """Wait for the next wake-up; an earlier one has no effect."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _next_turn(self, was_empty: bool) -> Producer | None:
        """Wait until the producer would send a batch at once.

        Returns:
            The producer; None if the lane was closed meanwhile.
        """
        cluster = self._cluster
        if self._pause_s:
            await asyncio.sleep(self._pause_s)
            await (await cluster.ready()).learn(self.topic)
        while self._closing is None:
            producer = await cluster.ready()
            if not producer.knows(self._tp):
                await producer.learn(self.topic)
                if not producer.knows(self._tp):
                    self._lengthen_pause()
                    await asyncio.sleep(self._pause_s)
                continue
            if self._former is not None:
                if self._former.is_in_flight:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                self._former = None
            turn = producer.turn(self._tp, was_empty, self.bytes >= self._batch_limit)
            if turn is None:
                return producer
            await turn
            was_empty = False
        return None

    def _fill(self, producer: Producer) -> "LaneBatch | None":
        self.discard_dropped()
        queue, publishes, size = self._queue, list[Publish](), 0
        large = queue[0].large if queue else None
        if large is not None and large.batch is not None:
            # The record is compressed already. Its size keeps it out of a batch with others.
            builder = large.batch.builder()
            publish = queue.popleft()
            publish.advance(_HANDED)
            return LaneBatch([publish], builder, publish.size)
        max_bytes, max_records = self._batch_limit - BATCH_OVERHEAD, self._halving.limit
        batch = producer.create_batch()
        try:
            while queue and len(publishes) < max_records:
                publish = queue[0]
                if publish.dropped:
                    self.bytes -= queue.popleft().size
                    continue
                if publishes and size + publish.size > max_bytes:
                    break
                if not batch.append(publish.record):
                    break  # the builder is full; an empty one takes a first record of any size
                publishes.append(queue.popleft())
                size += publish.size
        except (TypeError, ValueError, AttributeError, OverflowError):
            log.exception("record of %s-%s cannot be encoded", self.topic, self.partition)
            self._fail([queue.popleft()], BAD_RECORD)
            self._requeue(publishes)
            return None
        except BaseException:  # not caused by a record, for example a lack of memory
            self._requeue(publishes)
            raise
        advance_all(publishes, _HANDED)
        return LaneBatch(publishes, batch, size) if publishes else None

    def _hand_over(self, producer: Producer, batch: "LaneBatch") -> bool:
        self._batch = batch
        self._cluster.handed_bytes += batch.size
        self.handed_at = time.monotonic()
        try:
            self._handed = handed = producer.send(batch.builder, self._tp, self.topic_id)
        except KafkaError as error:
            self._put_back(self._take_batch())
            self._cluster.fail(producer, type(error).__name__)
            return False
        handed.future.add_done_callback(self._on_result)
        self._deliveries.handed_over(batch.publishes)
        return True

    def _on_result(self, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        handed = self._handed
        if handed is None or handed.future is not future:
            return  # abandoned
        self._handed = None
        try:
            if error is None:
                self._acknowledge(future.result(), handed.attempts)
            else:
                self._on_failure(error, handed)
        finally:
            self._wake()

    def _acknowledge(self, written: RecordMetadata, attempts: int) -> None:
        batch, cluster = self._take_batch(), self._cluster
        now = time.monotonic()
        self.progress_at = self.unsent_since = cluster.acked_at = now
        self.refusing = None
        self.bytes -= batch.size
        self._resends, self._pause_s = 0, 0.0
        count = len(batch.publishes)
        self._halving.accepted(count)
        # For a batch that it has already, a broker may return a timestamp from a producer.
        if self._is_stamped or (written.timestamp >= 0 and attempts == 1):
            for publish in batch.publishes:
                publish.record.timestamp_ms = written.timestamp
        advance_all(batch.publishes, _ENDED)
        self._deliveries.acknowledged(batch.publishes, written.offset)
        seconds = now - self.handed_at
        cluster.meter.acknowledged(self.topic, self.partition, seconds, count, batch.size)

    def _on_failure(self, error: BaseException, handed: Handed) -> None:
        batch = self._take_batch()
        verdict = classify(error, handed.attempts)
        where, why = f"{self.topic}-{self.partition}", kafka_error(error)
        log.log(verdict.log_level, "%s: a batch failed: %s; %s", where, why, verdict.in_words)
        if verdict.fate is Fate.LATER:  # this is no progress
            if not self._pause_s:
                log.warning("%s accepts no records at the moment: %s", where, why)
            handed.rewind()
            self._lengthen_pause()
            self._cluster.refresh_topics()
            self._put_back(batch)
            return
        self.progress_at = time.monotonic()
        if handed.attempts > 0:
            self.unsent_since = self.progress_at
        if verdict.fate is Fate.REFUSED:
            handed.rewind()
            self._on_refusal(batch, verdict)
            return
        self._cluster.fail(handed.producer, verdict.label)
        self._resends += 1
        if verdict.fate is Fate.UNDECIDED:
            self._fail(batch.publishes, UNKNOWN)
        elif self._resends <= _MAX_RESENDS:
            self._put_back(batch)
        else:
            self._fail(batch.publishes, refusal(verdict, batch.size, self._batch_limit))

    def _on_refusal(self, batch: "LaneBatch", verdict: Refusal) -> None:
        if verdict.reason is Reason.TOO_LARGE:
            self._cluster.refresh_topics()
        if not verdict.one_is_guilty or self._halving.refused(len(batch.publishes)):
            self._fail(batch.publishes, refusal(verdict, batch.size, self._batch_limit))
        else:
            self._put_back(batch)

    def _lengthen_pause(self) -> None:
        self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s or _PAUSE_S)

    def _take_batch(self) -> "LaneBatch":
        batch, self._batch = self._batch, None
        assert batch is not None  # every caller has one in flight
        self._cluster.handed_bytes -= batch.size
        return batch

    def _put_back(self, batch: "LaneBatch") -> None:
        if self._closing is not None:
            self._fail(batch.publishes, self._closing)
        else:
            self._requeue(batch.publishes)

    def _requeue(self, publishes: list[Publish]) -> None:
        advance_all(publishes, _LANE)
        self._queue.extendleft(reversed(publishes))

    def _fail(self, publishes: Iterable[Publish], failure: Failure) -> None:
        ended = []
        for publish in publishes:
            self.bytes -= publish.size
            if not publish.dropped:
                publish.advance(_ENDED)
                ended.append(publish)
        if ended:
            self._deliveries.failed(ended, failure)


class LaneBatch(NamedTuple):
    """Publishes in one builder; `size` is the sum of their sizes in bytes."""

    publishes: list[Publish]
    builder: Any
    size: int


_NO_LIMIT = sys.maxsize


class Halving:
    """Maximum number of records in a batch, after a batch was refused.

    A broker refuses a whole batch because of one record. The records go back to the front of their
    lane and are sent again in halves. k invalid records among n cost about k * log2(n) batches, the
    valid ones are published, and all keep their order.
    """

    __slots__ = ("_suspects", "limit")

    def __init__(self) -> None:
        self.limit = _NO_LIMIT
        self._suspects = 0

    def refused(self, count: int) -> bool:
        """Record the refusal of a batch, and return whether its only record is the invalid one."""
        if count == 1:
            self._suspects = max(0, self._suspects - 1)
            return True
        self._suspects = max(self._suspects, count)
        self.limit = max(1, count // 2)
        return False

    def accepted(self, count: int) -> None:
        """Record the acknowledgement of a batch of `count` records."""
        if self._suspects:
            self._suspects = max(0, self._suspects - count)
            self.limit = self.limit * 2 if self._suspects else _NO_LIMIT


# ---- a cluster's producer: created, watched and replaced


_TICK_S = 0.2
_QUIESCE_S = 2.0  # time for other lanes' batches before the producer is replaced
_QUIESCE_STEP_S = 0.01
_FULL_STEP_S = 0.005
_PROBE_S = 1.0  # after this time without progress, a lane checks whether the cluster answers
_RETRY_S = 0.5  # between attempts to connect; it doubles
_MAX_RETRY_S = 2.0
_LIVED_S = 30.0  # after a longer life, a producer is replaced without a pause
_MAX_REBUILD_PAUSE_S = 10.0


class ProducingCluster:
    """A cluster's producer and its lanes.

    Attributes:
        producer: The current producer; None while hand-overs are on hold.
        acked_at: Time of the last acknowledgement, in monotonic seconds.
        handed_bytes: Bytes of all batches in flight.
        refusing: Why its lanes take nothing now.
        tried: Set after the first attempt to connect.
    """

    def __init__(
        self,
        name: str,
        options: ClusterOptions,
        limits: LaneLimits,
        topics: KafkaTopics,
        meter: Meter,
        is_pressed: Callable[[], bool],
    ) -> None:
        self.name = name
        self.limits = limits
        self.meter = meter
        self.producer: Producer | None = None
        self.lanes: set[Lane] = set()
        self.acked_at = 0.0
        self.handed_bytes = 0
        self.refusing: Failure | None = unavailable(f"not connected to cluster {name} yet")
        self.tried = asyncio.Event()
        self._options = options
        self._delivery_s = options.delivery_timeout_ms / 1000
        self._topics = topics
        self._is_pressed = is_pressed
        self._opened = asyncio.Event()
        self._current: Producer | None = None
        self._held_at = time.monotonic()
        self._silent_since = math.inf
        self._probed_at = 0.0
        self._detail = "not connected yet"
        self._outage = ClusterOutage(name)

    async def ready(self) -> Producer:
        """Wait until a batch may be handed over."""
        while True:
            if self.producer is not None and self.producer.broken.done():
                self._hold()  # `maintain` notices it later in this turn of the event loop
            if self.producer is None:
                await self._opened.wait()
            elif self.handed_bytes >= self.limits.max_handed_bytes:
                await asyncio.sleep(_FULL_STEP_S)
            else:
                return self.producer

    def fail(self, producer: Producer, reason: str) -> None:
        """Hold all lanes and replace this producer."""
        producer.fail(reason)
        if producer is self.producer:
            self._hold()

    def refresh_topics(self) -> None:
        """Read the topics again, because a broker's response shows that the state is old."""
        self._topics.refresh_soon(self.name)

    def end_lane(self, lane: Lane, failure: Failure) -> None:
        """Close the lane of a partition that no longer exists.

        A batch in flight still gets its response, and the producer continues for other topics.
        """
        lane.close(failure)
        self._forget(lane)

    def health(self) -> tuple[bool, str]:
        """Return whether records can be written, and a text with the reason if not."""
        if self.producer is None:
            return False, self._detail
        if self.refusing is not None:
            return False, self.refusing.detail
        return True, "connected"

    def _forget(self, lane: Lane) -> None:
        """Forget a closed lane when it has no batch in flight."""
        if lane.is_in_flight and not lane.take_back():
            if lane.is_lost and self.producer is not None:
                self.fail(self.producer, "topic_gone")
            return
        self.lanes.discard(lane)
        is_last = all(other.topic != lane.topic for other in self.lanes)
        if self.producer is not None and is_last:
            self.producer.forget(lane.topic)

    async def maintain(self) -> None:
        """Replace the producer whenever it fails, one at a time and not too often."""
        in_cluster(self.name)
        former, pause_s = self._current, 0.0
        await self.close()  # remains of an earlier run of this method
        while True:
            producer = await self._connect(former)
            built_at = time.monotonic()
            self._open(producer)
            reason = await asyncio.shield(producer.broken)
            self._hold()
            self._outage.begins()
            log.warning("producer of cluster %s replaced: %s", self.name, reason)
            await self._quiesce()
            await self._drop()
            self.meter.rebuilt(self.name, reason)
            lived = time.monotonic() - built_at > _LIVED_S
            pause_s = 0.0 if lived else min(_MAX_REBUILD_PAUSE_S, 2 * pause_s or _RETRY_S)
            await asyncio.sleep(pause_s)
            former = producer

    async def watch(self) -> None:
        """Detect overdue batches, stalled lanes and a silent cluster."""
        in_cluster(self.name)
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self._check_cluster(now)
            for lane in list(self.lanes):
                self._check_lane(lane, now)
            if self.producer is not None and any(self._is_overdue(lane) for lane in self.lanes):
                self.fail(self.producer, "delivery_timeout")

    async def close(self) -> None:
        """Drop the producer; the lanes end or requeue their batches."""
        self._hold()
        await self._drop()

    async def _connect(self, former: Producer | None) -> Producer:
        retry_s = _RETRY_S
        while True:
            limit = self.limits.max_batch_bytes
            producer = self._current = Producer(self._options, limit, self._is_pressed)
            try:
                await producer.start(former)
            except READ_ERRORS as error:
                self._outage.begins()
                detail = f"cannot connect: {kafka_in_words(error, self.name)}"
                if detail != self._detail:
                    why = kafka_in_log(error, self.name)
                    log.warning("cannot connect to cluster %s: %s", self.name, why)
                self._detail = detail
                await producer.drop()
                self.tried.set()
                await asyncio.sleep(retry_s)
                retry_s = min(_MAX_RETRY_S, 2 * retry_s)
            else:
                return producer

    def _open(self, producer: Producer) -> None:
        if (away_s := self._outage.ends()) is not None:
            log.info("reconnected to cluster %s", self.name, extra={"away_s": away_s})
        self.producer = producer
        self.refusing = None
        self.tried.set()
        self._opened.set()

    def _hold(self) -> None:
        if self.producer is not None:
            self.producer = None
            self._held_at = time.monotonic()
        self._opened.clear()
        self._detail = "the producer is being replaced"

    async def _quiesce(self) -> None:
        # Polled, because this is rare and should not cost lanes time at every batch.
        end = time.monotonic() + _QUIESCE_S
        while time.monotonic() < end:
            if not any(self._may_still_end(lane) for lane in self.lanes):
                return
            await asyncio.sleep(_QUIESCE_STEP_S)

    async def _drop(self) -> None:
        current, self._current = self._current, None
        if current is not None:
            await current.drop()
        for lane in list(self.lanes):
            is_overdue = self._is_overdue(lane)
            lane.abandon()
            if is_overdue:  # a requeued batch: its partition had no leader all the time
                self._end_unsent(lane, self._delivery_s)
            if lane.is_closed:
                self.lanes.discard(lane)

    def _may_still_end(self, lane: Lane) -> bool:
        return lane.is_in_flight and not lane.is_closed and not self._is_overdue(lane)

    def _is_overdue(self, lane: Lane) -> bool:
        return lane.is_in_flight and time.monotonic() - lane.handed_at > self._delivery_s

    def _check_cluster(self, now_s: float) -> None:
        is_healthy = self._topics.healthy(self.name)
        self._silent_since = math.inf if is_healthy else min(self._silent_since, now_s)
        stall_s = self.limits.stall_ms / 1000
        if self.producer is None:
            if now_s - self._held_at > stall_s:
                self.refusing = unavailable(f"cluster {self.name}: {self._detail}")
        elif now_s - max(self._silent_since, self.acked_at) > stall_s:
            self.refusing = unavailable(f"cluster {self.name}: {self._topics.detail(self.name)}")
        else:
            self.refusing = None

    def _check_lane(self, lane: Lane, now_s: float) -> None:
        if lane.is_closed:
            self._forget(lane)
            return
        lane.discard_dropped()
        # Events do not wait for ever for the producer, metadata or their turn. If an overdue batch
        # of another lane blocked them, the next producer gets time to send them first.
        self._end_unsent(lane, self._delivery_s + START_TIMEOUT_S)
        age_s = now_s - lane.progress_at if lane.events else 0.0
        if age_s > _PROBE_S and now_s - self._probed_at > _PROBE_S:
            self._probed_at = now_s
            self.refresh_topics()
        limits, is_healthy = self.limits, self._topics.healthy(self.name)
        lane.refusing = None
        if age_s * 1000 > (limits.election_ms if is_healthy else limits.stall_ms):
            where = f"{lane.topic}-{lane.partition}"
            lane.refusing = unavailable(f"no acknowledgement from {where} for {age_s:.0f} s")

    def _end_unsent(self, lane: Lane, seconds: float) -> None:
        if lane.events and not lane.is_in_flight and time.monotonic() - lane.unsent_since > seconds:
            where = f"{lane.topic}-{lane.partition}"
            detail = f"Kafka took nothing for {where} within {seconds:g} s; this was not written"
            lane.fail_queued(unavailable(detail))


def unavailable(detail: str) -> Failure:
    """Return the failure of an event that a cluster cannot take now."""
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
