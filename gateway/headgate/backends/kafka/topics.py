"""The topics that exist and what Kafka allows in them, read from every cluster all the time."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from headgate.backends.kafka.in_words import kafka_in_words
from headgate.backends.kafka.options import ClusterOptions
from headgate.backends.kafka.topic_reader import READ_ERRORS, TopicReader
from headgate.backends.owned import OwnedTasks
from headgate.core.outage import Outage
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.terminal.figures import counted
from headgate.core.topics.topic import PartitionState, TopicState

log = logging.getLogger("headgate.backends.topics")

_RETRY_S = 1.0  # while a cluster does not answer
_PAUSE_S = 0.5  # between two refreshes that were asked for
_START_S = 5.0
_END_S = 3.0
RETRY_AFTER_S = 2

Change = Callable[[TopicState | None, TopicState | None], None]


class KafkaTopics:
    """Implements `base.Topics`. Between refreshes `get` costs one dict lookup."""

    def __init__(self, clusters: Mapping[str, ClusterOptions], refresh_ms: int):
        self._readings = {
            name: _Reading(name, options, refresh_ms / 1000, self._publish)
            for name, options in clusters.items()
        }
        self._states: dict[str, TopicState] = {}
        self._listeners: list[Change] = []
        self._wanted: Callable[[str], str | None] = lambda topic: None
        self._tasks = OwnedTasks()

    async def start(self, wanted: Callable[[str], str | None], within_s: float = _START_S) -> None:
        """Begin to read, and wait for the first answers.

        Args:
            wanted: Returns the cluster that a topic belongs to by policy, or None for a topic that
                is not ours. Called again at every refresh.
            within_s: How long to wait, in seconds. Reading goes on after that.
        """
        self._wanted = wanted
        for reading in self._readings.values():
            self._tasks.keep(partial(reading.run, wanted), f"topics of {reading.cluster}")
        first = [asyncio.ensure_future(one.tried.wait()) for one in self._readings.values()]
        if first:
            _, late = await asyncio.wait(first, timeout=within_s)
            for waiting in late:
                waiting.cancel()

    async def close(self) -> None:
        """End reading and drop the connections."""
        await self._tasks.end(_END_S)
        for reading in self._readings.values():
            await reading.reader.close()

    def get(self, topic: str) -> TopicState | None:
        """Return the topic's newest known state; None when its cluster does not have it."""
        return self._states.get(topic)

    def states(self) -> list[TopicState]:
        """Return all topics, by name."""
        return [self._states[name] for name in sorted(self._states)]

    def missing_reason(self, topic: str) -> Failure:
        """Say why `get` knows no such topic: it is unknown, or its cluster has not answered yet.

        A topic that was just created is read soon after somebody asked for it.
        """
        cluster = self._wanted(topic)
        if cluster is not None:
            self.refresh_soon(cluster)
        if cluster in self._readings and not self._readings[cluster].was_read:
            detail = f"cluster {cluster} has not answered since the start"
            return Failure(Reason.KAFKA_UNAVAILABLE, detail, retry_after_s=RETRY_AFTER_S)
        return Failure(Reason.UNKNOWN_TOPIC, f"there is no topic {brief(topic)} here")

    def cluster_ids(self) -> dict[str, str]:
        """Return Kafka's own ids of the clusters, by our names, as far as they have answered."""
        found = {name: one.reader.cluster_id for name, one in self._readings.items()}
        return {name: cluster_id for name, cluster_id in found.items() if cluster_id is not None}

    async def partitions(self, topic: str) -> list[PartitionState]:
        """Return a topic's partitions with their replicas. Raises Refused."""
        state = self._states.get(topic)
        if state is None:
            raise Refused(self.missing_reason(topic))
        try:
            return await self._readings[state.cluster].reader.partitions(topic)
        except READ_ERRORS as error:
            log.warning("partitions of topic %s cannot be read: %r", topic, error)
            detail = f"cluster {state.cluster} does not answer: {kafka_in_words(error)}"
            failure = Failure(Reason.KAFKA_UNAVAILABLE, detail, None, RETRY_AFTER_S)
            raise Refused(failure) from error

    def healthy(self, cluster: str) -> bool:
        """Tell whether the cluster answered the last time it was asked."""
        return self._readings[cluster].answering

    def is_fresh(self, cluster: str, since_s: float) -> bool:
        """Tell whether the states are of a reading that began after this time (monotonic seconds).
        If not, the cluster is read again soon."""
        reading = self._readings[cluster]
        if reading.read_s > since_s:
            return True
        reading.requested.set()
        return False

    def detail(self, cluster: str) -> str:
        """Say how the last reading of the cluster went."""
        return self._readings[cluster].detail

    def refresh_soon(self, cluster: str | None = None) -> None:
        """Read again now (at most every 0.5 s), from one cluster or all."""
        for name, reading in self._readings.items():
            if cluster in (None, name):
                reading.requested.set()

    def on_change(self, listener: Change) -> None:
        """Call `listener(old, new)` at every change: None for old = appeared, for new = gone."""
        self._listeners.append(listener)

    def recall(self, states: Iterable[TopicState]) -> None:
        """What a cluster said in an earlier run is good until it answers in this one."""
        for state in states:
            reading = self._readings.get(state.cluster)
            is_ours = self._wanted(state.name) == state.cluster
            if reading is None or reading.was_read or not is_ours or state.name in self._states:
                continue
            self._states[state.name] = state
            self._report(None, state)

    def grown(self, topic: str, topic_id: bytes, partitions: int) -> None:
        """Somebody else knows that the topic has so many partitions."""
        state = self._states.get(topic)
        if state is None or state.topic_id != topic_id or state.partitions >= partitions:
            return
        self._states[topic] = grown = state._replace(partitions=partitions)
        self._report(state, grown)
        self.refresh_soon(state.cluster)

    def _publish(self, cluster: str, states: Mapping[str, TopicState]) -> None:
        """All of a reading is in force before anybody hears of it: who hears of a topic may ask
        whether its held topic is there.
        """
        gone = [one for one in self._states.values() if one.cluster == cluster]
        changed: list[tuple[TopicState | None, TopicState | None]] = []
        for state in states.values():
            before = self._states.get(state.name)
            if before is not None and before.topic_id == state.topic_id:
                # A broker may be behind, but a topic never has fewer partitions than before.
                state = state._replace(partitions=max(before.partitions, state.partitions))
            if before != state:  # else the old object stays, and with it what was made from it
                self._states[state.name] = state
                changed.append((before, state))
        for state in gone:
            if state.name not in states:
                del self._states[state.name]
                changed.append((state, None))
        for pair in changed:
            self._report(*pair)

    def _report(self, before: TopicState | None, after: TopicState | None) -> None:
        for listener in self._listeners:
            listener(before, after)


class _Reading:
    """Keeps one cluster's topics fresh."""

    def __init__(
        self,
        cluster: str,
        options: ClusterOptions,
        refresh_s: float,
        publish: Callable[[str, Mapping[str, TopicState]], None],
    ) -> None:
        self.cluster = cluster
        self.reader = TopicReader(cluster, options)
        self.requested = asyncio.Event()
        self.tried = asyncio.Event()
        self.answering = False
        self.was_read = False
        self.read_s = -math.inf  # when the last successful reading began
        self.detail = "not asked yet"
        self._outage = Outage(time.monotonic)
        self._refresh_s = refresh_s
        self._publish = publish
        self._states: Mapping[str, TopicState] = {}

    async def run(self, wanted: Callable[[str], str | None]) -> None:
        """Read, wait, read."""
        while True:
            self.requested.clear()
            await self._read_once(wanted)
            self.tried.set()
            await asyncio.sleep(_PAUSE_S)
            await self._next_time()

    async def _next_time(self) -> None:
        try:
            async with asyncio.timeout(self._refresh_s if self.answering else _RETRY_S):
                await self.requested.wait()
        except TimeoutError:
            pass

    async def _read_once(self, wanted: Callable[[str], str | None]) -> None:
        began_s = time.monotonic()
        try:
            states = await self.reader.read(
                lambda topic: wanted(topic) == self.cluster, self._states
            )
        except READ_ERRORS as error:
            self._failed(error)
            await self.reader.close()
            return
        if (away_s := self._outage.ends()) is not None:
            log.info("cluster %s answers again", self.cluster, extra={"away_s": away_s})
        self.answering = self.was_read = True
        self.detail = counted(len(states), "topic")
        self._states = states
        self._publish(self.cluster, states)
        self.read_s = began_s

    def _failed(self, error: BaseException) -> None:
        if self._outage.begins() or not self.was_read:
            log.warning("cluster %s does not answer: %r", self.cluster, error)
        self.answering = False
        self.detail = f"no answer: {kafka_in_words(error)}"
