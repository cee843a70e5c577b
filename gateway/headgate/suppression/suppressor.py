"""Carries claims and settlements to Redis, and keeps the connection.

One call is on its way at a time; what arrives meanwhile goes with the next. An event that finds
the connection idle is sent in the next turn of the event loop, but calls that carry events begin
`linger_ms` apart, and settlements wait that long for an event to ride with.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress

from headgate.backends.base import Verdicts
from headgate.backends.patience import Lookout
from headgate.backends.redis.suppression_store import StoreError, SuppressionStore
from headgate.core.breaker import Breaker, State
from headgate.core.publish import Publish
from headgate.core.suppression.protocol import Scope
from headgate.core.suppression.states import TopicSuppression
from headgate.suppression.bypass import Mode
from headgate.suppression.claims import Claims
from headgate.suppression.growth import Grow, grow_alone
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.states import StateLog

_log = logging.getLogger(__name__)
_FIRST_DELAY_S, _LONGEST_DELAY_S, _PROVEN_S = 0.05, 5.0, 10.0
_CLOSE_S = 2.0  # how long `close` waits for the last settlements
_START_S = 1.5  # how long `start` waits for a connection
_SLOW_S = 10.0  # how long health speaks of events that did not wait any longer


class Suppressor:
    """`base.Suppression`.

    clock: seconds, never jumping.  random_bytes: as `os.urandom`.  grow: see `Claims`.
    """

    def __init__(
        self,
        store: SuppressionStore,
        verdicts: Verdicts,
        options: SuppressOptions,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        meter: SuppressionMeter,
        grow: Grow = grow_alone,
    ) -> None:
        self._store = store
        self._options = options
        self._clock = clock
        new_stem = _unique(random_bytes(5), 5)
        new_nonce = _unique(random_bytes(10), 6)
        self._claims = Claims(verdicts, options, meter, new_stem, new_nonce, grow)
        self._linger_s = options.linger_ms / 1000
        self._asked_s = clock() - self._linger_s  # when the last call that carried events began
        # Every process has to be back well within the quarantine.
        longest_s = max(_FIRST_DELAY_S, min(_LONGEST_DELAY_S, options.quarantine_ms / 4000))
        self._breaker = Breaker(_FIRST_DELAY_S, longest_s, _PROVEN_S)
        self._sleeper: asyncio.Future[None] | None = None
        self._sleeps_for_events = False
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._tried = asyncio.Event()
        self._lookout = Lookout(options.timeout_ms / 1000, self._look)
        self._slow_s, self._slow_count = -math.inf, 0
        self._trouble = StoreError("breaker_open", "not connected yet")
        self._log = StateLog()

    async def start(self) -> None:
        """Connect. Returns after the first attempt, in bounded time: if Redis is away, events go
        past it; but what goes past a healthy Redis, other gateways would not know of.
        """
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._tick())]
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_S):
                await self._tried.wait()

    async def close(self) -> None:
        """Send the last settlements if Redis takes them in time, and disconnect."""
        self._closing = True
        self._wake()
        if self._tasks and self._claims.mode is not Mode.AWAY:
            await asyncio.wait(self._tasks[:1], timeout=_CLOSE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await self._store.close()

    def reserve(self, publish: Publish) -> None:
        """Ask whether the event must be published. While Redis is away the answer comes at once."""
        self._claims.reserve(publish)
        if self._sleeper is not None:
            self._wake()

    def passes(self, scope: Scope, count: int) -> bool:
        """See `base.Suppression`."""
        if self._claims.passes(scope, count, self._clock()):
            return True
        self._news()
        return False

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch."""
        self._claims.acknowledged(batch, base_offset, self._clock())
        self._news()

    def ended(self, publish: Publish, certain: bool) -> None:
        """It ended without acknowledgement. certain: no record of it can be in the log."""
        self._claims.ended(publish, certain, self._clock())
        self._news()

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """A topic has another id, partition count or policy from now on."""
        self._claims.scope_changed(old, new)
        self._news()

    def grew(self, scope: Scope) -> None:
        """A topic has more partitions; its scope has the new count."""
        self._claims.grew(scope)

    def shut(self, scope: Scope) -> None:
        """A topic suppresses no more."""
        self._claims.shut(scope)

    def open(self, scope: Scope) -> None:
        """A topic suppresses: talk to its namespace now, or as soon as Redis is there.

        Its quarantine begins with its birth, so that it is over when the first events come.
        """
        self._claims.open(scope)
        self._news()

    def rule_changed(self, scope: Scope) -> None:
        """The topic's events get their keys by another rule from now on."""
        self._claims.rule_changed(scope)
        self._news()

    def drop(self, scope: Scope) -> None:
        """Trust nothing that is known of the topic: before anything is reserved, start anew."""
        self._claims.drop(scope)
        self._news()

    def is_settled(self) -> bool:
        """Whether Redis knows of every publish that went past it."""
        return self._claims.is_settled()

    async def forget(self, scope: Scope, key: bytes | None = None) -> None:
        """Let the next event of the key (None: of every key) be published.

        Deletes no entry: it holds the tokens of others. Raises StoreError if Redis is away.
        """
        if self._claims.mode is not Mode.READY:
            raise StoreError("breaker_open", str(self._trouble), self._trouble.in_words)
        done = asyncio.get_running_loop().create_future()
        self._claims.forget((scope, None if key is None else scope.entry(key), done))
        self._news()
        await done

    def health(self) -> tuple[bool, str]:
        """Tell whether events are reserved now, and in words why not."""
        if self._claims.mode is not Mode.READY:
            return False, f"events go past Redis: {self._trouble.in_words}"
        if self._clock() - self._slow_s < _SLOW_S:
            waited = f"{self._options.timeout_ms:g} ms (redis.timeout_ms)"
            return False, f"slow: {self._slow_count} events did not wait longer than {waited}"
        return True, "connected"

    def states(self) -> dict[str, TopicSuppression]:
        """Of each topic that suppresses here, by name, whether it does so now."""
        return self._claims.states(self._clock())

    async def _run(self) -> None:
        while not self._closing:
            try:
                await asyncio.sleep(self._breaker.wait_s(self._clock()))
                await self._connect()
                await self._serve()
            except StoreError as error:
                self._lost(error)
            except Exception:  # the task's outermost frame: events must not wait for ever
                _log.exception("suppression failed")
                self._lost(StoreError("internal", "internal error"))

    async def _connect(self) -> None:
        self._breaker.probing()
        await self._store.connect()
        self._claims.catching_up()
        while self._claims.is_behind:
            await self._exchange()
        self._claims.mode = Mode.READY
        self._tried.set()
        self._breaker.succeeded(self._clock())
        _log.info("suppression: connected to Redis")

    async def _serve(self) -> None:
        while True:
            await self._until_due()
            if not await self._exchange() and self._closing:
                return

    async def _until_due(self) -> None:
        """Wait until there is something to say, and then for what should go with it."""
        claims = self._claims
        if not claims.has_news:
            await self._sleep()
        if not claims.waiting:
            await self._sleep(self._linger_s, for_events=True)
        pause_s = self._asked_s + self._linger_s - self._clock()
        if pause_s > 0 and claims.waiting and not self._closing:
            await asyncio.sleep(pause_s)

    async def _sleep(self, seconds: float | None = None, *, for_events: bool = False) -> None:
        """Until there are news (an event, if only that counts), or so long."""
        if self._closing or seconds == 0:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, self._wake) if seconds is not None else None
        self._sleeps_for_events = for_events
        self._sleeper = loop.create_future()
        try:
            await self._sleeper
        finally:
            self._sleeper = None
            if timer is not None:
                timer.cancel()

    def _news(self) -> None:
        if not self._sleeps_for_events:
            self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def _exchange(self) -> bool:
        """Make one call if there is anything to say."""
        flight = self._claims.next_flight(self._clock())
        if flight is None:
            return False
        if flight.reserved:
            self._asked_s = flight.sent_s
        self._lookout.begin()
        call = self._claims.call(flight)
        reply = await self._store.run(call)
        self._claims.answered(flight, call, reply, self._clock())
        return True

    def _look(self) -> bool:
        """Nobody waits for Redis any longer than redis.timeout_ms, whatever the queue is."""
        now_s = self._clock()
        count = self._claims.give_up(now_s)
        if count:
            if now_s - self._slow_s >= _SLOW_S:
                self._slow_count = 0
                _log.warning("suppression: Redis is slow: events go past it")
            self._slow_s = now_s
            self._slow_count += count
        return self._claims.is_waited_for

    def _lost(self, error: StoreError) -> None:
        self._tried.set()
        if self._breaker.state is State.CLOSED or str(self._trouble) != str(error):
            _log.warning("suppression: Redis is away: %s", error)
        self._trouble = error
        self._breaker.failed(self._clock())
        try:
            self._claims.lost(error)
        except Exception:  # within the task's outermost frame: it must go on and connect again
            _log.exception("an event could not go past Redis")

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._options.tick_s)
            if self._claims.tick(self._clock()):
                self._news()
            self._log.note(self.states())


def _unique(prefix: bytes, width: int) -> Callable[[], bytes]:
    """Return a source of bytes that no other source, here or elsewhere, has given or will give."""
    count = 0

    def unique() -> bytes:
        nonlocal count
        count += 1
        return prefix + count.to_bytes(width, "big")

    return unique
