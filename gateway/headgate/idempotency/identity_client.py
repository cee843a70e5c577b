"""Carries claims and their ends to Redis, and keeps the connection.

One call is on its way at a time; what arrives meanwhile goes with the next. Where only a few
claims are open, what finds the connection idle is sent at once. Else a call waits while more keeps
arriving, as each costs the same for all that it carries; and ends that nobody waits for wait a
moment for claims to ride with. Requests go on in the order in which they asked, so that events of
one key keep theirs. While Redis is away they go on at once, without verdicts.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator

from headgate.backends.patience import OverdueCheck
from headgate.backends.redis.errors import StoreError
from headgate.backends.redis.identity_store import IdentityStore
from headgate.backends.redis.session import ScriptSession, SessionTimes, SessionWork
from headgate.core.idempotency.protocol import Claim, ClaimStep
from headgate.idempotency.options import IdentityMeter, IdentityOptions
from headgate.idempotency.pending import Ask, GoOn, Sized
from headgate.idempotency.waiting import PackedCall, Waiting

_log = logging.getLogger("headgate.identity.desk")
_SLOW_S = 10.0  # how long health speaks of requests that did not wait any longer
_START_S = 1.0  # how long `start` waits for the first connection
_FEW = 4  # with so few claims open nobody is likely to come while a call waits
# Of the event loop, without news: then no more are on their way. One is often between two.
_QUIET_TURNS = 2


class IdentityClient:
    """clock: seconds, never jumping.  random_bytes: as `os.urandom`.

    stem: what its tokens begin with.
    """

    def __init__(
        self,
        store: IdentityStore,
        options: IdentityOptions,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        meter: IdentityMeter,
    ) -> None:
        self._store = store
        self._claim_ms = options.claim_ms
        self._clock = clock
        self.stem = random_bytes(6)
        self._tokens = 0
        self._waiting = Waiting(options, lambda: meter.identity_bypassed("backlog", 1))
        self._outgoing: PackedCall | None = None
        self._linger_s = options.linger_ms / 1000
        self._sleeper: asyncio.Future[None] | None = None
        self._is_waited_for = self._is_lingering = False
        self._renew_s = options.claim_ms / 4000
        work = SessionWork(self._catch_up, self._serve, self._lost, self._wake, self._tick)
        times = SessionTimes(_START_S, self._renew_s)
        self._session = ScriptSession("request identity", _log, store, work, times, clock)
        self._timeout_s = options.timeout_ms / 1000
        self._overdue = OverdueCheck(self._timeout_s, self._go_on_overdue)
        self._slow_s = -math.inf

    async def start(self) -> None:
        """Connect; when that takes long, go on without: then requests go past Redis."""
        await self._session.start()

    async def close(self) -> None:
        """Tell Redis the last ends if it takes them in time, and disconnect."""
        await self._session.close()

    def of(self, topic_id: bytes) -> "IdentityClient":
        """Who knows the keys and ids of a topic, see `sharded`."""
        return self

    def new_token(self) -> bytes:
        """12 bytes that no other attempt has, here or elsewhere."""
        self._tokens += 1
        return self.stem + self._tokens.to_bytes(6, "big")

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits: who asks for nothing may go on."""
        return not self._waiting.asks

    def ask(self, claims: Iterator[Sized], go_on: GoOn) -> None:
        """Make these claims; `go_on` is called once, in the order of the asks."""
        ask = Ask(claims, go_on, self._clock())
        if not self._session.is_connected and not self._waiting.asks:
            ask.go_on("breaker_open")
            return
        self._waiting.asks.append(ask)
        self._wake()
        self._overdue.begin()

    def follow(self, claim: Claim) -> None:
        """This attempt goes on without a verdict: its claim is kept alive all the same."""
        self._waiting.follow(claim, self._clock())

    def end(self, token: bytes, operation: ClaimStep) -> None:
        """An attempt has ended: tell Redis, now or when it is back."""
        self._waiting.end(token, operation)
        self._note()

    def when_reported(self, token: bytes, call: Callable[[], None]) -> None:
        """Call it once Redis knows how this attempt ended, or cannot be told now."""
        end = self._waiting.ends.find(token)
        if end is not None and self._session.is_connected:
            end.waiter = call
            self._wake()
        else:
            call()

    def health(self) -> tuple[bool, str]:
        """Tell whether claims are made now, and in words why not."""
        if not self._session.is_connected:
            why = self._session.trouble.in_words
            effect = "Idempotency-Keys and event ids go past Redis"
            exception = 'topics with redis_loss = "refuse" refuse them'
            return False, f"{effect} ({exception}): {why}"
        if self._clock() - self._slow_s < _SLOW_S:
            return False, f"slow: requests did not wait longer than {self._timeout_s:g} s"
        return True, "connected"

    def dependencies(self) -> list[tuple[str, bool, bool, str]]:
        """As /ready shows it: its name, whether it is well, whether it is needed, and in words."""
        ok, detail = self.health()
        return [("redis identity", ok, False, detail)]

    def _go_on_overdue(self) -> bool:
        """Nobody waits for Redis any longer than redis.timeout_ms, whatever the queue is."""
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

    async def _serve(self) -> None:
        while True:
            await self._until_due()
            self._outgoing = outgoing = self._waiting.next_call(self._clock())
            self._is_waited_for = len(self._waiting.ends) > 0
            if outgoing is not None:
                verdicts = await self._store.run(outgoing.call(self._claim_ms))
                self._outgoing = None
                self._waiting.answered(outgoing, verdicts)
            self._waiting.go_on()
            if outgoing is None and self._session.is_closing:
                return

    async def _until_due(self) -> None:
        """Wait until there is something to say, and then for what should go with it."""
        waiting = self._waiting
        if not waiting.has_news:
            await self._sleep(None)
        if waiting.open_claims > _FEW:
            if not waiting.asks and not self._is_waited_for:
                await self._sleep(self._linger_s)
            await self._gather()

    async def _gather(self) -> None:
        """Let those come that are on their way, as many as a call takes."""
        waiting, until_s = self._waiting, self._clock() + self._linger_s
        seen, quiet = waiting.news, 0
        while quiet < _QUIET_TURNS and not waiting.fills_a_call:
            await asyncio.sleep(0)
            if self._clock() >= until_s:
                return
            quiet = 0 if waiting.news > seen else quiet + 1
            seen = waiting.news

    async def _sleep(self, seconds: float | None) -> None:
        """Until there are news, or so long; then only news that somebody waits for count."""
        if self._session.is_closing:
            return
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self._wake)
        self._is_lingering = seconds is not None
        self._sleeper = loop.create_future()
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()

    def _note(self) -> None:
        """There is something to say, and nobody waits for it."""
        if not self._is_lingering:
            self._rouse()

    def _wake(self) -> None:
        """There is something to say that somebody waits for."""
        self._is_waited_for = True
        self._rouse()

    def _rouse(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def _tick(self) -> None:
        """Renew what has been under way for long: a claim must not run out under the living."""
        now = self._clock()
        if self._session.is_connected and self._waiting.renew_older_than(now - self._renew_s, now):
            self._note()
