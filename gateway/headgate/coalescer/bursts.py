"""Burst commits: a marker in every partition of the held topics that may hold the burst's events.

No gateway knows which partitions hold them: the events may have come through any gateway. The
markers go through the lanes. So they follow every event with a `held` response from before the
commit. A second commit of the same burst is harmless.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from headgate.backends.base import Lanes
from headgate.coalescer.windows import burst_end_headers
from headgate.ingest.admission import SpendQuota
from headgate.ingest.gate import Gate
from headgate.kafka.topics import KafkaTopics
from headgate.model.internal_topics import held_topics_of
from headgate.model.outcome import Failure, Outcome, Reason, Refused, brief, malformed
from headgate.model.policy import PolicyTable
from headgate.model.publish import Publish, Record, Stage
from headgate.model.record import PRODUCER, RECEIVED_AT, size_of
from headgate.model.topics import TopicState, is_glob

_RETRY_AFTER_S = 2

MayPost = Callable[[str], bool]


class Markers:
    """A burst's markers on their way to Kafka: the owner of their publishes."""

    def __init__(self) -> None:
        self.publishes: list[Publish] = []
        self.failure: Failure | None = None
        self._open = 0
        self._all_ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, publish: Publish) -> None:
        """Add a marker. All are added before the first goes to its lane."""
        publish.owner = self
        self.publishes.append(publish)
        self._open += 1

    def ended(self, _part: Publish, outcome: Outcome) -> None:
        """Note the end of a marker (`model.owner.RecordOwner`)."""
        self.failure = self.failure or outcome.failure
        self._open -= 1
        if not self._open and not self._all_ended.done():
            self._all_ended.set_result(None)

    async def wait(self, timeout_s: float) -> Failure | None:
        """Wait until all markers are in Kafka.

        Args:
            timeout_s: Longest wait, in seconds.

        Returns:
            The failure if some markers are not in Kafka in time, or at all.
        """
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_ended
        except TimeoutError:
            return self._give_up(timeout_s)
        return self.failure

    def _give_up(self, timeout_s: float) -> Failure:
        is_with_kafka = False
        for publish in self.publishes:
            is_with_kafka |= publish.stage >= Stage.HANDED
            publish.dropped = publish.stage < Stage.HANDED
        reason = Reason.UNKNOWN if is_with_kafka else Reason.KAFKA_UNAVAILABLE
        detail = f"Kafka did not take the burst's end within {timeout_s:g} s; commit it again"
        return Failure(reason, detail, retry_after_s=_RETRY_AFTER_S)


class Bursts:
    """A committer of bursts.

    Args:
        gate: Admission rules by topic.
        topics: Topics of the clusters.
        policies: Returns the active policies.
        lanes: Lanes that the markers go through.
        spend_quota: Spends a producer's quota, or returns the refusal.
        clock_ms: Wall clock, in milliseconds since 1970.
        timeout_s: Longest wait for Kafka, in seconds.
    """

    def __init__(
        self,
        gate: Gate,
        topics: KafkaTopics,
        policies: Callable[[], PolicyTable],
        lanes: Lanes,
        spend_quota: SpendQuota,
        clock_ms: Callable[[], int],
        timeout_s: float,
    ) -> None:
        self._gate = gate
        self._topics = topics
        self._policies = policies
        self._lanes = lanes
        self._spend_quota = spend_quota
        self._clock_ms = clock_ms
        self._timeout_s = timeout_s

    async def commit(
        self, burst: bytes, producer: str, may_post: MayPost, named: Iterable[str] = ()
    ) -> list[str]:
        """End a burst in its topics.

        Args:
            burst: Name of the burst.
            producer: Producer that commits it.
            may_post: Returns whether the producer may post to a topic.
            named: Names of the topics. Without any, all topics that coalesce and that the
                producer may post to.

        Returns:
            The names of the topics, once Kafka has acknowledged the markers.

        Raises:
            Refused: The burst may have ended in some topics, and can be committed again.
        """
        states = self._named(named, may_post) if named else self._all(may_post)
        failure = self._spend_quota(producer, 1, 0) or self._refusal(states.values())
        if failure is not None:
            raise Refused(failure)
        markers = Markers()
        for state in states.values():
            for record in self._records(state, burst, producer):
                size = size_of(None, record.value, record.headers)
                markers.add(Publish(record, size, None, -1, None))
        for publish in markers.publishes:
            self._lanes.put(publish)
        failure = await markers.wait(self._timeout_s)
        if failure is not None:
            raise Refused(failure)
        return list(states)

    def _named(self, named: Iterable[str], may_post: MayPost) -> dict[str, TopicState]:
        held_topics = {}
        for topic in named:
            if not may_post(topic):
                detail = f"this producer may not post to topic {brief(topic)}"
                raise Refused(Failure(Reason.FORBIDDEN, detail))
            try:
                held = self._gate.find_route(topic).held
            except Refused as refused:
                failure = self._gate.with_suggestion(refused.failure, topic, may_post)
                raise Refused(failure) from refused
            if held is None:
                raise Refused(
                    malformed(f"topic {brief(topic)} does not coalesce: it has no bursts")
                )
            held_topics[topic] = held
        return held_topics

    def _all(self, may_post: MayPost) -> dict[str, TopicState]:
        held_topics = {}
        for topic in sorted(filter(may_post, self._coalescing())):
            try:
                held = self._gate.find_route(topic).held
            except Refused as refused:
                if refused.failure.reason is not Reason.UNKNOWN_TOPIC:
                    raise
                continue  # configured, but not in Kafka: nothing can be held
            if held is not None:
                held_topics[topic] = held
        if not held_topics:
            raise Refused(self._no_burst())
        return held_topics

    def _coalescing(self) -> set[str]:
        """Return the names of topics that may hold events, by configuration or by held topic."""
        policies = self._policies()
        names = {
            policy.pattern
            for policy in policies.policies
            if policy.coalesces and not is_glob(policy.pattern)
        }
        return names.union(held_topics_of(self._topics.states(), policies))

    def _no_burst(self) -> Failure:
        for policy in self._policies().policies:
            if policy.coalesces:
                failure = self._topics.missing_reason(policy.pattern)
                if failure.reason is not Reason.UNKNOWN_TOPIC:
                    return failure  # its cluster has not answered yet
        detail = "there is no topic that coalesces and that this producer may post to"
        return Failure(Reason.UNKNOWN_TOPIC, detail)

    def _refusal(self, states: Iterable[TopicState]) -> Failure | None:
        """Return the failure of the first lane that takes nothing now; None if all take records.

        If one lane refuses, no lane gets a marker.
        """
        failures = (
            self._lanes.refusal(state, partition)
            for state in states
            for partition in range(state.partitions)
        )
        return next((failure for failure in failures if failure is not None), None)

    def _records(self, held: TopicState, burst: bytes, producer: str) -> Iterator[Record]:
        now_ms = self._clock_ms()
        headers = [
            *burst_end_headers(burst),
            (PRODUCER, producer.encode()),
            (RECEIVED_AT, b"%d" % now_ms),
        ]
        for partition in range(held.partitions):
            yield Record(held.name, partition, None, b"", headers, now_ms)
