"""Carries claims and their ends to Redis, and keeps the connection.

One call is on its way at a time; what arrives meanwhile goes with the next. Requests go on in
the order in which they asked, so that events of one key keep theirs. While Redis is away they
go on at once, without verdicts.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import suppress

from headgate.backends.patience import Lookout
from headgate.backends.redis.identity_store import IdentityStore
from headgate.backends.redis.suppression_store import StoreError
from headgate.core.breaker import Breaker, State
from headgate.core.idempotency.protocol import Claim, Operation
from headgate.idempotency.asks import Ask, GoOn, Sized
from headgate.idempotency.options import IdentityMeter, IdentityOptions
from headgate.idempotency.waiting import Flight, Waiting

_log = logging.getLogger(__name__)
_FIRST_DELAY_S, _LONGEST_DELAY_S, _PROVEN_S = 0.05, 5.0, 10.0
_SLOW_S = 10.0  # how long health speaks of requests that did not wait any longer
_CLOSE_S = 2.0  # how long `close` waits for the last ends to be told
_START_S = 1.0  # how long `start` waits for the first connection


class IdentityDesk:
    """clock: seconds, never jumping.  random_bytes: as `os.urandom`."""

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
        self._stem = random_bytes(6)
        self._tokens = 0
        self._breaker = Breaker(_FIRST_DELAY_S, _LONGEST_DELAY_S, _PROVEN_S)
        self._waiting = Waiting(options, lambda: meter.identity_bypassed("backlog", 1))
        self._flight: Flight | None = None
        self._news = asyncio.Event()
        self._first_try = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._is_here = False
        self._closing = False
        self._timeout_s = options.timeout_ms / 1000
        self._lookout = Lookout(self._timeout_s, self._look)
        self._slow_s = -math.inf
        self._trouble = StoreError("breaker_open", "not connected yet")

    async def start(self) -> None:
        """Connect; when that takes long, go on without: then requests go past Redis."""
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tick())]
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await self._first_try.wait()

    async def close(self) -> None:
        """Tell Redis the last ends if it takes them in time, and disconnect."""
        self._closing = True
        self._news.set()
        if self._tasks and self._is_here:
            await asyncio.wait(self._tasks[:1], timeout=_CLOSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._store.close()

    def new_token(self) -> bytes:
        """12 bytes that no other attempt has, here or elsewhere."""
        self._tokens += 1
        return self._stem + self._tokens.to_bytes(6, "big")

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits: who asks for nothing may go on."""
        return not self._waiting.asks

    def ask(self, claims: Iterator[Sized], go_on: GoOn) -> None:
        """Make these claims; `go_on` is called once, in the order of the asks."""
        ask = Ask(claims, go_on, self._clock())
        if not self._is_here and not self._waiting.asks:
            ask.go_on("breaker_open")
            return
        self._waiting.asks.append(ask)
        self._news.set()
        self._lookout.begin()

    def follow(self, claim: Claim) -> None:
        """This attempt goes on without a verdict: its claim is kept alive all the same."""
        self._waiting.follow(claim, self._clock())

    def end(self, token: bytes, operation: Operation) -> None:
        """An attempt has ended: tell Redis, now or when it is back."""
        self._waiting.end(token, operation)
        self._news.set()

    async def told(self, token: bytes) -> None:
        """Wait until Redis knows how this attempt ended, or cannot be told now."""
        end = self._waiting.ends.find(token)
        if end is not None and self._is_here:
            end.waiter = asyncio.get_running_loop().create_future()
            await end.waiter

    def health(self) -> tuple[bool, str]:
        """Tell whether claims are made now, and in words why not."""
        if self._is_here:
            if self._clock() - self._slow_s < _SLOW_S:
                return False, f"slow: requests did not wait longer than {self._timeout_s:g} s"
            return True, "connected"
        return False, f"Idempotency-Keys and event ids go past Redis: {self._trouble.in_words}"

    def _look(self) -> bool:
        """Nobody waits for Redis any longer than redis.timeout_ms, whatever the queue is."""
        now_s = self._clock()
        if self._waiting.go_on_overdue(now_s - self._timeout_s):
            self._slow_s = now_s
        return bool(self._waiting.asks)

    async def _run(self) -> None:
        while not self._closing:
            try:
                self._waiting.go_on_without(self._trouble.reason)
                await asyncio.sleep(self._breaker.wait_s(self._clock()))
                self._breaker.probing()
                await self._store.connect()
                self._connected()
                await self._serve()
            except StoreError as error:
                self._lost(error)
            except Exception:  # the task's outermost frame: requests must not wait for ever
                _log.exception("request identity failed")
                self._lost(StoreError("internal", "internal error"))

    def _connected(self) -> None:
        now = self._clock()
        self._waiting.renew_all(now)
        self._is_here = True
        self._breaker.succeeded(now)
        self._first_try.set()
        _log.info("request identity: connected to Redis")

    def _lost(self, error: StoreError) -> None:
        if self._breaker.state is State.CLOSED or str(self._trouble) != str(error):
            _log.warning("request identity: Redis is away: %s", error)
        self._trouble = error
        self._is_here = False
        self._breaker.failed(self._clock())
        self._first_try.set()
        flight, self._flight = self._flight, None
        self._waiting.lost(flight)

    async def _serve(self) -> None:
        while True:
            self._news.clear()
            self._flight = flight = self._waiting.next_flight(self._clock())
            if flight is not None:
                verdicts = await self._store.run(flight.call(self._claim_ms))
                self._flight = None
                self._waiting.answered(flight, verdicts)
            self._waiting.go_on()
            if flight is None:
                if self._closing:
                    return
                await self._news.wait()

    async def _tick(self) -> None:
        """Renew what has been under way for long: a claim must not run out under the living."""
        every_s = self._claim_ms / 4000
        while True:
            await asyncio.sleep(every_s)
            now = self._clock()
            if self._is_here and self._waiting.renew_older_than(now - every_s, now):
                self._news.set()
