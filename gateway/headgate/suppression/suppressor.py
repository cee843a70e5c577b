"""Carries claims and settlements to Redis, and keeps the connection.

One call is on its way at a time; what arrives meanwhile goes with the next. Where only a few events
are in flight, one that finds the connection idle is sent at once. Else a call waits while events
keep arriving: those that were answered together have clients that post the next together, and a
call costs the same for all of them. Settlements wait for an event to ride with. Neither waits for
longer than `linger_ms`.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headgate.backends.base import Verdicts
from headgate.backends.patience import OverdueCheck
from headgate.backends.redis.errors import StoreError
from headgate.backends.redis.session import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    ScriptSession,
    SessionTimes,
    SessionWork,
)
from headgate.core.publish import Publish
from headgate.core.suppression import ON, QUARANTINE, Scope, TopicSuppression
from headgate.suppression.claims import BypassMode, Claims, Grow, grow_alone
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.rules import Agreement, LayoutCall, LayoutSpans, layout_of, layout_spans
from headgate.suppression.store import SuppressionStore

_log = logging.getLogger("headgate.suppression.suppressor")
_START_S = 1.5  # how long `start` waits for a connection
_FEW = 4  # with so few events in flight nobody is likely to come while a call waits
# Of the event loop, without an event: then no more are on their way. One is often between two.
_QUIET_TURNS = 2
_SLOW_S = 10.0  # how long health speaks of events that did not wait any longer
_MAX_NAMED = 5  # topics in a line of the log


class StateLog:
    """One line when topics begin to be published without comparison, one when that ends."""

    def __init__(self) -> None:
        self._paused: set[str] = set()

    def note(self, states: Mapping[str, TopicSuppression]) -> None:
        """Call it now and then; topics that are AWAY have a line of their own elsewhere."""
        paused = {topic for topic, one in states.items() if one.state == QUARANTINE}
        if begun := paused - self._paused:
            until_s = max(states[topic].until_s or 0.0 for topic in begun)
            span = (
                f"for {until_s:.0f} s unless it is extended"
                if until_s
                else "until Redis has answered"
            )
            _log.warning(
                "suppression: %s: quarantine: all events are published, %s (Redis is new or lost "
                "its state, or other gateways use other rules or other servers)",
                _named(begun), span,
            )  # fmt: skip
        if ended := {topic for topic in self._paused - paused if _is_on(states.get(topic))}:
            _log.info("suppression: %s: active, the quarantine is over", _named(ended))
        self._paused = paused


def _is_on(state: TopicSuppression | None) -> bool:
    return state is not None and state.state == ON


def _named(topics: set[str]) -> str:
    names = sorted(topics)
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


class Membership(NamedTuple):
    """One server's place among those of this process.

    agreement: of the process, shared by its servers.  number: of this one.  call: what it is told.
    """

    agreement: Agreement
    number: int
    call: LayoutCall
    spans: LayoutSpans


def memberships(servers: Sequence[str], options: SuppressOptions, prefix: str) -> list[Membership]:
    """One for each server. servers: their identities.  prefix: redis.namespace."""
    spans = layout_spans(options.quarantine_ms, options.max_suppress_age_ms)
    agreement = Agreement(len(servers), spans)
    name, layout = f"{prefix}:layout".encode(), layout_of(servers)
    call = LayoutCall(name, layout, spans.alive * 1000, spans.keep * 1000)
    return [Membership(agreement, number, call, spans) for number in range(len(servers))]


class Tellings:
    """clock: seconds, never jumping."""

    def __init__(
        self, store: SuppressionStore, membership: Membership, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._membership = membership
        self._clock = clock
        self._sent_s = -math.inf

    @property
    def is_due(self) -> bool:
        """Whether the server must be told again."""
        return self._clock() - self._sent_s >= self._membership.spans.interval

    async def tell(self) -> None:
        """Raises StoreError."""
        agreement, number, call, _ = self._membership
        self._sent_s = sent_s = self._clock()
        reply = await self._store.tell(call)
        agreement.heard(number, sent_s, self._clock(), reply)

    def lost(self) -> None:
        """The connection broke."""
        self._sent_s = -math.inf
        self._membership.agreement.lost(self._membership.number, self._clock())


async def may_begin(agreement: Agreement, clock: Callable[[], float]) -> None:
    """Return when this process may take events: at once, or if gateways with other servers were
    there, when they believe nothing any more."""
    while (wait_s := agreement.begins_s - clock()) > 0:  # a server may answer meanwhile
        _log.warning(
            "suppression: other gateways have other servers in redis.urls: start delayed by %.0f s",
            wait_s,
        )
        await asyncio.sleep(wait_s)


class Suppressor:
    """`base.Suppression`.

    clock: seconds, never jumping.  random_bytes: as `os.urandom`.  grow: see `Claims`.
    membership: of this server, where others are (`sharded` sees `claims`).  name: for the log.
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
        membership: Membership | None = None,
        name: str = "suppression",
    ) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        membership = membership or memberships(("",), options, "headgate")[0]
        self._tellings, self._must_tell = Tellings(store, membership, clock), False
        self.on_reply: Callable[[], None] = lambda: None  # or the connection is lost
        new_stem = _unique(random_bytes(5), 5)
        new_nonce = _unique(random_bytes(10), 6)
        self._agreement = membership.agreement
        self.claims = Claims(verdicts, options, meter, new_stem, new_nonce, grow, self._agreement)
        self._linger_s = options.linger_ms / 1000
        # Every process has to be back well within the quarantine.
        longest_s = max(FIRST_DELAY_S, min(LONGEST_DELAY_S, options.quarantine_ms / 4000))
        times = SessionTimes(_START_S, options.tick_s, longest_s)
        work = SessionWork(self._catch_up, self._serve, self._lost, self._wake, self._tick)
        self._session = ScriptSession(name, _log, store, work, times, clock)
        self._sleeper: asyncio.Future[None] | None = None
        self._sleeps_for_events = False
        self._overdue_check = OverdueCheck(options.timeout_ms / 1000, self._give_up_overdue)
        self._slow_s, self._slow_count = -math.inf, 0
        self._must_look, self._looked_s, self._eviction = False, -math.inf, ""
        self._log = StateLog()

    async def start(self) -> None:
        """Connect. Returns after the first attempt, in bounded time: if Redis is away, events go
        past it; but what goes past a healthy Redis, other gateways would not know of.
        """
        await self.connect()
        await may_begin(self._agreement, self._clock)

    async def connect(self) -> None:
        """The same, but wait for no other gateways: `sharded` does so once for all servers."""
        await self._session.start()

    async def close(self) -> None:
        """Send the last settlements if Redis takes them in time, and disconnect."""
        await self._session.close()
        self.claims.closed(StoreError("breaker_open", "the connection is closed"))

    def reserve(self, publish: Publish) -> None:
        """Ask whether the event must be published. While Redis is away the answer comes at once."""
        self.claims.reserve(publish)
        if self._sleeper is not None:
            self._wake()

    def passes(self, scope: Scope, count: int) -> bool:
        """See `base.Suppression`."""
        if self.claims.passes(scope, count, self._clock()):
            return True
        self.news()
        return False

    def hold(self, scope: Scope) -> None:
        """See `base.Suppression`."""
        self.claims.hold(scope)
        self.news()

    def release(self, scope: Scope) -> None:
        """See `base.Suppression`."""
        self.claims.release(scope)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch."""
        self.claims.acknowledged(batch, base_offset, self._clock())
        self.news()

    def ended(self, publish: Publish, certain: bool) -> None:
        """It ended without acknowledgement. certain: no record of it can be in the log."""
        self.claims.ended(publish, certain, self._clock())
        self.news()

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """A topic has another id, partition count or policy from now on."""
        self.claims.scope_changed(old, new)
        self.news()

    def grew(self, scope: Scope) -> None:
        """A topic has more partitions; its scope has the new count."""
        self.claims.grew(scope)

    def shut(self, scope: Scope) -> None:
        """A topic suppresses no more."""
        self.claims.shut(scope)

    def open(self, scope: Scope) -> None:
        """A topic suppresses: talk to its namespace now, or as soon as Redis is there.

        Its quarantine begins with its birth, so that it is over when the first events come.
        """
        self.claims.open(scope)
        self.news()

    def rule_changed(self, scope: Scope) -> None:
        """The topic's events get their keys by another rule from now on."""
        self.claims.rule_changed(scope)
        self.news()

    def drop(self, scope: Scope) -> None:
        """Trust nothing that is known of the topic: it begins a new incarnation first."""
        self.claims.drop(scope)
        self.news()

    def is_settled(self) -> bool:
        """Whether Redis knows of every publish that went past it."""
        return self.claims.is_settled()

    async def forget(self, scope: Scope, key: bytes | None = None) -> None:
        """Let the next event of the key (None: of every key) be published.

        Deletes no entry: it holds the tokens of others. Raises StoreError if Redis is away.
        """
        if self.claims.mode != BypassMode.READY:
            trouble = self._session.trouble
            raise StoreError("breaker_open", str(trouble), trouble.in_words)
        done = asyncio.get_running_loop().create_future()
        self.claims.forget((scope, None if key is None else scope.entry(key), done))
        self.news()
        await done

    def health(self, effect: str = "events go past Redis") -> tuple[bool, str]:
        """Tell whether events are reserved now, and in words why not.

        Args:
            effect: What happens to events while Redis is unavailable.
        """
        if self.claims.mode != BypassMode.READY:
            return False, f"{effect}: {self._session.trouble.in_words}"
        if self._clock() - self._slow_s < _SLOW_S:
            waited = f"{self._options.timeout_ms:g} ms (redis.timeout_ms)"
            return False, f"slow: {self._slow_count} events did not wait longer than {waited}"
        if self.store.eviction:
            return False, f"connected; {self.store.eviction}"
        return True, "connected"

    def states(self) -> dict[str, TopicSuppression]:
        """Of each topic that suppresses here, by name, whether it does so now."""
        return self.claims.states(self._clock())

    async def _catch_up(self) -> None:
        await self._tellings.tell()
        self.claims.catching_up()
        while self.claims.is_behind:
            await self._exchange()
        self.claims.mode = BypassMode.READY
        self._looked()

    def _looked(self) -> None:
        """Note when Redis was looked at, and log what has changed."""
        self._looked_s = self._clock()
        eviction, self._eviction = self._eviction, self.store.eviction
        if self._eviction and not eviction:
            _log.warning(
                "suppression: Redis: %s; an eviction can lose publishes in progress",
                self._eviction,
            )
        elif eviction and not self._eviction:
            _log.info("suppression: Redis no longer evicts keys")

    async def _serve(self) -> None:
        while True:
            await self._until_due()
            if self._must_tell:
                self._must_tell = False
                await self._tellings.tell()
            if self._must_look:
                self._must_look = False
                self._overdue_check.begin()  # events may come meanwhile
                await self.store.look()
                self._looked()
            if not await self._exchange() and self._session.is_closing:
                return

    async def _until_due(self) -> None:
        """Wait until there is something to say, and then for what should go with it."""
        claims = self.claims
        if not (claims.has_news or self._must_tell or self._must_look):
            await self._sleep()
        if not claims.waiting:
            await self._sleep(self._linger_s, for_events=True)
        if claims.in_flight > _FEW:
            await self._gather()

    async def _gather(self) -> None:
        """Let those events come that are on their way, as many as a call takes."""
        claims, until_s = self.claims, self._clock() + self._linger_s
        seen, quiet = claims.waiting, 0
        while 0 < seen < self._options.max_keys_per_call and quiet < _QUIET_TURNS:
            await asyncio.sleep(0)
            if self._clock() >= until_s:
                return
            quiet = 0 if claims.waiting > seen else quiet + 1
            seen = claims.waiting

    async def _sleep(self, seconds: float | None = None, *, for_events: bool = False) -> None:
        """Until there are news (an event, if only that counts), or so long."""
        if self._session.is_closing or seconds == 0:
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

    def news(self) -> None:
        """There is something to tell Redis, and no event waits for it."""
        if not self._sleeps_for_events:
            self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def _exchange(self) -> bool:
        """Make one call if there is anything to say."""
        outgoing = self.claims.next_call(self._clock())
        if outgoing is None:
            return False
        self._overdue_check.begin()
        call = self.claims.call(outgoing)
        reply = await self.store.run(call)
        self.claims.answered(outgoing, call, reply, self._clock())
        self.on_reply()
        return True

    def _lost(self, error: StoreError) -> None:
        self._tellings.lost()
        self.claims.lost(error)
        self.on_reply()

    def _give_up_overdue(self) -> bool:
        """Nobody waits for Redis any longer than redis.timeout_ms, whatever the queue is."""
        now_s = self._clock()
        count = self.claims.give_up(now_s)
        if count:
            if now_s - self._slow_s >= _SLOW_S:
                self._slow_count = 0
                _log.warning("suppression: Redis is slow: events bypass it")
            self._slow_s = now_s
            self._slow_count += count
        return self.claims.is_waited_for

    def _tick(self) -> None:
        self._must_tell = self._tellings.is_due
        is_ready = self.claims.mode == BypassMode.READY
        self._must_look = is_ready and self._clock() - self._looked_s >= self._options.look_s
        if self.claims.tick(self._clock()) or self._must_tell or self._must_look:
            self.news()
        self._log.note(self.states())


def _unique(prefix: bytes, width: int) -> Callable[[], bytes]:
    """Return a source of bytes that no other source, here or elsewhere, has given or will give."""
    count = 0

    def unique() -> bytes:
        nonlocal count
        count += 1
        return prefix + count.to_bytes(width, "big")

    return unique
