"""Topics and lanes in memory: the same behaviour towards ingest, and faults at will.

For tests, and for looking at the gateway without Kafka. What is promised of a log holds here too:
offsets count up from 0 in each partition, and what was acknowledged stays.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

from headgate.backends.base import Deliveries
from headgate.kafka.options import LaneLimits
from headgate.model.outcome import OVERLOADED_RETRY_S, Failure, Reason, brief
from headgate.model.publish import Publish, Record, Stage, advance_all
from headgate.model.record import BATCH_OVERHEAD
from headgate.model.route import too_large_for_kafka
from headgate.model.topics import TopicState

Change = Callable[[TopicState | None, TopicState | None], None]

_STEP_S = 0.001
_NOT_SENT = Failure(Reason.KAFKA_UNAVAILABLE, "ended before the log took it", retry_after_s=1)
_GONE = Failure(Reason.UNKNOWN_TOPIC, "the topic is gone")
_RECREATED = Failure(Reason.KAFKA_UNAVAILABLE, "the topic was created again", retry_after_s=1)
_UNKNOWN = Failure(Reason.UNKNOWN, "handed over, and its end is not known")


class MemoryTopics:
    """Implements `base.Topics` over a dict."""

    def __init__(self, states: Iterable[TopicState] = ()) -> None:
        self._states = {state.name: state for state in states}
        self._listeners: list[Change] = []

    def get(self, topic: str) -> TopicState | None:
        """Return the topic's state."""
        return self._states.get(topic)

    def states(self) -> list[TopicState]:
        """Return all topics, by name."""
        return [self._states[name] for name in sorted(self._states)]

    def missing_reason(self, topic: str) -> Failure:
        """Say why `get` knows no such topic."""
        return Failure(
            Reason.UNKNOWN_TOPIC, f"there is no topic {brief(topic)} in Kafka: create it"
        )

    def healthy(self, cluster: str) -> bool:
        """Memory always answers."""
        return True

    def on_change(self, listener: Change) -> None:
        """Call `listener(old, new)` at every change."""
        self._listeners.append(listener)

    def change(self, topic: str, state: TopicState | None) -> None:
        """Create, change or (None) delete a topic."""
        before = self._states.pop(topic, None)
        if state is not None:
            self._states[topic] = state
        for listener in self._listeners:
            listener(before, state)


class MemoryLanes:
    """Implements `base.Lanes`. Faults: `pause` (the log takes nothing), `is_silent` (it takes
    records and acknowledges nothing), `next_failure` (how the next batch of any lane ends).
    """

    def __init__(
        self, topics: MemoryTopics, deliveries: Deliveries, limits: LaneLimits | None = None
    ) -> None:
        self.log: dict[tuple[str, int], list[Record]] = {}
        self.is_paused = False
        self.is_silent = False
        self.refusing: Failure | None = None
        self.next_failure: Failure | None = None
        self._topics = topics
        self._deliveries = deliveries
        self._limits = limits or LaneLimits()
        self._lanes: dict[tuple[str, int], _MemoryLane] = {}
        self._is_closed = False
        topics.on_change(self._topic_changed)

    async def start(self) -> None:
        """Nothing to connect."""

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Return why this lane takes nothing now."""
        lane = self._lanes.get((state.name, partition))
        if self.refusing is None and lane is not None and lane.is_full(self._limits):
            return Failure(Reason.OVERLOADED, "the lane is full", retry_after_s=OVERLOADED_RETRY_S)
        return self.refusing

    def put(self, publish: Publish) -> None:
        """Take a record."""
        record = publish.record
        state = self._topics.get(record.topic)
        publish.advance(Stage.LANE)
        if self._is_closed or state is None or record.partition >= state.partitions:
            asyncio.get_running_loop().call_soon(self._refuse, publish)
            return
        place = (record.topic, record.partition)
        lane = self._lanes.setdefault(place, _MemoryLane())
        lane.queue.append(publish)
        self._soon(place)

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        """See `base.Lanes`."""
        lane = self._lanes.get((topic, partition))
        found = [] if lane is None else [one for one in lane.all if not one.dropped]
        return found[0] if found else None

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """See `base.Lanes`."""
        lane = self._lanes.get((topic, partition))
        if lane is None:
            return [], []
        taken, lane.queue = [one for one in lane.queue if not one.dropped], []
        return list(lane.in_flight), taken

    def resume(self) -> None:
        """End `pause` and `is_silent`."""
        self.is_paused = self.is_silent = False
        for place in self._lanes:
            self._soon(place)

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, events and bytes of every lane."""
        for (topic, partition), lane in self._lanes.items():
            yield topic, partition, len(lane.all), sum(one.size for one in lane.all)

    def health(self, cluster: str) -> tuple[bool, str]:
        """Tell whether the log takes records."""
        return self.refusing is None, self.refusing.detail if self.refusing else "in memory"

    async def drain(self, deadline_s: float) -> None:
        """Wait until all lanes are empty; what is left after `deadline_s` seconds ends."""
        end = time.monotonic() + deadline_s
        while any(lane.all for lane in self._lanes.values()):
            if time.monotonic() >= end:
                await self.close()
                return
            await asyncio.sleep(_STEP_S)

    async def close(self) -> None:
        """End everything that is left."""
        self._is_closed = True
        for lane in self._lanes.values():
            queued, in_flight = lane.queue, lane.in_flight
            lane.queue, lane.in_flight = [], []
            self._fail(queued, _NOT_SENT)
            self._fail(in_flight, _UNKNOWN)

    def _soon(self, place: tuple[str, int]) -> None:
        asyncio.get_running_loop().call_soon(self._step, place)

    def _step(self, place: tuple[str, int]) -> None:
        lane = self._lanes.get(place)
        state = self._topics.get(place[0])
        if lane is None or state is None or self.is_paused:
            return
        if lane.in_flight:
            if not self.is_silent:
                self._end(place, lane, state)
        else:
            lane.in_flight = lane.take(min(self._limits.max_batch_bytes, state.batch_limit_bytes))
            if lane.in_flight:
                self._deliveries.handed_over(lane.in_flight)
        if lane.all:
            self._soon_unless_waiting(place)

    def _soon_unless_waiting(self, place: tuple[str, int]) -> None:
        if not self.is_silent or not self._lanes[place].in_flight:
            self._soon(place)

    def _end(self, place: tuple[str, int], lane: "_MemoryLane", state: TopicState) -> None:
        batch, lane.in_flight = lane.in_flight, []
        failure, self.next_failure = self.next_failure, None
        limit = state.max_message_bytes
        if failure is None and len(batch) == 1 and batch[0].size + BATCH_OVERHEAD > limit:
            failure = too_large_for_kafka(batch[0].size, limit)
        if failure is not None:
            self._fail(batch, failure)
            return
        log = self.log.setdefault(place, [])
        base_offset = len(log)
        if state.rules.is_stamped:
            for one in batch:
                one.record.timestamp_ms = time.time_ns() // 1_000_000
        log.extend(one.record for one in batch)
        advance_all(batch, Stage.ENDED)
        self._deliveries.acknowledged(batch, base_offset)

    def _fail(self, batch: Iterable[Publish], failure: Failure) -> None:
        ended = [one for one in batch if not one.dropped]
        advance_all(ended, Stage.ENDED)
        if ended:
            self._deliveries.failed(ended, failure)

    def _refuse(self, publish: Publish) -> None:
        reason = Reason.DRAINING if self._is_closed else Reason.UNKNOWN_TOPIC
        self._fail([publish], Failure(reason, "the lane is closed"))

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        if before is None or (after is not None and after.topic_id == before.topic_id):
            return
        for place in [one for one in self._lanes if one[0] == before.name]:
            lane = self._lanes.pop(place)
            self.log.pop(place, None)
            self._fail(lane.queue, _GONE if after is None else _RECREATED)
            self._fail(lane.in_flight, _UNKNOWN)


class _MemoryLane:
    """queue: not handed over.  in_flight: the one batch that is."""

    def __init__(self) -> None:
        self.queue: list[Publish] = []
        self.in_flight: list[Publish] = []

    @property
    def all(self) -> list[Publish]:
        return self.in_flight + self.queue

    def is_full(self, limits: LaneLimits) -> bool:
        size = sum(one.size for one in self.all)
        return size >= limits.max_bytes or len(self.all) >= limits.max_events

    def take(self, limit: int) -> list[Publish]:
        """Remove the next batch from the queue, without the dropped ones."""
        self.queue = [one for one in self.queue if not one.dropped]
        size, count = BATCH_OVERHEAD, 0
        for one in self.queue:
            size += one.size
            if count and size > limit:
                break
            count += 1
        batch, self.queue = self.queue[:count], self.queue[count:]
        advance_all(batch, Stage.HANDED)
        return batch
