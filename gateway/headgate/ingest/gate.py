"""Checks before an event is accepted: topic state, request size, budgets and quotas.

All fronts use these checks. A new reason to refuse a topic's events belongs in `Gate.open`.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from headgate.backends.base import Suppression
from headgate.config.settings import ProducerSettings
from headgate.ingest.admission import Admission, InFlightLimit
from headgate.ingest.complete import Complete
from headgate.ingest.records import Validate
from headgate.ingest.routes import Routes
from headgate.ingest.turn import Produce, Turn
from headgate.model.event import EventIds
from headgate.model.internal_topics import refusal_of
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed, rejected
from headgate.model.publish import Publish, Stage, Ticket
from headgate.model.request import RequestOptions
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.text import did_you_mean
from headgate.model.topics import SimilarTopics, TokenBucket, TopicState, quota_policy

_NO_SIMILAR = "GET /topics lists the topics that you may write to"
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
    """Checks of whether a topic takes an event now.

    Args:
        routes: Active routes.
        full: Returns the reason for which a held topic takes no more events now, or None.
        is_spooled: Returns whether the spool has events of a topic or takes its new ones. None: no
            spool.
        similar: Finds the topic that a wrong name may mean. None: answers contain no suggestion.
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
        """Return the route by which the topic takes an event now.

        Args:
            topic: Topic of the event.
            needs_offset: Whether the answer must contain the record's offset. Held and spooled
                events have none.

        Raises:
            Refused: The topic takes no events now.
        """
        if self._is_spooled is not None and self._is_spooled(topic):
            # New events go behind spooled ones, whatever the configuration says.
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
        """Return the topic's route for requests without events, even if it takes no events now.

        The end of a burst is such a request: a full held topic must take it, since it empties it.

        Raises:
            Refused: The topic is unknown (unknown_topic), or Kafka is not available
                (kafka_unavailable).
        """
        return self._routes.find(topic)

    def with_suggestion(
        self, failure: Failure, topic: str, may_post: Callable[[str], bool]
    ) -> Failure:
        """Return the failure; if the topic is unknown, with a similar topic or the list's path.

        Args:
            failure: Why the topic takes no event.
            topic: The name that the client sent.
            may_post: Returns whether the caller may write to a topic. No other topic is named.
        """
        if failure.reason is not Reason.UNKNOWN_TOPIC or self._similar is None:
            return failure
        meant = self._similar.find(topic, may_post)
        hint = _NO_SIMILAR if meant is None else did_you_mean(meant)
        return failure._replace(detail=f"{failure.detail}. {hint}")

    def scope_of(self, topic: str) -> Scope | None:
        """Return the topic's active suppression scope, if it has one."""
        return self._routes.scope_of(topic)

    def state_of(self, topic: str) -> TopicState | None:
        """Return the topic as its cluster last described it; None if the cluster lacks it."""
        return self._routes.state_of(topic)

    def facts_of(self, topic: str) -> int:
        """Return N if facts of one in N events of the topic are recorded; 0 if none are."""
        return self._routes.facts_of(topic)


# Admission of a request's events: their number, the budget and the quotas.


class Quotas(Protocol):
    """Quotas of producers."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


def in_flight_limits(
    producers: Mapping[str, ProducerSettings], workers: int
) -> dict[str, InFlightLimit]:
    """Return the in-flight limits of one worker, by producer.

    The limits of an instance are split evenly over its workers. Producers without a limit are left
    out.
    """
    limits = {}
    for name, settings in producers.items():
        both = (settings.max_in_flight_bytes, settings.max_in_flight_events)
        if both != (None, None):
            parts = [None if limit is None else max(1, limit // workers) for limit in both]
            limits[name] = InFlightLimit(*parts)
    return limits


class Admit:
    """Stage that admits a request's events.

    Args:
        admission: Budget of all requests.
        quotas: Quotas of producers.
        max_events: Maximum number of events in one request.
    """

    def __init__(self, admission: Admission, quotas: Quotas, max_events: int) -> None:
        self._admission = admission
        self._quotas = quotas
        self._max_events = max_events

    def take(self, ticket: Ticket, options: RequestOptions, count: int, size: int) -> None:
        """Admit the events of a request.

        Args:
            ticket: Ticket of the request.
            options: Options of the request.
            count: Number of events.
            size: Size of all events, in bytes.

        Raises:
            Refused: There is no room for the events; no budget stays reserved for them.
        """
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


# Quotas of producers on this worker.


class _Buckets(NamedTuple):
    """Token buckets of one producer. `of` holds the settings for which they are valid."""

    of: ProducerSettings
    events: TokenBucket | None
    bytes: TokenBucket | None

    def named(self) -> list[tuple[str, TokenBucket]]:
        """Return the existing buckets with their names."""
        both = (("events", self.events), ("bytes", self.bytes))
        return [(name, bucket) for name, bucket in both if bucket is not None]


class ProducerQuotas:
    """Token buckets by producer; an instance's quota is split evenly over its workers.

    Attributes:
        policies: By producer with a quota, its RateLimit-Policy header.
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
        """Activate a configuration; buckets with an unchanged quota keep their level."""
        self._settings = producers
        named = ((name, _policy(settings)) for name, settings in producers.items())
        self.policies = {name: policy for name, policy in named if policy}
        kept = {name: buckets for name, buckets in self._buckets.items() if name in producers}
        self._buckets = kept

    def _of(self, producer: str) -> _Buckets | None:
        """Return the producer's buckets.

        They are created with its first request, since thousands of producers may be configured.
        """
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
        """Spend quota for a batch, or return a failure with the time to wait.

        Args:
            producer: Producer of the batch.
            events: Number of events.
            size: Size of the body, in bytes.
        """
        failure = self._check(producer, events, size, spends=True)
        if failure is not None:
            self._count_rejected(producer, events)
        return failure

    def refusal(self, producer: str, size: int) -> Failure | None:
        """Return a failure if the quota does not allow even one event; spends nothing.

        Args:
            producer: Producer of the request.
            size: Size of the body, in bytes.
        """
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
        """Return the headers RateLimit and RateLimit-Policy; empty without a quota."""
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


# Answers at a request's deadline; they depend on the stage of each event.


_RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Expire:
    """Callback for tickets whose deadline has passed.

    Args:
        turn: Batches of this turn of the event loop.
        validate: Validation stage.
        produce: Stage that hands records over to the lanes.
        suppression: Suppression state.
        complete: Stage that ends events.
        ids: Generates event ids.
        timeout_ms: Timeout of a request, in milliseconds.
    """

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
        """Answer open events: `unknown` if Kafka may have them, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        self._turn.flush()  # no event of the request may start after its answer
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                leader = publish.leader or publish
                # A record with followers is written for them, and it carries this event's id.
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
        """Reject an event that was not handed over, and remove it from its stage."""
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is Stage.LANE
        publish.dropped = True
        waits_for_redis = leader.stage is Stage.QUEUED or leader.stage is Stage.RESERVING
        if leader.stage is Stage.NEW:  # validation or the check of its id is not complete
            waits_for_redis = not self._validate.drop(publish)
        reason = Reason.REDIS_UNAVAILABLE if waits_for_redis else Reason.KAFKA_UNAVAILABLE
        detail = f"not handed to Kafka within {self._timeout_s:g} s; nothing was written"
        failure = Failure(reason, detail, None, _RETRY_AFTER_S)
        self._complete.end(publish, rejected(failure, publish.record.key, publish.event_id))
        if was_in_lane:
            self._suppression.ended(publish, True)
            self._produce.drop(publish)
