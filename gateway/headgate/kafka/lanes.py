"""Lanes into Kafka: `base.Lanes` over real clusters."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping

from aiokafka.structs import TopicPartition

from headgate.backends.base import Deliveries
from headgate.backends.owned import OwnedTasks
from headgate.errors_in_words import connection_error
from headgate.kafka.lane import Lane
from headgate.kafka.options import ClusterOptions, LaneLimits, check_codec
from headgate.kafka.producer import START_TIMEOUT_S, Producer
from headgate.kafka.topics import READ_ERRORS, RETRY_AFTER_S, KafkaTopics, kafka_in_words
from headgate.metrics.library_lines import ClusterOutage, in_cluster
from headgate.metrics.meter import Meter
from headgate.model.outcome import OVERLOADED_RETRY_S, Failure, Reason, brief
from headgate.model.publish import Publish, Stage
from headgate.model.topics import TopicState

# ---- A cluster's producer: created, watched and replaced; and the lanes that share it


log = logging.getLogger("headgate.kafka")

_TICK_S = 0.2
_QUIESCE_S = 2.0  # time for other lanes' batches before the producer is replaced
_QUIESCE_STEP_S = 0.01
_FULL_STEP_S = 0.005
_PROBE_S = 1.0  # after this time without progress, a lane checks whether the cluster answers
_RETRY_S = 0.5  # between attempts to connect; it doubles
_MAX_RETRY_S = 2.0
_LIVED_S = 30.0  # after a longer life, a producer is replaced without a pause
_MAX_PAUSE_S = 10.0


class ProducingCluster:
    """A cluster's producer and its lanes; `producer` is None while hand-overs are on hold."""

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
        self.producer: Producer | None = None
        self.lanes: set[Lane] = set()
        self.acked_at = 0.0
        self.handed_bytes = 0
        self.refusing: Failure | None = _unavailable(f"not connected to cluster {name} yet")
        self.tried = asyncio.Event()
        self._options = options
        self._delivery_s = options.delivery_timeout_ms / 1000
        self.limits = limits
        self._topics = topics
        self._meter = meter
        self._is_pressed = is_pressed
        self._gate = asyncio.Event()
        self._current: Producer | None = None
        self._closed_at = time.monotonic()
        self._silent_since: float | None = None
        self._probed_at = 0.0
        self._detail = "not connected yet"
        self._outage = ClusterOutage(name)

    async def ready(self) -> Producer:
        """Wait until a batch may be handed over."""
        while True:
            if self.producer is not None and self.producer.broken.done():
                self._hold()  # `keep` notices it later in this turn of the event loop
            if self.producer is None:
                await self._gate.wait()
            elif self.handed_bytes >= self.limits.max_handed_bytes:
                await asyncio.sleep(_FULL_STEP_S)
            else:
                return self.producer

    def fail(self, producer: Producer, reason: str) -> None:
        """Hold all lanes and replace this producer."""
        producer.fail(reason)
        if producer is self.producer:
            self._hold()

    def end_lane(self, lane: Lane, failure: Failure) -> None:
        """Close the lane of a partition that no longer exists.

        A batch in flight still gets its response, and the producer continues for other topics.
        """
        lane.close(failure)
        self._let_go(lane)

    def topics_are_old(self) -> None:
        """Read the topics again."""
        self._topics.refresh_soon(self.name)

    def measured(self, topic: str, partition: int, seconds: float, records: int, size: int) -> None:
        """Count an acknowledged batch."""
        self._meter.acknowledged(topic, partition, seconds, records, size)

    def health(self) -> tuple[bool, str]:
        """Return whether records can be written, and a text with the reason if not."""
        if self.producer is None:
            return False, self._detail
        if self.refusing is not None:
            return False, self.refusing.detail
        return True, "connected"

    def _let_go(self, lane: Lane) -> None:
        """Forget a closed lane when it has no batch in flight."""
        if lane.is_in_flight and not lane.take_back():
            if lane.is_lost and self.producer is not None:
                self.fail(self.producer, "topic_gone")
            return
        self.lanes.discard(lane)
        is_last = all(other.topic != lane.topic for other in self.lanes)
        if self.producer is not None and is_last:
            self.producer.forget(lane.topic)

    async def keep(self) -> None:
        """Replace the producer whenever it fails, one at a time and not too often."""
        in_cluster(self.name)
        before, pause_s = self._current, 0.0
        await self.close()  # remains of an earlier run of this method
        while True:
            producer = await self._connect(before)
            built_at = time.monotonic()
            self._open(producer)
            reason = await asyncio.shield(producer.broken)
            self._hold()
            self._outage.begins()
            log.warning("producer of cluster %s replaced: %s", self.name, reason)
            await self._quiesce()
            await self._drop()
            self._meter.rebuilt(self.name, reason)
            lived = time.monotonic() - built_at > _LIVED_S
            pause_s = 0.0 if lived else min(_MAX_PAUSE_S, 2 * pause_s or _RETRY_S)
            await asyncio.sleep(pause_s)
            before = producer

    async def watch(self) -> None:
        """Detect overdue batches, stalled lanes and a silent cluster."""
        in_cluster(self.name)
        while True:
            await asyncio.sleep(_TICK_S)
            now = time.monotonic()
            self._check_cluster(now)
            for lane in list(self.lanes):
                self._check_lane(lane, now)
            if self.producer is not None and any(self._is_overdue(each) for each in self.lanes):
                self.fail(self.producer, "delivery_timeout")

    async def close(self) -> None:
        """Drop the producer; the lanes end or requeue their batches."""
        self._hold()
        await self._drop()

    async def _connect(self, before: Producer | None) -> Producer:
        retry_s = _RETRY_S
        while True:
            limit = self.limits.max_batch_bytes
            producer = self._current = Producer(self._options, limit, self._is_pressed)
            try:
                await producer.start(before)
            except READ_ERRORS as error:
                self._report(error)
                await producer.drop()
                self.tried.set()
                await asyncio.sleep(retry_s)
                retry_s = min(_MAX_RETRY_S, 2 * retry_s)
            else:
                return producer

    def _report(self, error: BaseException) -> None:
        self._outage.begins()
        detail = f"cannot connect: {kafka_in_words(error, self.name)}"
        if detail != self._detail:
            log.warning("cannot connect to cluster %s: %s", self.name, connection_error(error))
        self._detail = detail

    def _open(self, producer: Producer) -> None:
        if (away_s := self._outage.ends()) is not None:
            log.info("reconnected to cluster %s", self.name, extra={"away_s": away_s})
        self.producer = producer
        self.refusing = None
        self.tried.set()
        self._gate.set()

    def _hold(self) -> None:
        if self.producer is not None:
            self.producer = None
            self._closed_at = time.monotonic()
        self._gate.clear()
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

    def _check_cluster(self, now: float) -> None:
        if self._topics.healthy(self.name):
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = now
        stall_s = self.limits.stall_ms / 1000
        if self.producer is None:
            if now - self._closed_at > stall_s:
                self.refusing = _unavailable(f"cluster {self.name}: {self._detail}")
        elif self._is_silent(now, stall_s) and now - self.acked_at > stall_s:
            self.refusing = _unavailable(f"cluster {self.name}: {self._topics.detail(self.name)}")
        else:
            self.refusing = None

    def _is_silent(self, now: float, seconds: float) -> bool:
        return self._silent_since is not None and now - self._silent_since > seconds

    def _check_lane(self, lane: Lane, now: float) -> None:
        if lane.is_closed:
            self._let_go(lane)
            return
        lane.prune()
        # Events do not wait for ever for the producer, metadata or their turn. If an overdue batch
        # of another lane blocked them, the next producer gets time to send them first.
        self._end_unsent(lane, self._delivery_s + START_TIMEOUT_S)
        age_s = now - lane.moved_at if lane.events else 0.0
        if age_s > _PROBE_S and now - self._probed_at > _PROBE_S:
            self._probed_at = now
            self._topics.refresh_soon(self.name)
        patience_ms = (
            self.limits.election_ms if self._topics.healthy(self.name) else self.limits.stall_ms
        )
        lane.refusing = (
            _unavailable(f"no acknowledgement from {lane.topic}-{lane.partition} for {age_s:.0f} s")
            if age_s * 1000 > patience_ms
            else None
        )

    def _end_unsent(self, lane: Lane, seconds: float) -> None:
        if lane.events and not lane.is_in_flight and time.monotonic() - lane.unsent_since > seconds:
            where = f"{lane.topic}-{lane.partition}"
            detail = f"Kafka took nothing for {where} within {seconds:g} s; this was not written"
            lane.empty(_unavailable(detail))


def _unavailable(detail: str) -> Failure:
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)


_START_S = 5.0
_END_S = 3.0
_DRAIN_STEP_S = 0.01
_NOT_SENT = Failure(
    Reason.KAFKA_UNAVAILABLE, "this instance ended before Kafka could take it", retry_after_s=1
)
_SHUT_DOWN = Failure(Reason.DRAINING, "this instance has shut down", retry_after_s=1)


class KafkaLanes:
    """One lane for each topic-partition, created for its first record."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        topics: KafkaTopics,
        deliveries: Deliveries,
        limits: Mapping[str, LaneLimits],
        meter: Meter,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        """Check the compressions and create the clusters, without connecting.

        Args:
            clusters: The options by cluster name.
            topics: The topics.
            deliveries: The listener for results.
            limits: The limits by cluster name.
            meter: The metrics.
            is_pressed: See `Rounds`.

        Raises:
            ValueError: A cluster's compression needs a package that is missing.
        """
        for name, options in clusters.items():
            check_codec(name, options.compression)
        self._clusters = {
            name: ProducingCluster(name, options, limits[name], topics, meter, is_pressed)
            for name, options in clusters.items()
        }
        self._topics = topics
        self._deliveries = deliveries
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._former: dict[tuple[str, int], Lane] = {}  # closed lanes with a batch in flight
        self._tasks = OwnedTasks()
        self._is_closed = False
        topics.on_change(self._topic_changed)

    async def start(self, within_s: float = _START_S) -> None:
        """Begin to connect, and wait for the first attempt at each cluster.

        Args:
            within_s: How long to wait, in seconds. Attempts go on after that.
        """
        for cluster in self._clusters.values():
            self._tasks.keep(cluster.keep, f"producer of {cluster.name}")
            self._tasks.keep(cluster.watch, f"watch of {cluster.name}")
        tried = [asyncio.ensure_future(each.tried.wait()) for each in self._clusters.values()]
        if tried:
            _, late = await asyncio.wait(tried, timeout=within_s)
            for waiting in late:
                waiting.cancel()

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Return why this lane takes nothing now."""
        lane = self._lanes.get((state.name, partition))
        cluster = self._clusters[state.cluster]
        if lane is None:
            return cluster.refusing
        if lane.bytes >= cluster.limits.max_bytes or lane.events >= cluster.limits.max_events:
            return lane.refusing or _full(lane)
        return lane.refusing or cluster.refusing

    def put(self, publish: Publish) -> None:
        """Queue a record; `Deliveries` receives its outcome."""
        record = publish.record
        lane = self._lanes.get((record.topic, record.partition))
        if lane is None:
            lane = self._open(record.topic, record.partition)
        if lane is not None:
            lane.put(publish)
        else:
            asyncio.get_running_loop().call_soon(self._refuse, publish)

    def head(self, topic: str, partition: int) -> Publish | None:
        """Return the oldest open event of a lane (see `base.Lanes`)."""
        lane = self._lanes.get((topic, partition))
        return None if lane is None else lane.head()

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """Remove the events that were not handed over (see `base.Lanes`)."""
        lane = self._lanes.get((topic, partition))
        return ([], []) if lane is None else lane.withdraw()

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, events and bytes of every lane."""
        for lane in self._lanes.values():
            yield lane.topic, lane.partition, lane.events, lane.bytes

    def health(self, cluster: str) -> tuple[bool, str]:
        """Return whether the cluster takes records, and a text with the reason if not."""
        return self._clusters[cluster].health()

    async def drain(self, deadline_s: float) -> None:
        """Wait until all lanes are empty; end the remaining events after `deadline_s` seconds."""
        end = time.monotonic() + deadline_s
        while any(lane.events for lane in self._lanes.values()):
            if time.monotonic() >= end:
                await self.close()
                return
            await asyncio.sleep(_DRAIN_STEP_S)
            for lane in self._lanes.values():
                lane.prune()

    async def close(self) -> None:
        """Shut down at once, in bounded time, also if Kafka does not answer."""
        self._is_closed = True
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close(_NOT_SENT)
        await self._tasks.end(_END_S)
        for cluster in self._clusters.values():
            await cluster.close()

    def _open(self, topic: str, partition: int) -> Lane | None:
        state = self._topics.get(topic)
        if self._is_closed or state is None or partition >= state.partitions:
            return None
        cluster = self._clusters[state.cluster]
        lane = Lane(
            TopicPartition(topic, partition), self._batch_limit(state), cluster, self._deliveries
        )
        lane.is_stamped = state.rules.is_stamped
        lane.topic_id = state.topic_id
        lane.former = self._former.pop((topic, partition), None)
        self._tasks.keep(lane.run, f"lane {topic}-{partition}")
        self._lanes[topic, partition] = lane
        cluster.lanes.add(lane)
        return lane

    def _batch_limit(self, state: TopicState) -> int:
        return min(self._clusters[state.cluster].limits.max_batch_bytes, state.batch_limit_bytes)

    def _refuse(self, publish: Publish) -> None:
        if not publish.dropped:
            publish.advance(Stage.ENDED)
            failure = _SHUT_DOWN if self._is_closed else _gone(publish.record.topic)
            self._deliveries.failed([publish], failure)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        if before is None:
            return
        self._former = {tp: lane for tp, lane in self._former.items() if lane.is_in_flight}
        for partition in range(before.partitions):
            lane = self._lanes.get((before.name, partition))
            if lane is None:
                continue
            if (
                after is None
                or after.topic_id != before.topic_id
                or after.cluster != before.cluster
            ):
                del self._lanes[lane.topic, lane.partition]
                why = _gone(lane.topic) if after is None else _recreated(lane.topic)
                self._clusters[before.cluster].end_lane(lane, why)
                if lane.is_in_flight:
                    self._former[lane.topic, lane.partition] = lane
            else:
                lane.batch_limit = self._batch_limit(after)
                lane.is_stamped = after.rules.is_stamped


def _full(lane: Lane) -> Failure:
    detail = f"{lane.events} events wait for {lane.topic}-{lane.partition}"
    return Failure(Reason.OVERLOADED, detail, retry_after_s=OVERLOADED_RETRY_S)


def _recreated(topic: str) -> Failure:
    detail = f"topic {topic!r} was deleted and created again; this was not written"
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)


def _gone(topic: str) -> Failure:
    return Failure(Reason.UNKNOWN_TOPIC, f"topic {brief(topic)} does not exist in Kafka any more")
