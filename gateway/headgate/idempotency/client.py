"""The client of request identity: it carries claims and their ends to Redis and back.

Requests go on in the order of their arrival, so that events of one key keep their order. While
Redis is away, requests go on at once, without verdicts.
"""

import logging
import math
from collections.abc import Callable, Iterator, Mapping

from headgate.idempotency.claims import Ask, GoOn, PackedCall, PendingClaims, SizedClaim
from headgate.idempotency.rules import ClaimCall, ClaimStep
from headgate.idempotency.store import IdentityOptions, IdentityStore
from headgate.metrics.meter import Meter
from headgate.model.publish import Claim
from headgate.redis.client import (
    FEW,
    ClientTimes,
    ClientWork,
    OverdueCheck,
    ScriptClient,
    all_ended,
)
from headgate.redis.script import StoreError
from headgate.redis.servers import Slots

_log = logging.getLogger("headgate.idempotency")
_SLOW_S = 10.0  # time for which health reports requests that gave up waiting
_START_S = 1.0  # longest wait of `start` for the first connection


class IdentityClient:
    """A client of request identity on one Redis server.

    Args:
        store: Connection to Redis.
        options: Options of request identity.
        clock: Monotonic clock, in seconds.
        random_bytes: Source of random bytes, such as `os.urandom`.
        meter: Counter of requests that bypassed identity.

    Attributes:
        stem: First bytes of the client's tokens.
    """

    def __init__(
        self,
        store: IdentityStore,
        options: IdentityOptions,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        meter: Meter,
    ) -> None:
        self._store = store
        self._claim_ms = options.claim_ms
        self._clock = clock
        self.stem = random_bytes(6)
        self._tokens = 0
        self._waiting = PendingClaims(options, lambda: meter.identity_bypassed("backlog", 1))
        self._outgoing: PackedCall | None = None
        self._is_waited_for = False
        self._has_called = self._is_probe_due = False
        self._renew_s = options.claim_ms / 4000
        work = ClientWork(
            self._catch_up,
            self._exchange,
            self._lost,
            self._tick,
            self._has_news,
            self._is_urgent,
            self._is_busy,
            self._news,
        )
        times = ClientTimes(_START_S, self._renew_s, options.linger_ms / 1000)
        name, full = "request identity", options.max_steps
        self._client = ScriptClient(name, _log, store, work, times, full, clock)
        self._timeout_s = options.timeout_ms / 1000
        self._overdue = OverdueCheck(self._timeout_s, self._go_on_overdue)
        self._slow_s = -math.inf

    async def start(self) -> None:
        """Connect. If that takes too long, return without: requests then bypass Redis."""
        await self._client.connect()

    async def close(self) -> None:
        """Send the last ends if Redis takes them in time, and disconnect."""
        await self._client.aclose()

    def of(self, topic_id: bytes) -> "IdentityClient":
        """Return the client of a topic, which is this one."""
        return self

    def new_token(self) -> bytes:
        """Return a token of 12 bytes that is unique across all gateways."""
        self._tokens += 1
        return self.stem + self._tokens.to_bytes(6, "big")

    @property
    def is_idle(self) -> bool:
        """Return whether no request waits, so that one without claims may go on."""
        return not self._waiting.asks

    def ask(self, claims: Iterator[SizedClaim], go_on: GoOn) -> None:
        """Make a request's claims.

        Args:
            claims: The claims.
            go_on: Called once with the verdicts, in the order of the requests.
        """
        ask = Ask(claims, go_on, self._clock())
        if not self._client.is_connected and not self._waiting.asks:
            ask.go_on("breaker_open")
            return
        self._waiting.asks.append(ask)
        self._wake()
        self._overdue.begin()

    def follow(self, claim: Claim) -> None:
        """Keep the claim of an attempt without a verdict alive."""
        self._waiting.follow(claim, self._clock())

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """Send the end of an attempt, now or once Redis recovers."""
        self._waiting.end(token, operation)
        self._client.note()

    def when_reported(self, token: bytes, call: Callable[[], None]) -> None:
        """Call back once the end of an attempt is in Redis, or Redis is away.

        Args:
            token: Token of the attempt.
            call: Called once, perhaps before this returns.
        """
        end = self._waiting.ends.find(token)
        if end is not None and self._client.is_connected:
            end.waiter = call
            self._wake()
        else:
            call()

    def health(self) -> tuple[bool, str]:
        """Return whether claims are made now, and a description."""
        if not self._client.is_connected:
            why = self._client.trouble.in_words
            effect = "Idempotency-Keys and event ids are not compared"
            exception = 'topics with redis_loss = "refuse" refuse them'
            return False, f"{effect} ({exception}): {why}"
        if self._clock() - self._slow_s < _SLOW_S:
            return False, f"slow: requests did not wait longer than {self._timeout_s:g} s"
        return True, "connected"

    def dependencies(self) -> list[tuple[str, bool, bool, str]]:
        """Return the entries of /ready: name, health, whether it is required, and description."""
        ok, detail = self.health()
        return [("redis identity", ok, False, detail)]

    def _go_on_overdue(self) -> bool:
        """Let requests go on that have waited for redis.timeout_ms; return whether any wait."""
        now_s = self._clock()
        if self._waiting.go_on_overdue(now_s - self._timeout_s):
            self._slow_s = now_s
        return bool(self._waiting.asks)

    async def _catch_up(self) -> None:
        self._waiting.renew_all(self._clock())

    def _lost(self, error: StoreError) -> None:
        outgoing, self._outgoing = self._outgoing, None
        self._waiting.lost(outgoing)
        self._waiting.go_on_without(error.reason)

    def _has_news(self) -> bool:
        return self._is_probe_due or self._waiting.has_news

    def _is_urgent(self) -> bool:
        return self._is_waited_for or bool(self._waiting.asks) or not self._is_busy()

    def _is_busy(self) -> bool:
        return self._waiting.open_claims > FEW

    def _news(self) -> int:
        return self._waiting.news

    async def _exchange(self) -> bool:
        is_probe, self._is_probe_due = self._is_probe_due, False
        self._outgoing = outgoing = self._waiting.next_call(self._clock())
        self._is_waited_for = len(self._waiting.ends) > 0
        if outgoing is not None:
            verdicts = await self._store.run(outgoing.call(self._claim_ms))
            self._outgoing = None
            self._waiting.answered(outgoing, verdicts)
            self._has_called = True
        elif is_probe:
            await self._store.run(ClaimCall(self._claim_ms, ()))
        self._waiting.go_on()
        return outgoing is not None

    def _wake(self) -> None:
        """Send news soon, because a request waits for it."""
        self._is_waited_for = True
        self._client.wake()

    def _tick(self) -> None:
        """Renew the claims of long attempts, which must not expire.

        If there was no call since the last tick, an empty one finds out whether Redis answers.
        """
        now = self._clock()
        is_quiet = not self._has_called and self._outgoing is None
        self._has_called = False
        if self._client.is_connected and is_quiet:
            self._is_probe_due = True
            self._client.note()
        if self._client.is_connected and self._waiting.renew_older_than(now - self._renew_s, now):
            self._client.note()


_STEM_BYTES = 6  # first bytes of a token, which identify its client


class ShardedIdentity:
    """Request identity on several Redis servers, each with all names of its topics.

    Topics are distributed, not keys, because a topic's requests and events go on in the order of
    their arrival, for all keys and ids.

    Args:
        clients: Client of each server, by the server's name.
    """

    def __init__(self, clients: Mapping[str, IdentityClient]) -> None:
        self._clients = dict(clients)
        self._list = list(clients.values())
        self._slots = Slots(list(clients))
        self._by_stem = {client.stem: client for client in self._list}

    async def start(self) -> None:
        """Connect to all servers (`IdentityClient.start`)."""
        await all_ended(client.start() for client in self._list)

    async def close(self) -> None:
        """Close the clients of all servers (`IdentityClient.close`)."""
        await all_ended(client.close() for client in self._list)

    def of(self, topic_id: bytes) -> IdentityClient:
        """Return the client with the keys and ids of a topic."""
        return self._list[self._slots.owner(topic_id)]

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """Send an end to the server of its token (`IdentityClient.end`)."""
        self._by_stem[token[:_STEM_BYTES]].end(token, operation)

    def when_reported(self, token: bytes, call: Callable[[], None]) -> None:
        """Call back from the server of the token (`IdentityClient.when_reported`)."""
        self._by_stem[token[:_STEM_BYTES]].when_reported(token, call)

    def dependencies(self) -> list[tuple[str, bool, bool, str]]:
        """Return the entries of all servers in /ready (`IdentityClient.dependencies`)."""
        dependencies = []
        for name, client in self._clients.items():
            ok, detail = client.health()
            dependencies.append((f"redis identity {name}", ok, False, detail))
        return dependencies
