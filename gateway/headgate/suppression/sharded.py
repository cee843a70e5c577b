"""Suppression on several Redis servers or on none, and the state of topics and servers.

`ShardedSuppressor` is a thin router in front of one suppressor for each server. A key belongs to
one server (`redis.servers.Slots`), whose protocol handles the key alone. Facts about a topic
must reach all servers: that its events pass unreserved, and its key rule, because under another
rule a key belongs to another server. So events wait until every server that answers has the facts.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from headgate.backends.base import Topics, Verdicts
from headgate.metrics.health import Dependency
from headgate.model.policy import PolicyTable
from headgate.model.publish import Publish, Stage
from headgate.model.suppression import Reservation, Scope
from headgate.model.suppression_states import QUARANTINE, TopicSuppression, worst
from headgate.redis.client import all_ended
from headgate.redis.servers import Slots
from headgate.suppression.rules import Agreement
from headgate.suppression.suppressor import Suppressor, wait_to_begin


class ShardedSuppressor:
    """`base.Suppression` on several servers.

    Args:
        parts: A suppressor for each server, by its identity; all are members of one list.
        agreement: The agreement that they share.
        clock: Monotonic clock, in seconds.
        timeout_s: Longest wait of an event until the servers have its topic's facts, in seconds.
    """

    def __init__(
        self,
        parts: dict[str, Suppressor],
        agreement: Agreement,
        clock: Callable[[], float],
        timeout_s: float,
    ) -> None:
        self.parts = parts
        self._parts = list(parts.values())
        self._slots = Slots(list(parts))
        self._agreement = agreement
        self._clock = clock
        self._timeout_s = timeout_s
        # A topic's scope at each server, and the server of each scope.
        self._scopes: dict[Scope, tuple[Scope, ...]] = {}
        self._numbers: dict[Scope, int] = {}
        # Topics whose facts some servers lack, with the numbers of these servers; the waiting
        # events; and the timer of the first one.
        self._unsynced: dict[Scope, set[int]] = {}
        self._waiting: dict[Scope, deque[Publish]] = {}
        self._timers: dict[Scope, asyncio.TimerHandle] = {}
        for number, part in enumerate(self._parts):
            part.on_reply = partial(self._replied, number)

    # ---- start and stop

    async def start(self) -> None:
        """Connect to all servers, and agree with other gateways on the servers."""
        await all_ended(part.connect() for part in self._parts)
        await wait_to_begin(self._agreement, self._clock)

    async def close(self) -> None:
        """Send the last settlements if the servers take them in time, and disconnect."""
        for scope in list(self._waiting):
            self._go_on(scope)
        await all_ended(part.close() for part in self._parts)

    # ---- events

    def reserve(self, publish: Publish) -> None:
        """Reserve an event at the server of its key."""
        scope = publish.reserved.scope
        if scope.successor is not None:
            scope = publish.reserved.scope = scope.latest()
        if (self._unsynced or scope not in self._scopes) and self._waits(scope):
            publish.advance(Stage.QUEUED)
            self._waiting[scope].append(publish)
            return
        self._ask(publish)

    def _ask(self, publish: Publish) -> None:
        reservation, key = publish.reserved, publish.record.key
        assert key is not None  # events without a key are published without a reservation
        number = self._slots.owner(key)
        reservation.scope = self._scopes_of(reservation.scope)[number]
        self._parts[number].reserve(publish)

    def let_pass(self, scope: Scope, count: int) -> bool:
        """Let events pass unreserved once all servers that answer have the announcement."""
        scope = scope.latest()
        if scope in self._waiting:  # briefly: no event overtakes the waiting ones
            return False
        scopes = self._scopes_of(scope)
        passing = [part.let_pass(own, 0) for part, own in zip(self._parts, scopes, strict=True)]
        if all(passing):
            scope.unreserved.count += count
            return True
        if scope not in self._unsynced:
            self._sync(scope)
        return False

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch, each event at its server."""
        if base_offset < 0:
            for part in self._parts:
                part.reservations.settle(batch[0], ())
            for publish in batch:
                self.ended(publish, False)
            return
        by_server: list[list[tuple[int, Publish]]] = [[] for _ in self._parts]
        for offset, publish in enumerate(batch, base_offset):
            reservation = publish.reservation
            number = 0 if reservation is None else self._numbers.get(reservation.scope, 0)
            by_server[number].append((offset, publish))
        for part, placed in zip(self._parts, by_server, strict=True):
            part.reservations.settle(batch[0], placed)
            if placed:
                part.note_news()

    def ended(self, publish: Publish, certain: bool) -> None:
        """Handle an end without acknowledgement.

        Args:
            publish: The event.
            certain: No record can be in the log.
        """
        reservation = publish.reservation
        if reservation is None:
            return
        number = self._numbers.get(reservation.scope)
        if number is None:
            key = publish.record.key
            number = 0 if key is None else self._slots.owner(key)
            scope = self._scopes_of(reservation.scope)[number]
            if publish.digest is not None:  # the event still waited here, unknown to all servers
                return
            # The event passed with others and shares their reservation.
            publish.reservation = Reservation(scope, reservation.partitions)
        self._parts[number].ended(publish, certain)

    # ---- topics

    def hold(self, scope: Scope) -> None:
        """Announce a topic at every server until `release`."""
        for part, own in self._pairs(scope):
            part.hold(own)

    def release(self, scope: Scope) -> None:
        """End a `hold`."""
        for part, own in self._pairs(scope):
            part.release(own)

    def open(self, scope: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        for part, own in self._pairs(scope):
            part.open(own)

    def shut(self, scope: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        for part, own in self._pairs(scope):
            part.shut(own)

    def grew(self, scope: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        for part, own in self._pairs(scope):
            own.partitions = scope.partitions
            part.grew(own)

    def rule_changed(self, scope: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        for part, own in self._pairs(scope):
            own.rule = scope.rule
            part.rule_changed(own)
        self._sync(scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        before = self._scopes_of(old)
        new.passed_s, new.unreserved, old.successor = old.passed_s, old.unreserved, new
        new.spooled = old.spooled
        now = self._scopes_of(new)
        for part, former, own in zip(self._parts, before, now, strict=True):
            part.scope_changed(former, own)
        waiting = self._stop_waiting(old)
        for own in self._scopes.pop(old):
            del self._numbers[own]
        for publish in waiting:
            publish.reserved.scope = new
            self.reserve(publish)

    def drop(self, scope: Scope) -> None:
        """Apply to all servers, as `Suppressor`."""
        for part, own in self._pairs(scope):
            part.drop(own)

    async def forget(self, scope: Scope, key: bytes | None = None) -> None:
        """Forget a key, or all keys, for which every server must answer.

        Args:
            scope: Namespace of the topic.
            key: The key; None for all keys.

        Raises:
            StoreError: A server did not answer.
        """
        pairs = list(self._pairs(scope))
        if key is not None:
            pairs = [pairs[self._slots.owner(key)]]
        await all_ended(part.forget(own, key) for part, own in pairs)

    def is_settled(self) -> bool:
        """Return whether each server has the news of all publishes that bypassed it."""
        return all(part.is_settled() for part in self._parts)

    def states(self) -> dict[str, TopicSuppression]:
        """Return the worst state of each topic at any server."""
        return worst(part.states() for part in self._parts)

    # ---- facts for all servers

    def _scopes_of(self, scope: Scope) -> tuple[Scope, ...]:
        scopes = self._scopes.get(scope)
        if scopes is None and scope.successor is not None:  # a replaced scope gets none
            return self._scopes_of(scope.latest())
        if scopes is None:
            scopes = self._scopes[scope] = tuple(scope.for_server() for _ in self._parts)
            self._numbers.update({own: number for number, own in enumerate(scopes)})
            self._sync(scope)
        return scopes

    def _pairs(self, scope: Scope) -> Iterator[tuple[Suppressor, Scope]]:
        return zip(self._parts, self._scopes_of(scope), strict=True)

    def _sync(self, scope: Scope) -> None:
        self._unsynced[scope] = set(range(len(self._parts)))
        for part, own in zip(self._parts, self._scopes[scope], strict=True):
            part.reservations.touch(own)
            part.note_news()
        for number in range(len(self._parts)):
            self._note(scope, number)  # unavailable servers need not receive it

    def _waits(self, scope: Scope) -> bool:
        self._scopes_of(scope)
        if scope not in self._unsynced:
            return False
        if scope not in self._waiting:
            self._waiting[scope] = deque()
            loop = asyncio.get_running_loop()
            self._timers[scope] = loop.call_later(self._timeout_s, self._go_on, scope)
        return True

    def _replied(self, number: int) -> None:
        for scope in list(self._unsynced):
            self._note(scope, number)

    def _note(self, scope: Scope, number: int) -> None:
        unsynced = self._unsynced.get(scope)
        if unsynced is not None and self._parts[number].reservations.is_synced(
            self._scopes[scope][number]
        ):
            unsynced.discard(number)
            if not unsynced:
                self._go_on(scope)

    def _go_on(self, scope: Scope) -> None:
        """Let waiting events go on: all servers have the facts, or the wait was too long.

        Events that arrive meanwhile wait behind them.
        """
        waiting = self._waiting.get(scope)
        while waiting:
            publish = waiting.popleft()
            if publish.stage is Stage.QUEUED:
                self._ask(publish)
        self._stop_waiting(scope)

    def _stop_waiting(self, scope: Scope) -> Sequence[Publish]:
        """Return the events that waited for a topic, and end their wait."""
        self._unsynced.pop(scope, None)
        timer = self._timers.pop(scope, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(scope, ())


# ---- states of topics and servers


States = Mapping[str, TopicSuppression]
AnySuppressor = Suppressor | ShardedSuppressor


def states_now(seen: Iterable[States], policies: PolicyTable, topics: Topics) -> States:
    """Return the worst state of each topic that exists and suppresses by its policy.

    A suppressor also has states of topics that were deleted, or that have another policy now.
    """
    return {name: state for name, state in worst(seen).items() if _counts(name, policies, topics)}


def _counts(name: str, policies: PolicyTable, topics: Topics) -> bool:
    policy = policies.match(name)
    return policy is not None and policy.suppress != "off" and topics.get(name) is not None


def redis_dependencies(
    suppressor: AnySuppressor, states: States, policies: PolicyTable
) -> list[Dependency]:
    """Return the health of each Redis server for /ready.

    Args:
        suppressor: The suppressor.
        states: States of the topics that count (`states_now`).
        policies: Active policies.
    """
    refusing = policies.refusing(states)
    if isinstance(suppressor, Suppressor):
        server = suppressor.store.server
        return [redis_dependency(suppressor.health, server, states, refusing=refusing)]
    dependencies = []
    for name, part in suppressor.parts.items():
        own = {topic: state for topic, state in part.states().items() if topic in states}
        server = part.store.server
        dependencies.append(redis_dependency(part.health, server, own, f"redis {name}", refusing))
    return dependencies


def redis_dependency(
    health: Callable[[str], tuple[bool, str]],
    server: str,
    states: States,
    name: str = "redis",
    refusing: Collection[str] = (),
) -> Dependency:
    """Return the health of one server, which is not required: other topics do not need it.

    The server is healthy also while topics are in quarantine: it answers, and no event is lost.
    Every start and every change of a comparison begins with a quarantine, and must not turn health
    checks red.

    Args:
        health: Returns the health of the server's suppressor.
        server: The Redis process that was connected last.
        states: States of the topics.
        name: Name of the server in /ready.
        refusing: Topics that refuse events without Redis (`redis_loss = "refuse"`).
    """
    ok, detail = health(_effect(states, refusing))
    quarantined = [state.until_s or 0.0 for state in states.values() if state.state == QUARANTINE]
    if not ok or not quarantined:
        return Dependency(name, ok, False, detail, server=server)
    until_s, count = max(quarantined), len(quarantined)
    topics = "1 topic suppresses" if count == 1 else f"{count} topics suppress"
    span = f"for up to {math.ceil(until_s)} s" if until_s else "yet"
    detail = f"{detail}; {topics} nothing {span} (quarantine)"
    return Dependency(name, ok, False, detail, until_s, server=server)


def _effect(states: States, refusing: Collection[str]) -> str:
    """Describe the effect on events of these topics while Redis is unavailable."""
    refused = sum(topic in refusing for topic in states)
    if not refused:
        return "events are published without comparison"
    if refused == len(states):
        return 'events are refused (redis_loss = "refuse")'
    return (
        "events are published without comparison, or are refused if the topic has "
        'redis_loss = "refuse"'
    )


# ---- no suppression


class Unsuppressed:
    """A `base.Suppression` without a store."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def reserve(self, publish: Publish) -> None:
        self._verdicts.publish(publish)

    def let_pass(self, scope: Scope, count: int) -> bool:
        """Let all events pass: there is no store."""
        return True

    def hold(self, scope: Scope) -> None:
        """No-op: without a store there is nothing to announce."""

    def release(self, scope: Scope) -> None:
        """No-op: without a store there is nothing to announce."""

    def is_settled(self) -> bool:
        """Return True: there is no store that lacks any news."""
        return True

    def drop(self, scope: Scope) -> None:
        """No-op: there is no state of any topic."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """No-op: nothing was reserved."""

    def ended(self, publish: Publish, certain: bool) -> None:
        """No-op: nothing was reserved."""
