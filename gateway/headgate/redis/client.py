"""The client of scripts in Redis that suppression and request identity share.

It connects, retries with growing pauses while Redis is away, and paces the calls. One call is on
its way at a time; requests that arrive meanwhile go with the next call. If only a few requests are
in flight and the connection is idle, a request is sent at once. Otherwise a call waits while more
requests keep arriving, because a larger call costs the same: clients with responses from one call
send their next requests together. News that no request waits for waits a moment for a call with
requests. Nothing waits for longer than `linger`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from headgate.backends.owned import OwnedTasks
from headgate.model.times import Outage
from headgate.redis.script import LATE_S, ScriptStore, StoreError

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0  # pauses between two attempts to connect
FEW: Final = 4  # with so few requests in flight, another is unlikely to come while a call waits
_PROVEN_S = 10.0  # a connection that lasted so long resets the delay
_CHECKS = 8  # number of checks for overdue requests within the longest wait
_CLOSE_S = 2.0  # longest wait of `aclose` for the last calls
# Turns of the event loop without an arrival, after which no more requests are on their way. One
# such turn is common between two arrivals.
_QUIET_TURNS = 2


class ClientWork(NamedTuple):
    """The owner's callbacks.

    Attributes:
        catch_up: Sends the news that Redis needs first on a new connection; raises StoreError.
        exchange: Makes the next call, and returns whether there was one; raises StoreError.
        lost: Called when the connection is lost; the fate of the current call is unknown.
        tick: Called at intervals, with or without a connection.
        has_news: Returns whether there is anything to send.
        is_urgent: Returns whether a request waits for the call.
        is_busy: Returns whether so much is in flight that more is likely to arrive soon.
        waiting: Returns the number of requests that wait for a call.
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
    """Times of a client, in seconds.

    Attributes:
        start: Longest wait of `connect` for the first connection.
        tick: Time between two ticks.
        linger: Longest wait of a call for more requests.
        longest_delay: Longest pause between two attempts to connect.
    """

    start: float
    tick: float
    linger: float
    longest_delay: float = LONGEST_DELAY_S


class ScriptClient:
    """One connection to scripts in Redis.

    Args:
        name: Name of the client in the log.
        log: Logger of the owner.
        store: Connection to Redis.
        work: Callbacks of the owner.
        times: Times of the client.
        full: Number of requests with which a call no longer waits for more.
        clock: Monotonic clock, in seconds.

    Attributes:
        is_connected: Redis answers, as far as the client knows.
        is_closing: `aclose` was called.
        trouble: Why Redis does not answer.
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
        """Connect, and return after the first attempt, in bounded time."""
        self._running = self._tasks.spawn(self._run(), self._name)
        self._tasks.keep(self._tick, f"ticks of {self._name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.start):
                await self._tried.wait()

    async def aclose(self) -> None:
        """Make the last calls if Redis takes them in time, and disconnect."""
        self.is_closing = True
        self.wake()
        if self._running is not None and self.is_connected:
            await asyncio.wait([self._running], timeout=_CLOSE_S)
        await self._tasks.end(_CLOSE_S)
        await self._store.close()

    def wake(self) -> None:
        """Make a call soon, because a request waits for it."""
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def note(self) -> None:
        """Make a call at some time; no request waits for it."""
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
            except Exception:  # outermost frame of the task: no request must wait forever
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
        """Sleep until woken. With a timeout (seconds), only `wake` counts, not `note`."""
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
        """Wait while requests keep arriving, up to a full call."""
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
        if self._outage.begins():
            self._log.warning("%s: Redis is not available: %s", self._name, error)
        elif str(self.trouble) != str(error):  # still the same outage; /ready has the newest cause
            self._log.debug("%s: Redis is still not available: %s", self._name, error)
        self.trouble = error
        self.is_connected = False
        self._delay()
        try:
            self._work.lost(error)
        except Exception:  # in the outermost frame of the task, which must connect again
            self._log.exception("%s: waiting events could not bypass Redis", self._name)

    def _delay(self) -> None:
        """Set the time of the next attempt: at once, then after delays that double.

        Only a connection that lasted resets the delay. Otherwise the client would reconnect at once
        to a server that accepts each connection and breaks at each use.
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


class OverdueCheck:
    """A periodic check that ends waits that last too long.

    Args:
        seconds: Longest wait; there are several checks within it.
        check: Called at intervals; returns whether any request still waits.
    """

    __slots__ = ("_check", "_due_s", "_has_waited", "_is_on", "_pause_s")

    def __init__(self, seconds: float, check: Callable[[], bool]) -> None:
        self._pause_s = seconds / _CHECKS
        self._check = check
        self._due_s = 0.0
        self._is_on = self._has_waited = False

    def begin(self) -> None:
        """Start the checks, because a request waits."""
        if not self._is_on:
            self._is_on = True
            self._run_in(self._pause_s)

    def _run_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due_s = loop.time() + seconds
        loop.call_at(self._due_s, self._run)

    def _run(self) -> None:
        late_s = asyncio.get_running_loop().time() - self._due_s
        if late_s > LATE_S and not self._has_waited:
            self._has_waited = True  # as in `SharedTimeout`: read replies that have arrived first
            self._run_in(LATE_S)
            return
        self._has_waited = self._is_on = False
        still_waited_for = True  # also if the check fails: the others must not wait forever
        try:
            still_waited_for = self._check()
        finally:
            if still_waited_for:
                self.begin()


async def all_ended(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for calls to several servers, also if some of them fail.

    No call keeps running, even if the caller is cancelled. Raises the first error.
    """
    for error in await asyncio.gather(*calls, return_exceptions=True):
        if error is not None:
            raise error
