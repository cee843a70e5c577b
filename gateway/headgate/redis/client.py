"""The client of scripts in Redis that suppression and request identity share.

It connects, again and again with growing pauses while Redis is unavailable, and paces the calls.
One call is on its way at a time; what arrives meanwhile goes with the next. If only a few requests
are in flight, one that finds the connection idle is sent at once. Else a call waits while more keep
arriving, because a call costs the same for all that it carries: those that were answered together
have clients that post the next together. What no request waits for waits a moment for others to
ride with. Nothing waits for longer than `linger`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from headgate.backends.owned import OwnedTasks
from headgate.core.outage import Outage
from headgate.redis.script import ScriptStore, StoreError

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0  # between two attempts to connect
FEW: Final = 4  # with so few requests in flight no other is likely to come while a call waits
_PROVEN_S = 10.0  # a connection that lasted so long resets the delay
_CLOSE_S = 2.0  # how long `aclose` waits for the last calls
# Turns of the event loop without an arrival; then no more are on their way. One is often between
# two arrivals.
_QUIET_TURNS = 2


class ClientWork(NamedTuple):
    """The owner's part of a client.

    catch_up: Connected: send what Redis must know before anything else. Raises StoreError.
    exchange: Make the next call; returns whether there was one. Raises StoreError.
    lost: The connection broke; nothing is known of the call that was on its way.
    tick: Called again and again, connected or not.
    has_news: Whether there is anything to send.
    is_urgent: Whether a request waits for it.
    is_busy: Whether so much is in flight that more is likely to arrive soon.
    waiting: How much waits for a call.
    """

    catch_up: Callable[[], Awaitable[None]]
    exchange: Callable[[], Awaitable[bool]]
    lost: Callable[[StoreError], None]
    tick: Callable[[], None]
    has_news: Callable[[], bool]
    is_urgent: Callable[[], bool]
    is_busy: Callable[[], bool]
    waiting: Callable[[], int]


class ClientTimes(NamedTuple):
    """Spans, in seconds.

    start: How long `connect` waits for the first connection.
    tick: Between two ticks.
    linger: How long a call waits at most for more to go with it.
    longest_delay: Between two attempts to connect.
    """

    start: float
    tick: float
    linger: float
    longest_delay: float = LONGEST_DELAY_S


class ScriptClient:
    """One connection to scripts in Redis.

    is_connected: Whether Redis answers, as far as is known.  trouble: Why it does not.

    Args:
        name: Name of the client in the log.
        log: Logger of the owner.
        full: A call with so many is sent without waiting for more.
        clock: Monotonic clock, in seconds.
    """

    def __init__(
        self,
        name: str,
        log: logging.Logger,
        store: ScriptStore,
        work: ClientWork,
        times: ClientTimes,
        full: int,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._log = log
        self._store = store
        self._work = work
        self._times = times
        self._full = full
        self._clock = clock
        self._delay_s = self._retry_at_s = 0.0
        self._connected_at_s: float | None = None
        self._outage = Outage(clock)
        self._tasks = OwnedTasks()
        self._running: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._sleeper: asyncio.Future[None] | None = None
        self._is_lingering = False
        self.is_connected = False
        self.is_closing = False
        self.trouble = StoreError("breaker_open", "not connected yet")

    async def connect(self) -> None:
        """Connect. Returns after the first attempt, in bounded time."""
        self._running = self._tasks.keep(self._run, self._name)
        self._tasks.keep(self._tick, f"ticks of {self._name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.start):
                await self._tried.wait()

    async def aclose(self) -> None:
        """Make the last calls, if Redis takes them in time, and disconnect."""
        self.is_closing = True
        self.wake()
        if self._running is not None and self.is_connected:
            await asyncio.wait([self._running], timeout=_CLOSE_S)
        await self._tasks.end(_CLOSE_S)
        await self._store.close()

    def wake(self) -> None:
        """Send soon: a request waits for it."""
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def note(self) -> None:
        """Send some time: no request waits for it."""
        if not self._is_lingering:
            self.wake()

    async def _run(self) -> None:
        while not self.is_closing:
            try:
                await asyncio.sleep(max(0.0, self._retry_at_s - self._clock()))
                await self._open()
                await self._serve()
            except StoreError as error:
                self._lost(error)
            except Exception:  # the task's outermost frame: no request must wait for ever
                self._log.exception("%s failed", self._name)
                self._lost(StoreError("internal", "internal error"))

    async def _open(self) -> None:
        await self._store.connect()
        self.is_connected = True
        await self._work.catch_up()
        self._connected_at_s = self._clock()
        self._tried.set()
        away_s = self._outage.ends()
        if away_s is None:
            self._log.info("%s: connected to Redis", self._name)
        else:
            self._log.info("%s: Redis answers again", self._name, extra={"away_s": away_s})

    async def _serve(self) -> None:
        work = self._work
        while True:
            if not work.has_news():
                await self._sleep(None)
            if not work.is_urgent():
                await self._sleep(self._times.linger)
            if work.is_busy():
                await self._gather()
            if not await work.exchange() and self.is_closing:
                return

    async def _sleep(self, seconds: float | None) -> None:
        """Sleep until woken, or until the time is over; then only `wake` counts, not `note`."""
        if self.is_closing or seconds == 0:
            return
        loop = asyncio.get_running_loop()
        timer = None if seconds is None else loop.call_later(seconds, self.wake)
        self._is_lingering = seconds is not None
        self._sleeper = loop.create_future()
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()

    async def _gather(self) -> None:
        """Let arrive what is on its way, as much as a call takes."""
        waiting, until_s = self._work.waiting, self._clock() + self._times.linger
        seen, quiet = waiting(), 0
        while 0 < seen < self._full and quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            if self._clock() >= until_s:
                return
            count = waiting()
            quiet = 0 if count > seen else quiet + 1
            seen = count

    def _lost(self, error: StoreError) -> None:
        self._tried.set()
        self._outage.begins()
        if self._connected_at_s is not None or str(self.trouble) != str(error):
            self._log.warning("%s: Redis is not available: %s", self._name, error)
        self.trouble = error
        self.is_connected = False
        self._delay()
        try:
            self._work.lost(error)
        except Exception:  # within the task's outermost frame: it must go on and connect again
            self._log.exception("%s: waiting events could not bypass Redis", self._name)

    def _delay(self) -> None:
        """Set the time of the next attempt: at once, then after delays that double.

        Only a connection that lasted resets the delay. Else a server that breaks at every use and
        accepts every connection would be waited for again and again.
        """
        now_s, since_s = self._clock(), self._connected_at_s
        if since_s is not None and now_s - since_s >= _PROVEN_S:
            self._delay_s = 0.0
        self._retry_at_s = now_s + self._delay_s
        self._delay_s = min(max(self._delay_s * 2, FIRST_DELAY_S), self._times.longest_delay)
        self._connected_at_s = None

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._times.tick)
            self._work.tick()


async def all_ended(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for calls that concern several servers, whatever becomes of each.

    None is left running, also if the caller is cancelled. Raises the first error.
    """
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if error is not None:
            raise error
