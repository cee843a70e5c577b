"""Whether a topic takes an event now: decided here alone, and asked by every front.

Whoever adds a reason (a topic that is paused, say) adds it to `open`.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from headgate.backends.base import Suppression
from headgate.config.settings import ProducerSettings
from headgate.core.admission import Admission, InFlightLimit
from headgate.core.coalescing import refusal_of
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.publish import Publish, Stage, Ticket
from headgate.core.refusal import Refused, brief, malformed
from headgate.core.request import RequestOptions
from headgate.core.spelling import did_you_mean
from headgate.core.suppression import Scope
from headgate.core.topics.route import Route
from headgate.core.topics.topic import SimilarTopics, TokenBucket, TopicState, quota_policy
from headgate.pipeline.complete import Complete
from headgate.pipeline.records import Validate
from headgate.pipeline.routes import Routes
from headgate.pipeline.turn import Produce, Turn

_NO_OFFSET = Failure(
    Reason.NEEDS_NATIVE_API,
    "this topic coalesces, so there is no offset yet to answer with: "
    "post to /v1/topics/{topic}/events",
)
_SPOOLS = Failure(
    Reason.NEEDS_NATIVE_API,
    "events of this topic may be spooled, so there may be no offset yet to answer with: "
    "post to /v1/topics/{topic}/events",
)
_STILL_SPOOLED = Failure(
    Reason.KAFKA_UNAVAILABLE,
    "the spool still holds events of this topic from before it stopped spooling, so there is no "
    "offset to answer with yet; nothing was written",
    retry_after_s=5,
)


class Gate:
    """See the module. full: why a held topic takes nothing more now, else None.

    is_spooled: whether anything of a topic lies in the spool, or goes there. None: no spool.
    similar: finds the topic that a wrong name may mean. None: answers contain no suggestion.
    """

    def __init__(
        self,
        routes: Routes,
        full: Callable[[str], Failure | None] = lambda held: None,
        is_spooled: Callable[[str], bool] | None = None,
        similar: SimilarTopics | None = None,
    ) -> None:
        self._routes = routes
        self._full = full
        self._is_spooled = is_spooled
        self._similar = similar

    def open(self, topic: str, *, needs_offset: bool = False) -> Route:
        """The rules by which the topic takes an event now. Raises Refused: why it takes none.

        needs_offset: the answer must name the record's offset, which a held or spooled event has
        not.
        """
        if self._is_spooled is not None and self._is_spooled(
            topic
        ):  # whatever the configuration says: it goes behind that
            route = self._routes.behind(topic)
            if needs_offset:
                raise Refused(_SPOOLS if route.policy.spool else _STILL_SPOOLED)
            return route
        route = self._routes.find(topic)
        if route.held is not None:
            failure = refusal_of(route.policy, route.held) or self._full(route.held.name)
            if failure is None and needs_offset:
                failure = _NO_OFFSET
            if failure is not None:
                raise Refused(failure)
        elif needs_offset and route.policy.spool:
            raise Refused(_SPOOLS)
        return route

    def rules(self, topic: str) -> Route:
        """The topic's rules, for those who ask and send no event: whether it takes one or not.

        The end of a burst is none: a topic that holds too much takes it, and becomes empty by it.
        Raises Refused (unknown_topic, kafka_unavailable).
        """
        return self._routes.find(topic)

    def with_suggestion(
        self, failure: Failure, topic: str, may_post: Callable[[str], bool]
    ) -> Failure:
        """Return the failure; if the topic is unknown, with a similar topic that exists.

        Args:
            failure: Why the topic takes no event.
            topic: The name that the client sent.
            may_post: Tells whether the caller may write to a topic. No other topic is named.
        """
        if failure.reason is not Reason.UNKNOWN_TOPIC or self._similar is None:
            return failure
        meant = self._similar.find(topic, may_post)
        if meant is None:
            return failure
        return failure._replace(detail=f"{failure.detail}. {did_you_mean(meant)}")

    def scope_of(self, topic: str) -> Scope | None:
        """The topic's suppression scope in force, if it has one."""
        return self._routes.scope_of(topic)

    def state_of(self, topic: str) -> TopicState | None:
        """The topic as its cluster last described it; None if the cluster does not have it."""
        return self._routes.state_of(topic)

    def facts_of(self, topic: str) -> int:
        """Of one in how many of the topic's events facts are told; 0 = of none."""
        return self._routes.facts_of(topic)


# Whether there is room for a request's events: how many they are, the budget, the quotas.


class Quotas(Protocol):
    """Whether a producer may send so much now."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


def in_flight_limits(
    producers: Mapping[str, ProducerSettings], workers: int
) -> dict[str, InFlightLimit]:
    """Of the producers that have one; an instance's limits are split evenly over its workers."""
    found = {}
    for name, one in producers.items():
        both = (one.max_in_flight_bytes, one.max_in_flight_events)
        if both != (None, None):
            parts = [None if limit is None else max(1, limit // workers) for limit in both]
            found[name] = InFlightLimit(*parts)
    return found


class Admit:
    """max_events: of one request."""

    def __init__(self, admission: Admission, quotas: Quotas, max_events: int) -> None:
        self._admission = admission
        self._quotas = quotas
        self._max_events = max_events

    def take(self, ticket: Ticket, options: RequestOptions, count: int, size: int) -> None:
        """Let so many events in, of so many bytes together. Raises Refused, and keeps nothing."""
        if ticket.is_batch and options.single_event_header is not None:
            name = options.single_event_header
            raise Refused(malformed(f"{name} means one event, but the body is a batch"))
        if count > self._max_events:
            limit = self._max_events
            detail = f"{count} events in one request are more than http.batch_max_events = {limit}"
            raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))
        failure = self._admission.take_events(ticket.producer, count)
        if failure is not None:
            raise Refused(failure)
        ticket.expect(count)
        failure = self._quotas.check(ticket.producer, count, size)
        if failure is not None:
            self._admission.give(ticket.producer, 0, count)
            raise Refused(failure)


# Each producer's quota on this worker.


class _Buckets(NamedTuple):
    """of: the settings that they were made or confirmed for."""

    of: ProducerSettings
    events: TokenBucket | None
    bytes: TokenBucket | None

    def named(self) -> list[tuple[str, TokenBucket]]:
        """Those that there are."""
        both = (("events", self.events), ("bytes", self.bytes))
        return [(name, bucket) for name, bucket in both if bucket is not None]


class ProducerQuotas:
    """Token buckets by producer; an instance's quota is split evenly over its workers.

    policies: the RateLimit-Policy of each producer that has a quota.
    """

    def __init__(
        self, workers: int, clock: Callable[[], float], count_rejected: Callable[[str, int], None]
    ) -> None:
        self._workers = workers
        self._clock = clock
        self._count_rejected = count_rejected
        self._settings: Mapping[str, ProducerSettings] = {}
        self.policies: dict[str, str] = {}
        self._buckets: dict[str, _Buckets] = {}

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Put a configuration in force; buckets whose quota did not change keep their level."""
        self._settings = producers
        named = ((name, _policy(settings)) for name, settings in producers.items())
        self.policies = {name: policy for name, policy in named if policy}
        kept = {name: buckets for name, buckets in self._buckets.items() if name in producers}
        self._buckets = kept

    def _of(self, producer: str) -> _Buckets | None:
        """The producer's buckets. Made when it first posts: thousands may be configured."""
        settings = self._settings.get(producer)
        if settings is None:
            return None
        buckets = self._buckets.get(producer)
        if buckets is None or buckets.of is not settings:
            buckets = self._buckets[producer] = self._made(settings, buckets)
        return buckets

    def _made(self, settings: ProducerSettings, before: _Buckets | None) -> _Buckets:
        if before is not None and _same(before.of, settings):
            return before._replace(of=settings)
        events = self._bucket(settings.quota_events_per_s)
        size = self._bucket(settings.quota_bytes_per_s)
        return _Buckets(settings, events, size)

    def _bucket(self, per_second: int | None) -> TokenBucket | None:
        if per_second is None:
            return None
        return TokenBucket(per_second / self._workers, self._clock())

    def check(self, producer: str, events: int, size: int) -> Failure | None:
        """Spend the quota for a batch, or say how long to wait. size: body bytes."""
        failure = self._check(producer, events, size, spends=True)
        if failure is not None:
            self._count_rejected(producer, events)
        return failure

    def refusal(self, producer: str, size: int) -> Failure | None:
        """Why not even one event of that size may come now; spends nothing. size: body bytes."""
        failure = self._check(producer, 1, size, spends=False)
        if failure is not None:
            self._count_rejected(producer, 1)
        return failure

    def _check(self, producer: str, events: int, size: int, *, spends: bool) -> Failure | None:
        buckets = self._of(producer)
        if buckets is None:
            return None
        now = self._clock()
        spent = [
            (name, bucket, amount)
            for name, bucket, amount in (
                ("events", buckets.events, events),
                ("bytes", buckets.bytes, size),
            )
            if bucket is not None
        ]
        for name, bucket, amount in spent:
            wait = bucket.wait(amount, now)
            if wait > 0:
                return self._exceeded(producer, name, bucket, wait)
        for _, bucket, amount in spent if spends else ():
            bucket.take(amount)
        return None

    def fields(self, producer: str) -> tuple[tuple[str, str], ...]:
        """The fields RateLimit and RateLimit-Policy of an answer to one that has a quota."""
        buckets = self._of(producer)
        if buckets is None:
            return ()
        now = self._clock()
        limits = []
        for name, bucket in buckets.named():
            bucket.wait(0, now)
            limits.append(f'"{name}";r={bucket.remaining()};t={bucket.seconds_to_full()}')
        return (("RateLimit", ", ".join(limits)), ("RateLimit-Policy", self.policies[producer]))

    def _exceeded(self, producer: str, name: str, bucket: TokenBucket, wait: float) -> Failure:
        detail = f"producer {brief(producer)} has used up its quota of {name}; nothing was written"
        figures = {
            "quota": name,
            "limit_per_s": round(bucket.per_second * self._workers),
            "remaining": bucket.remaining(),
        }
        return Failure(Reason.QUOTA_EXCEEDED, detail, figures, max(1, math.ceil(wait)))


def _policy(settings: ProducerSettings) -> str:
    both = (("events", settings.quota_events_per_s), ("bytes", settings.quota_bytes_per_s))
    return ", ".join(quota_policy(name, quota) for name, quota in both if quota is not None)


def _same(old: ProducerSettings, new: ProducerSettings) -> bool:
    return (old.quota_events_per_s, old.quota_bytes_per_s) == (
        new.quota_events_per_s,
        new.quota_bytes_per_s,
    )


# What is answered when a request's time is up: it depends on where each of its events waits.


_RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Expire:
    """timeout_ms: the time that a request has."""

    def __init__(
        self,
        turn: Turn,
        validate: Validate,
        produce: Produce,
        suppression: Suppression,
        complete: Complete,
        ids: EventIds,
        timeout_ms: int,
    ) -> None:
        self._turn = turn
        self._validate = validate
        self._produce = produce
        self._suppression = suppression
        self._complete = complete
        self._ids = ids
        self._timeout_s = timeout_ms / 1000

    def __call__(self, ticket: Ticket) -> None:
        """Answer what is still open: `unknown` for what Kafka may have, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        self._turn.flush()  # nothing of it must go on after its answer
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                leader = publish.leader or publish
                # With followers the record goes on for their sake, and it carries this event's id.
                if leader.stage >= Stage.HANDED or leader.spooled or publish.followers:
                    self._answer_unknown(ticket, publish)
                else:
                    self._withdraw(publish, leader)

    def _answer_unknown(self, ticket: Ticket, publish: Publish) -> None:
        assert publish.common is not None
        publish.event_id = publish.event_id or self._ids.take(publish.common.now_ms)
        seconds = self._timeout_s
        detail = f"Kafka did not acknowledge within {seconds:g} s; the event may yet arrive"
        failure = Failure(Reason.UNKNOWN, detail, None, _RETRY_AFTER_S)
        outcome = rejected(failure, publish.record.key, publish.event_id)
        self._complete.answer(ticket, publish.index, outcome)

    def _withdraw(self, publish: Publish, leader: Publish) -> None:
        """Nobody hands it over any more."""
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is Stage.LANE
        publish.dropped = True
        waits_for_redis = leader.stage is Stage.QUEUED or leader.stage is Stage.RESERVING
        if leader.stage is Stage.NEW:  # it is examined, or its id is asked for
            waits_for_redis = not self._validate.drop(publish)
        reason = Reason.REDIS_UNAVAILABLE if waits_for_redis else Reason.KAFKA_UNAVAILABLE
        detail = f"not handed to Kafka within {self._timeout_s:g} s; nothing was written"
        failure = Failure(reason, detail, None, _RETRY_AFTER_S)
        self._complete.end(publish, rejected(failure, publish.record.key, publish.event_id))
        if was_in_lane:
            self._suppression.ended(publish, True)
            self._produce.drop(publish)
