"""Admission: the in-flight budget and its shares among producers, and quotas.

Any request may use the first four fifths of the budget, large requests and floods included. In the
last fifth, a request gets at most half of the free part. Small requests are therefore still
admitted when large ones are not. Once several producers have posted, a producer may hold at most
four times the free part: the more the others hold, the less. A producer that floods therefore
leaves a fifth to the others, and several that flood get equal parts. (The rule is that of switches
with shared memory: A. K. Choudhury and E. L. Hahne, "Dynamic Queue Length Thresholds for
Shared-Memory Packet Switches", 1998.)
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from headgate.config.settings import ProducerSettings
from headgate.model.outcome import (
    OVERLOADED_RETRY_S,
    Failure,
    Reason,
    Refused,
    brief,
    malformed,
)
from headgate.model.publish import Ticket
from headgate.model.request import RequestOptions
from headgate.model.topics import TokenBucket, quota_policy

DRAINING = Failure(Reason.DRAINING, "this instance takes no more events", retry_after_s=1)
TIMES_FREE: Final = 4


class InFlightLimit(NamedTuple):
    """A producer's own limit; None means only its share of the budget limits it."""

    max_bytes: int | None
    max_events: int | None


class _Held:
    """The bytes and events that a producer has in flight."""

    __slots__ = ("bytes", "events")

    def __init__(self) -> None:
        self.bytes = 0
        self.events = 0


_NO_LIMIT: Final = InFlightLimit(None, None)
_NOTHING: Final = _Held()


class Admission:
    """Admission control. Bytes are taken before a body is read, events once it is decoded.

    Attributes:
        limits: The limits of producers that have their own, by name.
    """

    def __init__(self, max_bytes: int, max_events: int) -> None:
        self.max_bytes = max_bytes
        self.max_events = max_events
        self._open_bytes = max_bytes * TIMES_FREE // (TIMES_FREE + 1)
        self._open_events = max_events * TIMES_FREE // (TIMES_FREE + 1)
        self.bytes = 0
        self.events = 0
        self.is_closed = False
        self.limits: Mapping[str, InFlightLimit] = {}
        self._held: dict[str, _Held] = {}
        self._first: str | None = None
        self._is_shared = False

    def close(self) -> None:
        """Admit no more events; those in flight continue."""
        self.is_closed = True

    def of(self, producer: str) -> "ProducerBudget":
        """Return the budget for one producer."""
        return ProducerBudget(self, producer)

    def held_by(self, producer: str) -> tuple[int, int]:
        """Return the bytes and events that a producer has in flight."""
        held = self._held.get(producer, _NOTHING)
        return held.bytes, held.events

    def take_bytes(self, producer: str, size: int) -> Failure | None:
        """Take bytes from the budget, or return the refusal.

        A body larger than the whole budget is admitted if nothing else is in flight; otherwise it
        would never be admitted.
        """
        held = self._of(producer)
        total = self.bytes + size
        if total > self._open_bytes and self.bytes:
            failure = self._refusal(producer, "bytes", size, self.bytes, self.max_bytes, held.bytes)
            if failure is not None:
                return self._refused(producer, held, failure)
        if self.limits:
            limit = self.limits.get(producer, _NO_LIMIT).max_bytes
            if limit is not None and held.bytes and held.bytes + size > limit:
                return self._refused(producer, held, _over_own(producer, "bytes", limit))
        self.bytes = total
        held.bytes += size
        return None

    def take_events(self, producer: str, count: int) -> Failure | None:
        if self.is_closed:
            return DRAINING
        held = self._of(producer)
        total = self.events + count
        if total > self._open_events and self.events:
            failure = self._refusal(
                producer, "events", count, self.events, self.max_events, held.events
            )
            if failure is not None:
                return self._refused(producer, held, failure)
        if self.limits:
            limit = self.limits.get(producer, _NO_LIMIT).max_events
            if limit is not None and held.events and held.events + count > limit:
                return self._refused(producer, held, _over_own(producer, "events", limit))
        self.events = total
        held.events += count
        return None

    def give(self, producer: str, size: int, events: int) -> None:
        """Return the bytes and events of an ended request to the budget."""
        self.bytes -= size
        self.events -= events
        held = self._held.get(producer)
        if held is not None:
            held.bytes -= size
            held.events -= events
            self._forget(producer, held)

    def _of(self, producer: str) -> _Held:
        held = self._held.get(producer)
        if held is None:
            held = self._held[producer] = _Held()
            if self._first is None:
                self._first = producer
            elif producer != self._first:
                self._is_shared = True
        return held

    def _forget(self, producer: str, held: _Held) -> None:
        if not held.bytes and not held.events:
            del self._held[producer]  # clients without credentials choose their names freely

    def _refused(self, producer: str, held: _Held, failure: Failure) -> Failure:
        self._forget(producer, held)
        return failure

    def _refusal(
        self, producer: str, unit: str, size: int, used: int, limit: int, held: int
    ) -> Failure | None:
        """Return the refusal of a request above the part that is open to all, or None."""
        option, free = f"in_flight_max_{unit}", limit - used
        figures: dict[str, object] = {"limit": option}
        if size > free:
            detail = f"more than admission.{option} = {limit} are in flight"
        elif size > max(1, free // 2):
            detail = f"{size} {unit} are more than half of the free part of admission.{option} = "
            detail += f"{limit}; smaller requests get in"
        elif self._is_shared and held + size > TIMES_FREE * (free - size):
            detail = f"producer {brief(producer)} has {held} {unit} in flight; what is left of "
            detail += f"admission.{option} = {limit} is reserved for other producers"
            figures["producer"] = producer
        else:
            return None
        return Failure(
            Reason.OVERLOADED,
            f"{detail}; nothing was written",
            figures,
            retry_after_s=OVERLOADED_RETRY_S,
        )


class ProducerBudget:
    """The in-flight budget of one producer."""

    __slots__ = ("_admission", "_producer")

    def __init__(self, admission: Admission, producer: str) -> None:
        self._admission = admission
        self._producer = producer

    def take_bytes(self, size: int) -> Failure | None:
        return self._admission.take_bytes(self._producer, size)

    def give(self, size: int, events: int) -> None:
        """Return the bytes and events of an ended request to the budget."""
        self._admission.give(self._producer, size, events)


def _over_own(producer: str, unit: str, limit: int) -> Failure:
    option = f"max_in_flight_{unit}"
    detail = f"producer {brief(producer)} has used up its {option} = {limit}; nothing was written"
    figures: dict[str, object] = {"limit": option, "producer": producer}
    return Failure(Reason.OVERLOADED, detail, figures, retry_after_s=OVERLOADED_RETRY_S)


# ---- admission of a request's events: their number, the budget and the quotas


SpendQuota = Callable[[str, int, int], Failure | None]  # `ProducerQuotas.check`


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
        spend_quota: Spends a producer's quota, or returns the refusal.
        max_events: Maximum number of events in one request.
    """

    def __init__(self, admission: Admission, spend_quota: SpendQuota, max_events: int) -> None:
        self._admission = admission
        self._spend_quota = spend_quota
        self._max_events = max_events

    def take(self, ticket: Ticket, options: RequestOptions, count: int) -> None:
        """Admit the events of a request.

        Args:
            ticket: Ticket of the request.
            options: Options of the request.
            count: Number of events.

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
        ticket.outcomes, ticket.sizes = [None] * count, [0] * count
        ticket.remaining = count
        stored = ticket.streamed
        size = ticket.body_bytes if stored is None else stored.stored.size
        failure = self._spend_quota(ticket.producer, count, size)
        if failure is not None:
            self._admission.give(ticket.producer, 0, count)
            raise Refused(failure)


# ---- quotas of producers on this worker


_EVENTS: Final = "events"


class _Buckets(NamedTuple):
    """Token buckets of one producer.

    Attributes:
        of: The settings for which they are valid.
        named: The buckets of the quotas that the producer has, with their names.
    """

    of: ProducerSettings
    named: Sequence[tuple[str, TokenBucket]]


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
        self.policies = {
            name: ", ".join(quota_policy(*quota) for quota in quotas)
            for name, settings in producers.items()
            if (quotas := _quotas(settings))
        }
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
        quotas = _quotas(settings)
        if before is not None and _quotas(before.of) == quotas:
            return before._replace(of=settings)
        now = self._clock()
        named = [(name, TokenBucket(rate / self._workers, now)) for name, rate in quotas]
        return _Buckets(settings, named)

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
        for name, bucket in buckets.named:
            wait = bucket.wait(events if name == _EVENTS else size, now)
            if wait > 0:
                return self._exceeded(producer, name, bucket, wait)
        if spends:
            for name, bucket in buckets.named:
                bucket.take(events if name == _EVENTS else size)
        return None

    def fields(self, producer: str) -> tuple[tuple[str, str], ...]:
        """Return the headers RateLimit and RateLimit-Policy; empty without a quota."""
        buckets = self._of(producer)
        if buckets is None:
            return ()
        now = self._clock()
        limits = []
        for name, bucket in buckets.named:
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
        return Failure(
            Reason.QUOTA_EXCEEDED, detail, figures, retry_after_s=max(1, math.ceil(wait))
        )


def _quotas(settings: ProducerSettings) -> list[tuple[str, int]]:
    """Return the quotas that a producer has, a second, with their names."""
    both = ((_EVENTS, settings.quota_events_per_s), ("bytes", settings.quota_bytes_per_s))
    return [(name, quota) for name, quota in both if quota is not None]
