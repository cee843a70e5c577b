"""Honest small stand-ins for what ingest talks to: they keep the protocols of `backends.base`."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.backends.base import Deliveries, Verdicts
from headgate.formats.json_text import KeyReader
from headgate.model.outcome import Failure, Reason
from headgate.model.policy import TopicPolicy
from headgate.model.publish import Common, Publish, Stage, advance_all
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState

NOW_MS = 1_700_000_000_000


def topic_state(name: str = "orders", partitions: int = 3, **changes: object) -> TopicState:
    """A topic as Kafka describes it."""
    return TopicState(name, "main", b"\x01" * 16, partitions)._replace(**changes)


def policy(**options: object) -> TopicPolicy:
    """A topic's options; `orders` on cluster `main` unless said otherwise."""
    return TopicPolicy(**{"pattern": "orders", "cluster": "main", **options})  # type: ignore[arg-type]


def route(state: TopicState | None = None, depth: int = 128, **options: object) -> Route:
    """The rules of a topic with these options."""
    rules = policy(**options)
    return Route(rules, state or topic_state(), KeyReader.parse(rules.key), depth)


def common(**changes: object) -> Common:
    """What the events of one request share: `orders` and nothing else, unless said otherwise."""
    nothing = {
        "key": None,
        "timestamp_ms": None,
        "tombstone": False,
        "request_number": 0,
        "headers": [],
    }
    given = {"route": route(), **nothing, "now_ms": NOW_MS, **changes}
    return Common(**given)  # type: ignore[arg-type]


class FakeTopics:
    """Topics that a test puts there; `away` is why nothing is known of the others."""

    def __init__(self, *states: TopicState) -> None:
        self.states = {state.name: state for state in states}
        self.away: Failure | None = None
        self.missed: list[str] = []

    def get(self, topic: str) -> TopicState | None:
        return self.states.get(topic)

    def missing_reason(self, topic: str) -> Failure:
        self.missed.append(topic)
        unknown = Failure(Reason.UNKNOWN_TOPIC, f"there is no topic {topic!r} in Kafka: create it")
        return self.away or unknown


class NoQuotas:
    """Everyone may send anything, until `failure` is set."""

    failure: Failure | None = None

    def __call__(self, producer: str, events: int, size: int) -> Failure | None:
        return self.failure


class FakeLanes:
    """Queues that move when the test says so; `logs` is what Kafka holds.

    As the protocol asks: what was dropped is never handed over and never reported.
    """

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self.queues: dict[int, list[Publish]] = {}
        self.handed: dict[int, list[Publish]] = {}
        self.logs: dict[int, list[Publish]] = {}
        self.refusing: dict[int, Failure] = {}

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        return self.refusing.get(partition)

    def put(self, publish: Publish) -> None:
        publish.advance(Stage.LANE)
        self.queues.setdefault(publish.record.partition, []).append(publish)

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        waiting = [*self.handed.get(partition, []), *self.queues.get(partition, [])]
        return next((one for one in waiting if not one.dropped), None)

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        taken = [one for one in self.queues.pop(partition, []) if not one.dropped]
        return list(self.handed.get(partition, [])), taken

    def hand_over(self, partition: int, limit: int) -> None:
        """Give the next batch to the producer, if none is with it."""
        queue = self.queues.get(partition, [])
        if self.handed.get(partition):
            return
        batch: list[Publish] = []
        while queue and len(batch) < limit:
            publish = queue.pop(0)
            if not publish.dropped:
                publish.advance(Stage.HANDED)
                batch.append(publish)
        if batch:
            self.handed[partition] = batch
            self._deliveries.handed_over(batch)

    def acknowledge(self, partition: int) -> None:
        batch = self.handed.pop(partition, [])
        if batch:
            log = self.logs.setdefault(partition, [])
            base_offset = len(log)
            log.extend(batch)
            self._end(batch)
            self._deliveries.acknowledged(batch, base_offset)

    def fail(self, partition: int, failure: Failure) -> None:
        batch = self.handed.pop(partition, [])
        if batch:
            self._end(batch)
            self._deliveries.failed(batch, failure)

    def put_back(self, partition: int) -> None:
        """The producer was dropped before any of its batch had left: it waits again."""
        batch = self.handed.pop(partition, [])
        advance_all(batch, Stage.LANE)
        self.queues[partition] = batch + self.queues.get(partition, [])

    def _end(self, batch: list[Publish]) -> None:
        advance_all(batch, Stage.ENDED)


class FakeSuppression:
    """Reserves when the test says so, in order of arrival; equal events follow.

    The last acknowledged digest of a key is its published state.
    """

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self.queue: list[Publish] = []
        self.latest: dict[bytes, Publish] = {}
        self.published: dict[bytes, tuple[bytes, int]] = {}
        self.in_flight: dict[bytes, int] = {}
        self.ends: list[tuple[Publish, bool]] = []
        self.held = 0

    def reserve(self, publish: Publish) -> None:
        key = publish.record.key or b""
        leader = self.latest.get(key)
        if leader is not None and not publish.reserved.force and self._may_follow(publish, leader):
            publish.leader = leader
            leader.followers = [*(leader.followers or []), publish]
            return
        self.latest[key] = publish
        publish.advance(Stage.QUEUED)
        self.queue.append(publish)

    def let_pass(self, scope: Scope, count: int) -> bool:
        first = [one for one in self.queue if one.reserved.scope is scope and not one.dropped]
        self.queue = [one for one in self.queue if one.reserved.scope is not scope]
        for publish in first:
            key = publish.record.key or b""
            self.in_flight[key] = self.in_flight.get(key, 0) + 1
            self._verdicts.publish(publish)
        return True

    def hold(self, scope: Scope) -> None:
        self.held += 1

    def release(self, scope: Scope) -> None:
        self.held -= 1

    def _may_follow(self, publish: Publish, leader: Publish) -> bool:
        waits = leader.stage in (Stage.QUEUED, Stage.LANE)
        return waits and not leader.dropped and leader.digest == publish.digest

    def decide(self, refusal: Failure | None = None) -> None:
        """Answer the oldest reservation."""
        if not self.queue:
            return
        publish = self.queue.pop(0)
        key = publish.record.key or b""
        if publish.dropped:
            return
        digest, offset = self.published.get(key, (b"", -1))
        if refusal is not None:
            publish.advance(Stage.ENDED)
            self._verdicts.refused(publish, refusal)
        elif (
            digest == publish.digest and not publish.reserved.force and not self.in_flight.get(key)
        ):
            publish.advance(Stage.ENDED)
            self._verdicts.unchanged(publish, offset)
        else:
            self.in_flight[key] = self.in_flight.get(key, 0) + 1
            self._verdicts.publish(publish)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        for offset, publish in enumerate(batch, base_offset):
            if publish.digest is not None:
                key = publish.record.key or b""
                self.in_flight[key] -= 1
                self.published[key] = (publish.digest, offset)

    def ended(self, publish: Publish, certain: bool) -> None:
        self.ends.append((publish, certain))
        if publish.digest is not None:
            key = publish.record.key or b""
            self.in_flight[key] -= 1
            if not certain:
                self.published.pop(key, None)
