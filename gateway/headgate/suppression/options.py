"""Options of suppression, and the counter of events that went past it."""

from dataclasses import dataclass
from typing import Protocol

from headgate.suppression.rules import SuppressionSpans


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressOptions:
    """Spans in ms.

    token_ttl_ms: how long a token stands for a publish of unknown end: 2 x delivery_timeout_ms, so
    that a record in its lane always has the time left that its delivery may take.
    quarantine_ms, max_suppress_age_ms: see `suppression.rules.SuppressionSpans`.
    timeout_ms: how long an event waits for Redis, the queue included, before it is published
    without it; also of a call.
    linger_ms: how long a call waits at most while events keep arriving, and settlements for an
    event to ride with.
    max_keys_per_call, max_operations_per_call: what bounds the work of a call, whatever the mix of
    keys; Redis does nothing else meanwhile (tests/RESULTS.md has the worst case, measured).
    unreserved_max: settlements kept while Redis is away; beyond it the namespace is dropped whole.
    unknown_max: publishes of unknown end that are registered again when Redis lost its state.
    fences_by_writing: a record of unknown end may land until a later one of its partition is
    acknowledged (an idempotent producer's successor); else only for token_ttl_ms (the end of a
    transaction).
    touches_opened: talk to every topic that is compared, used or not: where others ask another of
    several servers, this one is to know the topic's key rule all the same.
    look_s: seconds between two looks whether Redis may lose entries.
    """

    token_ttl_ms: float = 240_000.0
    quarantine_ms: float = 240_000.0
    max_suppress_age_ms: float = 3_600_000.0
    timeout_ms: float = 100.0
    linger_ms: float = 2.0
    max_keys_per_call: int = 200
    max_operations_per_call: int = 400
    unreserved_max: int = 100_000
    unknown_max: int = 100_000
    fences_by_writing: bool = True
    touches_opened: bool = False
    look_s: float = 10.0

    @property
    def spans(self) -> SuppressionSpans:
        """The spans of the script's calls."""
        return SuppressionSpans(self.token_ttl_ms, self.quarantine_ms, self.max_suppress_age_ms)

    @property
    def tick_s(self) -> float:
        """The interval between looks for tokens to renew and namespaces to talk to, in seconds."""
        return max(0.01, min(self.quarantine_ms / 6, self.token_ttl_ms / 16, 1000.0) / 1000)


class SuppressionMeter(Protocol):
    """Counts events that went past suppression (headgate_suppression_bypassed_total)."""

    def bypassed(self, reason: str, count: int) -> None:
        """reason: redis_error, redis_timeout, redis_slow, redis_full, breaker_open, crowded or
        internal.
        """
        ...
