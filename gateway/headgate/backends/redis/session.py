"""Keeps a connection to a script in Redis: what suppression and request identity share.

It connects, again and again with growing pauses while Redis is away, and tells its owner when Redis
is there and when it is not. What goes over the connection is the owner's business.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol

from headgate.backends.owned import OwnedTasks
from headgate.backends.redis.errors import StoreError
from headgate.core.breaker import Breaker, BreakerState
from headgate.core.outage import Outage

FIRST_DELAY_S, LONGEST_DELAY_S = 0.05, 5.0  # between two attempts to connect
_PROVEN_S = 10.0  # a connection that lasted so long resets the delay
_CLOSE_S = 2.0  # how long `close` waits for the last calls


async def all_ended(calls: Iterable[Awaitable[None]]) -> None:
    """Wait for what concerns several servers: each goes on, whatever becomes of the others, and
    none is left running, also where the caller is cancelled. Then raise the first error."""
    for found in await asyncio.gather(*calls, return_exceptions=True):
        if found is not None:
            raise found


class ScriptStore(Protocol):
    """What is connected."""

    async def connect(self) -> None:
        """Raises StoreError."""
        ...

    async def close(self) -> None:
        """Close the connection, if there is one."""
        ...


class SessionWork(NamedTuple):
    """What the owner does with the connection.

    catch_up: Redis is there: tell it what it must know before anything else.  serve: make calls;
    return when the session is closing and nothing is left to say. Both raise StoreError.
    lost: Redis is away; nothing is known of the call that was on its way.  wake: have `serve` look
    again, for the session is closing.  tick: called again and again, whether Redis is there or not.
    """

    catch_up: Callable[[], Awaitable[None]]
    serve: Callable[[], Awaitable[None]]
    lost: Callable[[StoreError], None]
    wake: Callable[[], None]
    tick: Callable[[], None]


class SessionTimes(NamedTuple):
    """Seconds. start: how long `start` waits for the first connection.  longest_delay: see
    `LONGEST_DELAY_S`.  tick: between two ticks.
    """

    start: float
    tick: float
    longest_delay: float = LONGEST_DELAY_S


class ScriptSession:
    """name: for the log.  log: the owner's.  clock: seconds, never jumping.

    is_connected: whether Redis is there, as far as is known.  trouble: why it is not.
    """

    def __init__(
        self,
        name: str,
        log: logging.Logger,
        store: ScriptStore,
        work: SessionWork,
        times: SessionTimes,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._log = log
        self._store = store
        self._work = work
        self._times = times
        self._clock = clock
        self._breaker = Breaker(FIRST_DELAY_S, times.longest_delay, _PROVEN_S)
        self._outage = Outage(clock)
        self._tasks = OwnedTasks()
        self._running: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self.is_connected = False
        self.is_closing = False
        self.trouble = StoreError("breaker_open", "not connected yet")

    async def start(self) -> None:
        """Connect. Returns after the first attempt, in bounded time."""
        self._running = self._tasks.keep(self._run, self._name)
        self._tasks.keep(self._tick, f"ticks of {self._name}")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._times.start):
                await self._tried.wait()

    async def close(self) -> None:
        """Let the owner tell Redis the last, if Redis takes it in time, and disconnect."""
        self.is_closing = True
        self._work.wake()
        if self._running is not None and self.is_connected:
            await asyncio.wait([self._running], timeout=_CLOSE_S)
        await self._tasks.end(_CLOSE_S)
        await self._store.close()

    async def _run(self) -> None:
        while not self.is_closing:
            try:
                await asyncio.sleep(self._breaker.wait_s(self._clock()))
                await self._connect()
                await self._work.serve()
            except StoreError as error:
                self._lost(error)
            except Exception:  # the task's outermost frame: nobody must wait for ever
                self._log.exception("%s failed", self._name)
                self._lost(StoreError("internal", "internal error"))

    async def _connect(self) -> None:
        self._breaker.probing()
        await self._store.connect()
        self.is_connected = True
        await self._work.catch_up()
        self._breaker.succeeded(self._clock())
        self._tried.set()
        away_s = self._outage.ends()
        if away_s is None:
            self._log.info("%s: connected to Redis", self._name)
        else:
            self._log.info("%s: Redis answers again", self._name, extra={"away_s": away_s})

    def _lost(self, error: StoreError) -> None:
        self._tried.set()
        self._outage.begins()
        if self._breaker.state is BreakerState.CLOSED or str(self.trouble) != str(error):
            self._log.warning("%s: Redis is not available: %s", self._name, error)
        self.trouble = error
        self.is_connected = False
        self._breaker.failed(self._clock())
        try:
            self._work.lost(error)
        except Exception:  # within the task's outermost frame: it must go on and connect again
            self._log.exception("%s: waiting events could not bypass Redis", self._name)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._times.tick)
            self._work.tick()
