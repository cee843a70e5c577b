"""Suppression on several Redis servers: a thin router in front of one suppressor for each.

A key is known by one server (`core.redis_servers.Slots`), and all that concerns a key alone is the
protocol of that server: the rest of this process, and the other servers, have no part in it. What
holds for a topic as a whole must be known by all servers: that its events pass unreserved, and the
rule by which they get their keys, for by another rule the same thing is another server's. So events
wait until every server that answers was told of it.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from headgate.backends.base import Topics, Verdicts
from headgate.backends.redis.session import all_ended
from headgate.core.publish import Publish, Stage
from headgate.core.redis_servers import Slots
from headgate.core.suppression import QUARANTINE, Reservation, Scope, TopicSuppression, worst
from headgate.core.topics.policy import PolicyTable
from headgate.metrics.health import Dependency
from headgate.suppression.rules import Agreement
from headgate.suppression.suppressor import Suppressor, may_begin


class ShardedSuppressor:
    """`base.Suppression`.

    parts: a suppressor for each server, by its identity; of one list all are members.
    agreement: theirs.  timeout_s: how long an event waits for a server to be told of its topic.
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
        # A topic's scope at each server, and whose those are.
        self._scopes: dict[Scope, tuple[Scope, ...]] = {}
        self._numbers: dict[Scope, int] = {}
        # Topics that not all servers were told of, those that were not, and what waits for them,
        # with the timer of its first.
        self._untold: dict[Scope, set[int]] = {}
        self._waiting: dict[Scope, deque[Publish]] = {}
        self._timers: dict[Scope, asyncio.TimerHandle] = {}
        for number, part in enumerate(self._parts):
            part.on_reply = partial(self._replied, number)

    # ---- start and stop

    async def start(self) -> None:
        """See `Suppressor`: connect to all, and agree with other gateways on the servers."""
        await all_ended(part.connect() for part in self._parts)
        await may_begin(self._agreement, self._clock)

    async def close(self) -> None:
        """See `Suppressor`."""
        for scope in list(self._waiting):
            self._go_on(scope)
        await all_ended(part.close() for part in self._parts)

    # ---- events

    def reserve(self, publish: Publish) -> None:
        """Ask the server of its key."""
        scope = publish.reserved.scope
        if scope.successor is not None:
            scope = publish.reserved.scope = scope.latest()
        if (self._untold or scope not in self._scopes) and self._waits(scope):
            publish.advance(Stage.QUEUED)
            self._waiting[scope].append(publish)
            return
        self._ask(publish)

    def _ask(self, publish: Publish) -> None:
        reservation, key = publish.reserved, publish.record.key
        assert key is not None  # what has none is published without being asked for
        number = self._slots.owner(key)
        reservation.scope = self._at_servers(reservation.scope)[number]
        self._parts[number].reserve(publish)

    def passes(self, scope: Scope, count: int) -> bool:
        """See `base.Suppression`. Every server that answers must have been told."""
        scope = scope.latest()
        if scope in self._waiting:  # for a moment: nothing passes those
            return False
        scopes = self._at_servers(scope)
        found = [part.passes(one, 0) for part, one in zip(self._parts, scopes, strict=True)]
        if all(found):
            scope.unreserved.count += count
            return True
        if scope not in self._untold:
            self._must_tell(scope)
        return False

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch, each event at its server."""
        if base_offset < 0:
            for part in self._parts:
                part.claims.settle(batch[0], ())
            for publish in batch:
                self.ended(publish, False)
            return
        found: list[list[tuple[int, Publish]]] = [[] for _ in self._parts]
        for offset, publish in enumerate(batch, base_offset):
            reservation = publish.reservation
            number = 0 if reservation is None else self._numbers.get(reservation.scope, 0)
            found[number].append((offset, publish))
        for part, placed in zip(self._parts, found, strict=True):
            part.claims.settle(batch[0], placed)
            if placed:
                part.news()

    def ended(self, publish: Publish, certain: bool) -> None:
        """See `base.Suppression`."""
        reservation = publish.reservation
        if reservation is None:
            return
        number = self._numbers.get(reservation.scope)
        if number is None:
            key = publish.record.key
            number = 0 if key is None else self._slots.owner(key)
            scope = self._at_servers(reservation.scope)[number]
            if publish.digest is not None:  # it still waited here, and nobody knows of it
                return
            # It passed with others, whose reservation it shares.
            publish.reservation = Reservation(scope, reservation.partitions)
        self._parts[number].ended(publish, certain)

    # ---- topics

    def hold(self, scope: Scope) -> None:
        """See `base.Suppression`."""
        for part, one in self._pairs(scope):
            part.hold(one)

    def release(self, scope: Scope) -> None:
        """See `base.Suppression`."""
        for part, one in self._pairs(scope):
            part.release(one)

    def open(self, scope: Scope) -> None:
        """See `Suppressor`."""
        for part, one in self._pairs(scope):
            part.open(one)

    def shut(self, scope: Scope) -> None:
        """See `Suppressor`."""
        for part, one in self._pairs(scope):
            part.shut(one)

    def grew(self, scope: Scope) -> None:
        """See `Suppressor`."""
        for part, one in self._pairs(scope):
            one.partitions = scope.partitions
            part.grew(one)

    def rule_changed(self, scope: Scope) -> None:
        """See `Suppressor`."""
        for part, one in self._pairs(scope):
            one.rule = scope.rule
            part.rule_changed(one)
        self._must_tell(scope)

    def scope_changed(self, old: Scope, new: Scope) -> None:
        """See `Suppressor`."""
        before = self._at_servers(old)
        new.passed_s, new.unreserved, old.successor = old.passed_s, old.unreserved, new
        new.spooled = old.spooled
        now = self._at_servers(new)
        for part, former, one in zip(self._parts, before, now, strict=True):
            part.scope_changed(former, one)
        waiting = self._taken(old)
        for one in self._scopes.pop(old):
            del self._numbers[one]
        for publish in waiting:
            publish.reserved.scope = new
            self.reserve(publish)

    def drop(self, scope: Scope) -> None:
        """See `Suppressor`."""
        for part, one in self._pairs(scope):
            part.drop(one)

    async def forget(self, scope: Scope, key: bytes | None = None) -> None:
        """See `Suppressor`. Of every key: every server must answer. Raises StoreError."""
        pairs = list(self._pairs(scope))
        if key is not None:
            pairs = [pairs[self._slots.owner(key)]]
        await all_ended(part.forget(one, key) for part, one in pairs)

    def is_settled(self) -> bool:
        """See `Suppressor`."""
        return all(part.is_settled() for part in self._parts)

    def states(self) -> dict[str, TopicSuppression]:
        """Of each topic the worst of what it is at any server."""
        return worst(part.states() for part in self._parts)

    # ---- what all servers must be told

    def _at_servers(self, scope: Scope) -> tuple[Scope, ...]:
        found = self._scopes.get(scope)
        if found is None and scope.successor is not None:  # no twins of what is gone
            return self._at_servers(scope.latest())
        if found is None:
            found = self._scopes[scope] = tuple(scope.twin() for _ in self._parts)
            self._numbers.update({one: number for number, one in enumerate(found)})
            self._must_tell(scope)
        return found

    def _pairs(self, scope: Scope) -> Iterator[tuple[Suppressor, Scope]]:
        return zip(self._parts, self._at_servers(scope), strict=True)

    def _must_tell(self, scope: Scope) -> None:
        self._untold[scope] = set(range(len(self._parts)))
        for part, one in zip(self._parts, self._scopes[scope], strict=True):
            part.claims.touch(one)
            part.news()
        for number in range(len(self._parts)):
            self._note(scope, number)  # those that are away need not be told

    def _waits(self, scope: Scope) -> bool:
        self._at_servers(scope)
        if scope not in self._untold:
            return False
        if scope not in self._waiting:
            self._waiting[scope] = deque()
            loop = asyncio.get_running_loop()
            self._timers[scope] = loop.call_later(self._timeout_s, self._go_on, scope)
        return True

    def _replied(self, number: int) -> None:
        for scope in list(self._untold):
            self._note(scope, number)

    def _note(self, scope: Scope, number: int) -> None:
        untold = self._untold.get(scope)
        if untold is not None and self._parts[number].claims.is_told(self._scopes[scope][number]):
            untold.discard(number)
            if not untold:
                self._go_on(scope)

    def _go_on(self, scope: Scope) -> None:
        """All were told, or the events have waited for too long. What comes while they go on waits
        behind them."""
        waiting = self._waiting.get(scope)
        while waiting:
            publish = waiting.popleft()
            if publish.stage is Stage.QUEUED:
                self._ask(publish)
        self._taken(scope)

    def _taken(self, scope: Scope) -> Sequence[Publish]:
        """What waited for a topic to be told, which it does no longer."""
        self._untold.pop(scope, None)
        timer = self._timers.pop(scope, None)
        if timer is not None:
            timer.cancel()
        return self._waiting.pop(scope, ())


# What a process says of its suppression: which topics are suppressed now, and how Redis is.


States = Mapping[str, TopicSuppression]
AnySuppressor = Suppressor | ShardedSuppressor


def states_now(seen: Iterable[States], policies: PolicyTable, topics: Topics) -> States:
    """Of each topic that exists and suppresses by its policy the worst that any suppressor sees.

    A suppressor also remembers topics that were deleted, or have another policy by now.
    """
    return {name: one for name, one in worst(seen).items() if _counts(name, policies, topics)}


def _counts(name: str, policies: PolicyTable, topics: Topics) -> bool:
    policy = policies.match(name)
    return policy is not None and policy.suppress != "off" and topics.get(name) is not None


def redis_dependencies(
    suppressor: AnySuppressor, states: States, policies: PolicyTable
) -> list[Dependency]:
    """Redis as /ready shows it, each server for itself. states: those that count (`states_now`)."""
    refusing = policies.refusing(states)
    if isinstance(suppressor, Suppressor):
        return [redis_dependency(suppressor, states, refusing=refusing)]
    found = []
    for name, part in suppressor.parts.items():
        own = {topic: one for topic, one in part.states().items() if topic in states}
        found.append(redis_dependency(part, own, f"redis {name}", refusing))
    return found


def redis_dependency(
    suppressor: Suppressor,
    states: States,
    name: str = "redis",
    refusing: Collection[str] = (),
) -> Dependency:
    """One server. Not required: without it the gateway still takes events of other topics.

    refusing: topics that refuse events without Redis (`redis_loss = "refuse"`).

    It is well also while topics are in quarantine: it answers, and no event is lost. Every start
    and every change of what is compared begins with one, and must not turn health checks red.
    """
    ok, detail = suppressor.health(_effect(states, refusing))
    quarantined = [state.until_s or 0.0 for state in states.values() if state.state == QUARANTINE]
    if not ok or not quarantined:
        return Dependency(name, ok, False, detail, server=suppressor.store.server)
    until_s, count = max(quarantined), len(quarantined)
    topics = "1 topic suppresses" if count == 1 else f"{count} topics suppress"
    span = f"for up to {math.ceil(until_s)} s" if until_s else "yet"
    detail = f"{detail}; {topics} nothing {span} (quarantine)"
    return Dependency(name, ok, False, detail, until_s, server=suppressor.store.server)


def _effect(states: States, refusing: Collection[str]) -> str:
    """What happens to events of these topics while Redis is unavailable."""
    refused = sum(topic in refusing for topic in states)
    if not refused:
        return "events go past Redis"
    if refused == len(states):
        return 'events are refused (redis_loss = "refuse")'
    return 'events go past Redis, or are refused if the topic has redis_loss = "refuse"'


# Suppression where no topic asks for it: nothing is reserved, nothing settled.


class Unsuppressed:
    """Implements `base.Suppression` without a store."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts

    def reserve(self, publish: Publish) -> None:
        self._verdicts.publish(publish)

    def passes(self, scope: Scope, count: int) -> bool:
        """Nobody needs to know."""
        return True

    def hold(self, scope: Scope) -> None:
        """Nobody needs to know."""

    def release(self, scope: Scope) -> None:
        """Nobody needs to know."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Nothing was reserved."""

    def ended(self, publish: Publish, certain: bool) -> None:
        """Nothing was reserved."""
