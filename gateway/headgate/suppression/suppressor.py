"""Suppression on one Redis server: it carries claims, settlements and replies."""

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from headgate.backends.base import Verdicts
from headgate.metrics.meter import Meter
from headgate.model.publish import Publish
from headgate.model.suppression import Scope
from headgate.model.suppression_states import ON, QUARANTINE, TopicSuppression
from headgate.redis.client import (
    FIRST_DELAY_S,
    LONGEST_DELAY_S,
    ClientTimes,
    ClientWork,
    OverdueCheck,
    ScriptClient,
)
from headgate.redis.script import StoreError
from headgate.suppression.options import SuppressOptions
from headgate.suppression.reservations import BypassMode, Grow, Reservations, grow_alone
from headgate.suppression.rules import Agreement, LayoutCall, LayoutSpans, layout_of, layout_spans
from headgate.suppression.store import SuppressionStore

_log = logging.getLogger("headgate.suppression")
_START_S = 1.5  # how long `start` waits for a connection
_SLOW_S = 10.0  # time for which health reports events that gave up waiting
_MAX_NAMED = 5  # most topics in a log line


class StateLog:
    """A log of quarantines: one line when they begin, one when they end."""

    def __init__(self) -> None:
        self._paused: set[str] = set()

    def note(self, states: Mapping[str, TopicSuppression]) -> None:
        """Log the changes since the last call; topics that are AWAY are logged elsewhere."""
        paused = {topic for topic, state in states.items() if state.state == QUARANTINE}
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
                _named(begun),
                span,
            )
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
    """One server's membership in the list of this process.

    Attributes:
        agreement: Agreement of the process, shared by its servers.
        number: Index of this server.
        call: Announcement of the layout.
        spans: Spans of the agreement.
    """

    agreement: Agreement
    number: int
    call: LayoutCall
    spans: LayoutSpans


def memberships(servers: Sequence[str], options: SuppressOptions, prefix: str) -> list[Membership]:
    """Return the membership of each server.

    Args:
        servers: Identities of the servers.
        options: Options of suppression.
        prefix: Option redis.namespace.
    """
    spans = layout_spans(options.quarantine_ms, options.max_suppress_age_ms)
    agreement = Agreement(len(servers), spans)
    name, layout = f"{prefix}:layout".encode(), layout_of(servers)
    call = LayoutCall(name, layout, spans.alive * 1000, spans.keep * 1000)
    return [Membership(agreement, number, call, spans) for number in range(len(servers))]


async def wait_to_begin(agreement: Agreement, clock: Callable[[], float]) -> None:
    """Wait until this process may take events.

    If other gateways use other servers, it waits until they believe no state.

    Args:
        agreement: Agreement of the process.
        clock: Monotonic clock, in seconds.
    """
    while (wait_s := agreement.begins_s - clock()) > 0:  # a server may answer meanwhile
        _log.warning(
            "suppression: other gateways have other servers in redis.urls: start delayed by %.0f s",
            wait_s,
        )
        await asyncio.sleep(wait_s)


class Suppressor:
    """A `base.Suppression` on one Redis server.

    Args:
        store: Connection to Redis.
        verdicts: Receiver of the verdicts.
        options: Options of suppression.
        clock: Monotonic clock, in seconds.
        random_bytes: Source of random bytes, such as `os.urandom`.
        meter: Counts the events that bypassed suppression.
        grow: Called with a topic that has more partitions than this process knew.
        membership: Membership of this server if there are several (`sharded`).
        name: Name in the log.
    """

    def __init__(
        self,
        store: SuppressionStore,
        verdicts: Verdicts,
        options: SuppressOptions,
        clock: Callable[[], float],
        random_bytes: Callable[[int], bytes],
        meter: Meter,
        grow: Grow = grow_alone,
        membership: Membership | None = None,
        name: str = "suppression",
    ) -> None:
        self.store = store
        self._options = options
        self._clock = clock
        membership = membership or memberships(("",), options, "headgate")[0]
        self._membership, self._heartbeat_s = membership, -math.inf
        self.on_reply: Callable[[], None] = lambda: None  # also called when the connection is lost
        self._agreement = membership.agreement
        self.reservations = reservations = Reservations(
            verdicts, options, meter, random_bytes, grow, self._agreement
        )
        # Every process must reconnect well within the quarantine.
        longest_s = max(FIRST_DELAY_S, min(LONGEST_DELAY_S, options.quarantine_ms / 4000))
        times = ClientTimes(_START_S, options.tick_s, options.linger_ms / 1000, longest_s)
        work = ClientWork(
            self._catch_up,
            self._exchange,
            self._lost,
            self._tick,
            self._has_news,
            reservations.is_urgent,
            reservations.is_busy,
            reservations.waiting,
        )
        full = options.max_keys_per_call
        self._client = ScriptClient(name, _log, store, work, times, full, clock)
        self._heartbeat_due = self._look_due = False
        self._overdue_check = OverdueCheck(options.timeout_ms / 1000, self._give_up_overdue)
        self._slow_s, self._slow_count = -math.inf, 0
        self._looked_s, self._eviction = -math.inf, ""
        self._log = StateLog()

    async def start(self) -> None:
        """Connect, and return after the first attempt, in bounded time.

        If Redis is away, events bypass it. They must not bypass a healthy Redis, because other
        gateways would not know of them.
        """
        await self.connect()
        await wait_to_begin(self._agreement, self._clock)

    async def connect(self) -> None:
        """Connect without the wait for other gateways, which `sharded` does for all servers."""
        await self._client.connect()

    async def close(self) -> None:
        """Send the last settlements if Redis takes them in time, and disconnect."""
        await self._client.aclose()
        self.reservations.fail_forgets(StoreError("breaker_open", "the connection is closed"))

    def reserve(self, publish: Publish) -> None:
        """Reserve an event. While Redis is away, the verdict comes at once."""
        self.reservations.reserve(publish)
        self._client.wake()

    def let_pass(self, scope: Scope, count: int) -> bool:
        """Let events pass unreserved, if their topic is announced."""
        if self.reservations.let_pass(scope, count, self._clock()):
            return True
        self._client.note()
        return False

    def hold(self, scope: Scope) -> None:
        """Announce a topic until `release`."""
        self.reservations.hold(scope)
        self._client.note()

    def release(self, scope: Scope) -> None:
        """End a `hold`."""
        self.reservations.release(scope)

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch."""
        self.reservations.acknowledged(batch, base_offset, self._clock())
        self._client.note()

    def ended(self, publish: Publish, certain: bool) -> None:
        """Handle an end without acknowledgement.

        Args:
            publish: The event.
            certain: No record can be in the log.
        """
        self.reservations.ended(publish, certain, self._clock())
        self._client.note()

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """Replace a namespace after a change of a topic's id, partition count or policy."""
        self.reservations.scope_changed(old, new)
        self._client.note()

    def grew(self, scope: Scope) -> None:
        """Place waiting events again after a topic has grown; its scope has the new count."""
        self.reservations.grew(scope)

    def shut(self, scope: Scope) -> None:
        """Stop suppressing a topic."""
        self.reservations.shut(scope)

    def open(self, scope: Scope) -> None:
        """Start suppressing a topic: create its namespace as soon as Redis answers.

        The quarantine begins with the namespace's birth, so that it can end before the first
        events.
        """
        self.reservations.open(scope)
        self._client.note()

    def rule_changed(self, scope: Scope) -> None:
        """Begin a new incarnation after a change of a topic's key rule."""
        self.reservations.rule_changed(scope)
        self._client.note()

    def drop(self, scope: Scope) -> None:
        """Distrust the topic's state: begin a new incarnation first."""
        self.reservations.drop(scope)
        self._client.note()

    def is_settled(self) -> bool:
        """Return whether Redis has the news of all publishes that bypassed it."""
        return self.reservations.is_settled()

    async def forget(self, scope: Scope, key: bytes | None = None) -> None:
        """Let the next event of a key be published.

        It deletes no entry, because entries hold the tokens of other gateways.

        Args:
            scope: Namespace of the topic.
            key: The key; None for all keys.

        Raises:
            StoreError: Redis is away.
        """
        if self.reservations.mode != BypassMode.READY:
            trouble = self._client.trouble
            raise StoreError("breaker_open", str(trouble), trouble.in_words)
        done = asyncio.get_running_loop().create_future()
        self.reservations.forget((scope, None if key is None else scope.entry(key), done))
        self._client.note()
        await done

    def health(self, effect: str = "events are published without comparison") -> tuple[bool, str]:
        """Return whether events are reserved now, and a description.

        Args:
            effect: What happens to events while Redis is unavailable.
        """
        if self.reservations.mode != BypassMode.READY:
            return False, f"{effect}: {self._client.trouble.in_words}"
        if self._clock() - self._slow_s < _SLOW_S:
            waited = f"{self._options.timeout_ms:g} ms (redis.timeout_ms)"
            return False, f"slow: {self._slow_count} events did not wait longer than {waited}"
        if self.store.eviction:
            return False, f"connected; {self.store.eviction}"
        return True, "connected"

    def states(self) -> dict[str, TopicSuppression]:
        """Return the state of each topic that suppresses here, by name."""
        return self.reservations.states(self._clock())

    async def _catch_up(self) -> None:
        await self._heartbeat()
        self.reservations.begin_catching_up()
        while self.reservations.has_much_news:
            await self._call()
        self.reservations.mode = BypassMode.READY
        self._looked()

    async def _heartbeat(self) -> None:
        """Announce this process' layout, and apply the server's reply."""
        self._heartbeat_due = False
        membership = self._membership
        self._heartbeat_s = sent_s = self._clock()
        reply = await self.store.announce(membership.call)
        membership.agreement.apply_reply(membership.number, sent_s, self._clock(), reply)

    def _looked(self) -> None:
        """Note the time of a check for evictions, and log a change."""
        self._looked_s = self._clock()
        eviction, self._eviction = self._eviction, self.store.eviction
        if self._eviction and not eviction:
            _log.warning(
                "suppression: Redis: %s; an eviction can lose publishes in progress",
                self._eviction,
            )
        elif eviction and not self._eviction:
            _log.info("suppression: Redis no longer evicts keys")

    def _has_news(self) -> bool:
        return self.reservations.has_news or self._heartbeat_due or self._look_due

    def note_news(self) -> None:
        """Send news soon; no event waits for it."""
        self._client.note()

    async def _exchange(self) -> bool:
        if self._heartbeat_due:
            await self._heartbeat()
        if self._look_due:
            self._look_due = False
            self._overdue_check.begin()  # events may come meanwhile
            await self.store.look()
            self._looked()
        return await self._call()

    async def _call(self) -> bool:
        """Make one call if there is any news; return whether there was."""
        outgoing = self.reservations.next_call(self._clock())
        if outgoing is None:
            return False
        call = outgoing.call()
        self._overdue_check.begin()
        reply = await self.store.run(call)
        self.reservations.apply_reply(outgoing, call, reply, self._clock())
        self.on_reply()
        return True

    def _lost(self, error: StoreError) -> None:
        self._heartbeat_s = -math.inf
        self._membership.agreement.lost(self._membership.number, self._clock())
        self.reservations.lost(error)
        self.on_reply()

    def _give_up_overdue(self) -> bool:
        """Let events go on that have waited for redis.timeout_ms; return whether any still wait."""
        now_s = self._clock()
        count = self.reservations.give_up(now_s)
        if count:
            if now_s - self._slow_s >= _SLOW_S:
                self._slow_count = 0
                _log.warning("suppression: Redis is slow: events bypass it")
            self._slow_s = now_s
            self._slow_count += count
        return self.reservations.is_waited_for

    def _tick(self) -> None:
        now_s = self._clock()
        self._heartbeat_due = now_s - self._heartbeat_s >= self._membership.spans.interval
        is_ready = self.reservations.mode == BypassMode.READY
        self._look_due = is_ready and now_s - self._looked_s >= self._options.look_s
        if self.reservations.tick(now_s) or self._heartbeat_due or self._look_due:
            self._client.note()
        self._log.note(self.states())
