"""What is known of requests and events, in a real Redis.

A connection of its own: answers of remembered batches are large, and suppression must not wait
behind them.
"""

from collections.abc import Sequence

from headgate.backends.redis.script import RedisScript, script_text
from headgate.core.idempotency.protocol import ClaimCall, ClaimVerdict, read_verdict


class RedisIdentityStore:
    """`IdentityStore` on Redis. url: redis://, rediss:// or unix://.  timeout_ms: of a call."""

    def __init__(self, url: str, timeout_ms: float) -> None:
        self._redis = RedisScript(url, timeout_ms, script_text("identity.lua"))

    async def connect(self) -> None:
        """Open a new connection and load the script."""
        await self._redis.connect()

    async def run(self, call: ClaimCall) -> Sequence[ClaimVerdict]:
        """One EVALSHA. After an error or a timeout the connection is closed."""
        _, verdicts = await self.run_timed(call)
        return verdicts

    async def run_timed(self, call: ClaimCall) -> tuple[int, list[ClaimVerdict]]:
        """As `run`, with Redis' clock (ms) at which it ran."""
        names = [operation.name for operation in call.operations]
        operations = [operation.packed for operation in call.operations]
        life = b"%.0f" % call.claim_ms
        now, *answers = await self._redis.evaluate([len(names), *names, life, *operations])
        return now, [read_verdict(answer) for answer in answers]

    async def close(self) -> None:
        """Close without waiting for the peer, which may be stopped."""
        await self._redis.close()
