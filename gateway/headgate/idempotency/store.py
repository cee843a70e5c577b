# Not compiled: it runs for each call to Redis, not for each event.
"""Request identity in Redis: the options, and the connection of a store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headgate.idempotency.rules import ClaimCall, ClaimVerdict, read_verdict
from headgate.model.outcome import Failure, Reason
from headgate.redis.script import RedisScript, script_text

NO_REDIS = Failure(
    Reason.REDIS_UNAVAILABLE,
    "Redis is not available, and without it this topic publishes nothing",
    retry_after_s=1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityOptions:
    """Options of request identity.

    Attributes:
        claim_ms: Life of a claim without a renewal, in milliseconds. Running processes renew
            theirs.
        timeout_ms: Longest wait of a request for Redis, including the queue, in milliseconds.
        linger_ms: Longest wait of a call for more requests, in milliseconds.
        max_steps: Most operations of a call. Redis runs nothing else meanwhile.
        max_bytes: Most digested bytes of a call. Digests block the event loop.
        max_pending: Most ends of attempts that are kept while Redis is away.
        max_pending_bytes: Most bytes of these ends.
    """

    claim_ms: float = 15_000.0
    timeout_ms: float = 100.0
    linger_ms: float = 2.0
    max_steps: int = 250
    max_bytes: int = 1_048_576
    max_pending: int = 50_000
    max_pending_bytes: int = 33_554_432


class RedisIdentityStore:
    """An `IdentityStore` on Redis.

    It has its own connection: replies of remembered batches are large, and suppression must not
    wait behind them.

    Args:
        url: redis://, rediss:// or unix://.
        timeout_ms: Timeout of a call, in milliseconds.
    """

    def __init__(self, url: str, timeout_ms: float) -> None:
        self._redis = RedisScript(url, timeout_ms, script_text("idempotency", "identity"))

    async def connect(self) -> None:
        """Open a new connection and load the script."""
        await self._redis.connect()

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """Run the script by EVALSHA; an error or a timeout closes the connection."""
        _, verdicts = await self.run_timed(call)
        return verdicts

    async def run_timed(self, call: ClaimCall) -> tuple[int, list[ClaimVerdict]]:
        """Run the script as `run`; return Redis' clock (ms) and the verdicts."""
        names = [operation.name for operation in call.operations]
        operations = [operation.packed for operation in call.operations]
        life = b"%.0f" % call.claim_ms
        now, *answers = await self._redis.evaluate([len(names), *names, life, *operations])
        return now, [read_verdict(answer) for answer in answers]

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        await self._redis.close()


class IdentityStore(Protocol):
    """One connection to the state of requests and events; the memory store passes the same tests.

    It runs one call at a time. After a StoreError of `run` the fate of the call is unknown, the
    connection is closed, and `connect` must come before the next `run`.
    """

    async def connect(self) -> None:
        """Open a connection. Raises StoreError."""
        ...

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """Run the script once; return a verdict for each claim, in order. Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...
