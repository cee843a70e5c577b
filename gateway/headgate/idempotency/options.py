"""Options of request identity, and who counts what it could not do."""

from dataclasses import dataclass
from typing import Protocol

from headgate.core.outcome import Failure, Reason

NO_REDIS = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis is not available, and without it this topic publishes nothing",
    retry_after_s=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityOptions:
    """Spans in ms.

    claim_ms: how long the claim of a process that died stands; living ones renew theirs.
    timeout_ms: how long a request waits for Redis, the queue included, before it goes on without.
    linger_ms: how long a call waits for more, at most.
    max_steps, max_bytes: of one call. Redis runs nothing else meanwhile, and digesting the
    events of a call holds up the event loop.
    max_pending, max_pending_bytes: ends of attempts that are kept while Redis is away.
    """

    claim_ms: float = 15_000.0
    timeout_ms: float = 100.0
    linger_ms: float = 2.0
    max_steps: int = 250
    max_bytes: int = 1_048_576
    max_pending: int = 50_000
    max_pending_bytes: int = 33_554_432


class IdentityMeter(Protocol):
    """Counts what went past identity (headgate_identity_bypassed_total)."""

    def identity_bypassed(self, reason: str, count: int) -> None:
        """reason: not_configured, redis_error, redis_timeout, redis_slow, breaker_open, internal;
        backlog for ends that were not remembered."""
        ...
