"""Lanes into Kafka: `base.Lanes` over real clusters."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from headgate.backends.base import Deliveries
from headgate.backends.owned import OwnedTasks
from headgate.kafka.lane import Lane, ProducingCluster
from headgate.kafka.options import ClusterOptions, LaneLimits, check_codec
from headgate.kafka.topics import RETRY_AFTER_S, KafkaTopics
from headgate.metrics.library_lines import in_cluster
from headgate.metrics.meter import Meter
from headgate.model.outcome import OVERLOADED_RETRY_S, Failure, Reason, brief
from headgate.model.publish import Publish, Stage
from headgate.model.topics import TopicState

_START_S = 5.0
_END_S = 3.0
_DRAIN_STEP_S = 0.01
_NOT_SENT = Failure(
    Reason.KAFKA_UNAVAILABLE, "this instance ended before Kafka could take it", retry_after_s=1
)
_SHUT_DOWN = Failure(Reason.DRAINING, "this instance has shut down", retry_after_s=1)


class KafkaLanes:
    """One lane for each topic-partition, created for its first record.

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

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        topics: KafkaTopics,
        deliveries: Deliveries,
        limits: Mapping[str, LaneLimits],
        meter: Meter,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
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
            self._tasks.keep(cluster.maintain, f"producer of {cluster.name}")
            self._tasks.keep(cluster.watch, f"watch of {cluster.name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                for cluster in self._clusters.values():
                    await cluster.tried.wait()

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

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        """Return the oldest open event of a lane (see `base.Lanes`)."""
        lane = self._lanes.get((topic, partition))
        return None if lane is None else lane.oldest_event()

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
                lane.discard_dropped()

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
        former = self._former.pop((topic, partition), None)
        lane = Lane(state, partition, cluster, self._deliveries, former)
        self._tasks.keep(partial(_run, lane, state.cluster), f"lane {topic}-{partition}")
        self._lanes[topic, partition] = lane
        cluster.lanes.add(lane)
        return lane

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
                lane.follow(after)


async def _run(lane: Lane, cluster: str) -> None:
    in_cluster(cluster)
    await lane.run()


def _full(lane: Lane) -> Failure:
    detail = f"{lane.events} events wait for {lane.topic}-{lane.partition}"
    return Failure(Reason.OVERLOADED, detail, retry_after_s=OVERLOADED_RETRY_S)


def _recreated(topic: str) -> Failure:
    detail = f"topic {topic!r} was deleted and created again; this was not written"
    return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)


def _gone(topic: str) -> Failure:
    return Failure(Reason.UNKNOWN_TOPIC, f"topic {brief(topic)} does not exist in Kafka any more")
