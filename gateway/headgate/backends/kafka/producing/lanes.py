"""The way into Kafka: `base.Lanes` over real clusters."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from aiokafka.structs import TopicPartition

from headgate.backends.base import Deliveries
from headgate.backends.kafka.options import ClusterOptions, LaneLimits, check_codec
from headgate.backends.kafka.producing.cluster import LaneMeter, ProducingCluster
from headgate.backends.kafka.producing.lane import Lane
from headgate.backends.kafka.topics import RETRY_AFTER_S, KafkaTopics
from headgate.backends.owned import OwnedTasks
from headgate.core.admission import OVERLOADED_RETRY_S
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.refusal import brief
from headgate.core.topics.topic import TopicState

__all__ = ["ClusterOptions", "KafkaLanes", "LaneLimits", "LaneMeter"]

_START_S = 5.0
_END_S = 3.0
_DRAIN_STEP_S = 0.01
_NOT_SENT = Failure(
    Reason.KAFKA_UNAVAILABLE, "this instance ended before Kafka could take it", retry_after_s=1
)
_ENDED = Failure(Reason.DRAINING, "this instance has shut down", retry_after_s=1)


class KafkaLanes:
    """One lane for each topic-partition, made when its first record comes."""

    def __init__(
        self,
        clusters: Mapping[str, ClusterOptions],
        topics: KafkaTopics,
        deliveries: Deliveries,
        limits: Mapping[str, LaneLimits],
        meter: LaneMeter,
        is_pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        """clusters, limits: by the cluster's name.  is_pressed: see `Rounds`.

        Raises ValueError when a cluster's compression needs a package that is not there.
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
        self._former: dict[tuple[str, int], Lane] = {}  # closed, with a batch in flight
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
        tried = [asyncio.ensure_future(one.tried.wait()) for one in self._clusters.values()]
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
        """Take a record; how it ends is told to `Deliveries`."""
        record = publish.record
        lane = self._lanes.get((record.topic, record.partition))
        if lane is None:
            lane = self._open(record.topic, record.partition)
        if lane is not None:
            lane.put(publish)
        else:
            asyncio.get_running_loop().call_soon(self._refuse, publish)

    def head(self, topic: str, partition: int) -> Publish | None:
        """See `base.Lanes`."""
        lane = self._lanes.get((topic, partition))
        return None if lane is None else lane.head()

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """See `base.Lanes`."""
        lane = self._lanes.get((topic, partition))
        return ([], []) if lane is None else lane.withdraw()

    def depths(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield topic, partition, events and bytes of every lane."""
        for lane in self._lanes.values():
            yield lane.topic, lane.partition, lane.events, lane.bytes

    def health(self, cluster: str) -> tuple[bool, str]:
        """Tell whether the cluster takes records, and why not."""
        return self._clusters[cluster].health()

    async def drain(self, deadline_s: float) -> None:
        """Wait until all lanes are empty; what is left after `deadline_s` seconds ends."""
        end = time.monotonic() + deadline_s
        while any(lane.events for lane in self._lanes.values()):
            if time.monotonic() >= end:
                await self.close()
                return
            await asyncio.sleep(_DRAIN_STEP_S)
            for lane in self._lanes.values():
                lane.prune()

    async def close(self) -> None:
        """End all at once, in bounded time, whatever Kafka does."""
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
            failure = _ENDED if self._is_closed else _gone(publish.record.topic)
            self._deliveries.failed([publish], failure)

    def _topic_changed(self, before: TopicState | None, after: TopicState | None) -> None:
        if before is None:
            return
        self._former = {place: lane for place, lane in self._former.items() if lane.is_in_flight}
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
