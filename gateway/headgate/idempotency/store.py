"""Request identity in Redis: the options, and the connection of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.core.outcome import Failure, Reason
from headgate.idempotency.rules import ClaimCall, ClaimVerdict, read_verdict
from headgate.redis.script import RedisScript, script_text

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


class RedisIdentityStore:
    """`IdentityStore` on Redis.

    It has a connection of its own: answers of remembered batches are large, and suppression must
    not wait behind them.

    Args:
        url: redis://, rediss:// or unix://.
        timeout_ms: Timeout of a call.
    """

    def __init__(self, url: str, timeout_ms: float) -> None:
        self._redis = RedisScript(url, timeout_ms, script_text("idempotency", "identity"))

    async def connect(self) -> None:
        """Open a new connection and load the script."""
        await self._redis.connect()

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """One EVALSHA. After an error or a timeout the connection is closed."""
        _, verdicts = await self.run_timed(call)
        return verdicts

    async def run_timed(self, call: ClaimCall) -> tuple[int, list[ClaimVerdict]]:
        """Run as `run`, and return Redis' clock (ms) with the verdicts."""
        names = [operation.name for operation in call.operations]
        operations = [operation.packed for operation in call.operations]
        life = b"%.0f" % call.claim_ms
        now, *answers = await self._redis.evaluate([len(names), *names, life, *operations])
        return now, [read_verdict(answer) for answer in answers]

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        await self._redis.close()


class IdentityStore(Protocol):
    """One connection to what is known of requests and events; the memory store passes the same
    tests.

    One call at a time. After a StoreError of `run` nothing is known of that call, the connection
    is closed, and `connect` comes before the next `run`.
    """

    async def connect(self) -> None:
        """Raises StoreError."""
        ...

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """Run the script once: a verdict for each claim, in order. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
