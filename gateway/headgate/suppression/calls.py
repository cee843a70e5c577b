"""News for Redis and the calls that carry it: namespaces, settlements, one call."""

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from headgate.model.publish import Publish, Stage, advance_all
from headgate.model.suppression import Scope
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.suppression import rules
from headgate.suppression.options import SuppressOptions
from headgate.suppression.rules import (
    ANNOUNCE,
    CLEAR,
    DROP,
    FORCE,
    KEEP,
    MARK,
    REFUSED,
    RESERVE,
    SETTLE,
    Agreement,
    NamespaceState,
    SuppressionCall,
    SuppressionSpans,
    settle,
)

Forget = tuple[Scope, bytes | None, "asyncio.Future[None]"]
_MAX_SCOPES = 250  # a namespace's place in the call is one byte
_MAX_TALKED_TO = 50  # most namespaces without an operation: the others need room, too
_NUMBERS: Final = rules.number_bytes(4096)
_RESERVING: Final = Stage.RESERVING  # looking it up in the Enum class costs 0.1 us
_SILENCE_S = 1.0
_MAX_BYTES = 512  # of the operations of one entry; further ones go into a line
# Bytes of each operation of an end, by its letter.
_WIDTHS: Final = {SETTLE[0]: 41, KEEP[0]: 41, REFUSED[0]: 13, CLEAR[0]: 1}


class Namespaces:
    """State of the namespaces: nonces, times of the last calls, and plans for the next call.

    Attributes:
        to_refresh: Namespaces whose state the next call asks for.
        to_drop: Namespaces whose keys' state the next call drops.
        to_announce: Namespaces for which the next call announces records without a reservation.
        opened: Namespaces of topics that are compared here.
        passing: Namespaces whose events pass unreserved, or did so recently.
        doubted: Namespaces whose state may be older than records of gateways with other servers.
    """

    __slots__ = (
        "_nonces",
        "_opens_s",
        "_talked",
        "doubted",
        "opened",
        "passing",
        "to_announce",
        "to_drop",
        "to_refresh",
    )

    def __init__(self) -> None:
        self._nonces: dict[Scope, bytes] = {}
        self._opens_s: dict[Scope, float] = {}
        self._talked: dict[Scope, float] = {}
        self.passing: set[Scope] = set()
        self.opened: set[Scope] = set()
        self.doubted: set[Scope] = set()
        self.to_refresh: set[Scope] = set()
        self.to_drop: set[Scope] = set()
        self.to_announce: set[Scope] = set()

    def apply_states(
        self,
        scopes: Sequence[Scope],
        states: Sequence[NamespaceState],
        redis_ms: float,
        now_s: float,
    ) -> set[Scope]:
        """Note the states of a reply.

        Args:
            scopes: Namespaces of the call.
            states: Their states in the reply.
            redis_ms: Redis' clock, in milliseconds.
            now_s: Monotonic clock of the process, in seconds.

        Returns:
            The namespaces with a new incarnation.
        """
        changed = set()
        for scope, state in zip(scopes, states, strict=True):
            self._talked[scope] = now_s
            self._opens_s[scope] = now_s + (state.opens_ms - redis_ms) / 1000
            nonce = self._nonces.get(scope)
            if nonce != state.nonce:
                self._nonces[scope] = state.nonce
                if nonce is not None:
                    changed.add(scope)
        return changed

    def judge(
        self,
        scopes: Sequence[Scope],
        born_s: Sequence[float],
        agreement: Agreement,
        now_s: float,
    ) -> set[Scope]:
        """Judge the namespaces of a reply, and plan new incarnations if necessary.

        Args:
            scopes: Namespaces of the reply.
            born_s: Time of each one's birth, never too late, in seconds.
            agreement: The gateways' agreement on their servers.
            now_s: Monotonic clock of the process, in seconds.

        Returns:
            The namespaces whose `unchanged` must not be believed.
        """
        doubted = set()
        for scope, born in zip(scopes, born_s, strict=True):
            if agreement.begins_anew(born, now_s):
                self.to_drop.add(scope)
            if agreement.believes(born, now_s):
                self.doubted.discard(scope)
            else:
                doubted.add(scope)
        self.doubted |= doubted
        return doubted

    def states(self, is_away: bool, now_s: float, doubts: bool) -> dict[str, TopicSuppression]:
        """Return the state of each compared topic, by name.

        Args:
            is_away: Redis does not answer.
            now_s: Monotonic clock of the process, in seconds.
            doubts: No state is believed, because the servers of other gateways are unknown.
        """
        states = {}
        for scope in self.opened:
            opens_s = self._opens_s.get(scope)
            if is_away:
                state = TopicSuppression(AWAY)
            elif doubts or scope in self.doubted:
                state = TopicSuppression(QUARANTINE)
            elif opens_s is None or now_s < opens_s:
                state = TopicSuppression(QUARANTINE, None if opens_s is None else opens_s - now_s)
            else:
                state = TopicSuppression(ON)
            states[scope.topic] = state
        return states

    def talk_to(self, scopes: Iterable[Scope], since_s: float) -> None:
        """Plan a call for each namespace that had none since a time (seconds)."""
        for scope in scopes:
            if self._talked.get(scope, since_s) <= since_s:
                self.to_refresh.add(scope)

    def check_doubted(self, now_s: float) -> None:
        """Plan a call for the doubted namespaces."""
        self.talk_to(self.doubted, now_s - _SILENCE_S)

    def stay_in_touch(self, now_s: float) -> None:
        """Plan a call for any namespace, so that even an idle process notices a dead Redis."""
        if self._talked and now_s - max(self._talked.values()) >= _SILENCE_S:
            self.to_refresh.add(next(iter(self._talked)))

    def open(self, scope: Scope) -> None:
        """Plan a call for a namespace whose topic is compared here from now on."""
        if scope not in self.opened:
            self.opened.add(scope)
            self.to_refresh.add(scope)

    def shut(self, scope: Scope) -> None:
        """Stop comparing a topic."""
        self.opened.discard(scope)

    def open_again(self) -> None:
        """Plan calls for all namespaces before their next events: Redis may have lost them."""
        self.to_refresh |= self.opened
        self.to_announce |= self.passing

    def announce(self, scope: Scope) -> None:
        """Announce from now on that records bypass suppression in this topic."""
        self.passing.add(scope)
        self.to_announce.add(scope)

    def extend_announcements(self, scopes: Iterable[Scope], until_s: float) -> None:
        """Note the namespaces that a call announced, and until when (seconds)."""
        for scope in scopes:
            scope.announced_until_s = until_s

    def renew(self, now_s: float, lease_s: float, kept: set[Scope]) -> None:
        """Plan to renew announcements while passed events are in flight.

        Args:
            now_s: Monotonic clock of the process, in seconds.
            lease_s: Lease of an announcement, in seconds.
            kept: Namespaces to announce for another reason.
        """
        for scope in list(self.passing):
            is_done = not scope.unreserved.count and scope not in kept
            if is_done and now_s - scope.passed_s > lease_s:
                self.passing.discard(scope)
            elif scope.announced_until_s - now_s < lease_s * 2 / 3:
                self.to_announce.add(scope)

    def forget(self, scope: Scope) -> None:
        """Drop the state of a namespace whose topic is gone."""
        self.opened.discard(scope)
        self.doubted.discard(scope)
        self.passing.discard(scope)
        self._nonces.pop(scope, None)
        self._opens_s.pop(scope, None)
        self._talked.pop(scope, None)
        self.to_refresh.discard(scope)
        self.to_announce.discard(scope)


def operations_in(packed: bytes) -> int:
    """Count the operations in packed bytes."""
    at, count, size = 0, 0, len(packed)
    while at < size:
        at += _WIDTHS[packed[at]]
        count += 1
    return count


class Settlements:
    """Operations by namespace and entry, which may be sent late, twice and in any order.

    While Redis is away, unreserved publishes accumulate: only the highest offset of each entry is
    kept. If claims without a reply have left tokens for the others, the tokens expire.

    Args:
        limit: Largest number of entries of a namespace.

    Attributes:
        line: Operations of keys with many at once, so that a busy key costs as much as many keys.
    """

    __slots__ = ("_limit", "_more", "_pending", "_unreserved", "line")

    def __init__(self, limit: int) -> None:
        self._pending: dict[Scope, dict[bytes, bytes]] = {}
        self._more: dict[Scope, int] = {}  # upper bound of the operations after each entry's first
        self._unreserved: dict[Scope, dict[bytes, tuple[int, bytes]]] = {}
        self._limit = limit
        self.line: deque[tuple[Scope, bytes, bytes]] = deque()

    def __bool__(self) -> bool:
        return bool(self._pending or self.line)

    def __len__(self) -> int:
        """Return a lower bound of the operations that wait."""
        return sum(map(len, self._pending.values())) + len(self.line)

    def pending_of(self, scope: Scope) -> dict[bytes, bytes]:
        """Return the namespace's pending operations, for additions."""
        pending = self._pending.get(scope)
        if pending is None:
            pending = self._pending[scope] = {}
        return pending

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Queue one operation."""
        pending = self.pending_of(scope)
        packed = pending.get(entry)
        if packed is None:
            pending[entry] = operation
        elif len(packed) < _MAX_BYTES:
            pending[entry] = packed + operation
            self._more[scope] = self._more.get(scope, 0) + 2
        else:
            self.line.append((scope, entry, operation))

    def add_unreserved(self, publish: Publish, offset: int) -> None:
        """Queue an acknowledgement of an unreserved publish while Redis is unavailable."""
        reservation = publish.reserved
        highest = self._unreserved.setdefault(reservation.scope, {})
        entry = reservation.entry
        if entry not in highest or highest[entry][0] < offset:
            digest = publish.digest or b""
            operation = settle(reservation.token, digest, offset, reservation.partitions)
            highest[entry] = (offset, operation)

    def drop_overflow(self) -> set[Scope]:
        """Forget and return the namespaces with too many entries, which Redis must then drop."""
        lines = Counter(scope for scope, _, _ in self.line)
        scopes = set()
        for scope in {*self._pending, *self._unreserved, *lines}:
            count = len(self._pending.get(scope, ())) + len(self._unreserved.get(scope, ()))
            if count + lines[scope] > self._limit:
                self._forget(scope)
                self._unreserved.pop(scope, None)
                scopes.add(scope)
        if scopes:
            self.line = deque(end for end in self.line if end[0] not in scopes)
        return scopes

    def queue_unreserved(self) -> None:
        """Queue the kept acknowledgements of unreserved publishes."""
        for scope, highest in self._unreserved.items():
            for entry, (_, operation) in highest.items():
                self.add(scope, entry, operation)
        self._unreserved.clear()

    def take(self, keys: int, operations: int) -> Iterator[tuple[Scope, dict[bytes, bytes], int]]:
        """Remove and yield entries with their operations, by namespace.

        Args:
            keys: Largest number of entries.
            operations: Largest number of operations.

        Yields:
            Namespace, operations by entry, and an upper bound of the number of operations.
        """
        limit = operations
        while self.line and keys > 0 and 2 * operations > limit:  # the other half is for other keys
            # One at a time: the next one may belong to the same entry.
            scope, entry, operation = self.line.popleft()
            count = operations_in(operation)
            keys -= 1
            operations -= count
            yield scope, {entry: operation}, count
        while self._pending and keys > 0 and operations > 0:
            scope, pending = next(iter(self._pending.items()))
            if not pending:  # `take_one` has taken the last entry
                self._forget(scope)
                continue
            count = len(pending) + self._more.get(scope, 0)
            if len(pending) <= keys and count <= operations:
                self._forget(scope)
                taken = pending
            else:
                taken, count = self._some(pending, keys, operations)
                self._more[scope] = max(0, self._more.get(scope, 0) + len(taken) - count)
            keys -= len(taken)
            operations -= count
            yield scope, taken, count

    def _forget(self, scope: Scope) -> None:
        self._pending.pop(scope, None)
        self._more.pop(scope, None)

    @staticmethod
    def _some(
        pending: dict[bytes, bytes], keys: int, operations: int
    ) -> tuple[dict[bytes, bytes], int]:
        taken, count = dict[bytes, bytes](), 0
        for entry, packed in pending.items():
            count += operations_in(packed)
            taken[entry] = packed
            if len(taken) >= keys or count >= operations:
                break
        for entry in taken:
            del pending[entry]
        return taken, count

    def take_one(self, scope: Scope, entry: bytes) -> bytes:
        """Remove and return one entry's operations; empty bytes if there are none."""
        pending = self._pending.get(scope)
        if pending is None:
            return b""
        packed = pending.pop(entry, b"")
        if not pending:
            self._forget(scope)
        return packed


class OutgoingCall:
    """A call under construction, and then on its way.

    Args:
        options: Options of suppression, which limit the call.
        spans: Spans of the protocol.
        nonce: A nonce that was never used before, for the incarnations that this call begins.
        sent_s: Time of sending, in seconds.

    Attributes:
        settled: Settlements to send again if no reply comes.
        reserved: Reserved events in order of arrival.
        dropped: Namespaces that get a new incarnation.
        announced: Namespaces in which this process writes without reservations.
        forgets: Futures of the requests to forget.
    """

    __slots__ = (
        "_max_keys",
        "_max_operations",
        "_nonce",
        "_operations",
        "_operations_left",
        "_positions",
        "_spans",
        "announced",
        "dropped",
        "forgets",
        "reserved",
        "sent_s",
        "settled",
    )

    def __init__(
        self, options: SuppressOptions, spans: SuppressionSpans, nonce: bytes, sent_s: float
    ) -> None:
        self._max_keys: int = options.max_keys_per_call
        self._max_operations: int = options.max_operations_per_call
        self._operations_left: int = self._max_operations
        self._spans = spans
        self._nonce = nonce
        self.sent_s = sent_s
        self.announced: set[Scope] = set()
        self._positions: dict[Scope, bytes] = {}
        self._operations: dict[bytes, bytes] = {}
        self.forgets: list[asyncio.Future[None]] = []
        self.dropped: set[Scope] = set()
        self.settled: list[tuple[Scope, dict[bytes, bytes]]] = []
        self.reserved: list[Publish] = []

    def __bool__(self) -> bool:
        return bool(self._positions)

    @property
    def room(self) -> int:
        """Return the number of keys that still fit. Each may be the first of its namespace."""
        keys = min(self._max_keys - len(self._operations), _MAX_SCOPES - len(self._positions))
        return min(keys, self._operations_left)

    @property
    def scopes(self) -> Sequence[Scope]:
        """Return the namespaces in the call."""
        return list(self._positions)

    def talk_to(self, scope: Scope) -> bytes:
        """Ask for the namespace's nonce; return its position in the call."""
        position = self._positions.get(scope)
        if position is None:
            position = self._positions[scope] = bytes((len(self._positions),))
        return position

    def drop(self, scope: Scope) -> None:
        """Drop the state of all keys of the namespace first."""
        self.talk_to(scope)
        self.dropped.add(scope)

    def address(self, to_drop: set[Scope], to_announce: set[Scope], to_refresh: set[Scope]) -> None:
        """Take the namespaces to drop, to announce and to talk to, as far as there is room."""
        while to_drop and len(self._positions) < _MAX_TALKED_TO:
            self.drop(to_drop.pop())
        while to_announce and len(self._positions) < _MAX_TALKED_TO:
            scope = to_announce.pop()
            self.talk_to(scope)
            self.announced.add(scope)
        while to_refresh and len(self._positions) < _MAX_TALKED_TO:
            self.talk_to(to_refresh.pop())

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Add an operation to an entry, behind its earlier ones."""
        packed = self._operations.get(entry)
        self._operations[entry] = (self.talk_to(scope) if packed is None else packed) + operation
        self._operations_left -= 1

    def settle(self, settlements: Settlements, share: float = 1.0) -> None:
        """Take settlements, up to this share of the keys and of the operations."""
        keys = min(int(share * self._max_keys), self.room)
        operations = min(int(share * self._max_operations), self._operations_left)
        for scope, taken, count in settlements.take(keys, operations):
            self.settled.append((scope, taken))
            self._operations_left -= count
            if self._operations:
                self._operations_left += len(taken)  # `add` counts them again
                for entry, operation in taken.items():
                    self.add(scope, entry, operation)
            else:
                position = self.talk_to(scope)
                self._operations = {entry: position + taken[entry] for entry in taken}

    def forget(self, request: Forget) -> None:
        """Forget the published state of a key, or of all keys."""
        scope, entry, done = request
        if entry is None:
            self.drop(scope)
        else:
            self.add(scope, entry, rules.CLEAR)
        self.forgets.append(done)

    def reserve(
        self, queue: deque[Publish], settlements: Settlements, stem: bytes, *, force: bool = False
    ) -> None:
        """Take reservations in order of arrival, each behind the settlements of its key.

        Several reservations of one key take the room of one, so there may be room after a round.

        Args:
            queue: Events that wait.
            settlements: Settlements that wait.
            stem: First 10 bytes of each token; the number of the reservation follows.
            force: Reserve with FORCE, because `unchanged` would not be believed.
        """
        while queue:
            count = min(self.room, len(_NUMBERS) - len(self.reserved))
            if count <= 0:
                break
            if count >= len(queue):
                some = list(queue)
                queue.clear()
            else:
                some = [queue.popleft() for _ in range(count)]
            self._reserve(some, settlements, stem, force)

    def _reserve(
        self, some: list[Publish], settlements: Settlements, stem: bytes, force: bool
    ) -> None:
        # The hottest loop of suppression: about 1 us per event, most of it in these lines.
        operations, scope, position, head = self._operations, None, b"", RESERVE + stem
        first = len(self.reserved)
        for publish, number in zip(some, _NUMBERS[first : first + len(some)], strict=True):
            reservation = publish.reservation
            assert reservation is not None  # as in `Publish.reserved`, without the call
            entry = reservation.entry
            packed = operations.get(entry)
            if packed is None:
                if reservation.scope is not scope:
                    scope = reservation.scope
                    position = self.talk_to(scope)
                packed = position
                if settlements and self._operations_left > len(some):
                    packed = self._behind_settlement(settlements, scope, entry)
            reservation.token = stem + number
            if force or reservation.force:
                operations[entry] = packed + FORCE + reservation.token + number
            else:  # as `rules.reserve`
                operations[entry] = packed + head + number + publish.digest + number  # type: ignore[operator]
        advance_all(some, _RESERVING)
        self._operations_left -= len(some)
        self.reserved += some

    def _behind_settlement(self, settlements: Settlements, scope: Scope, entry: bytes) -> bytes:
        operation = settlements.take_one(scope, entry)
        if operation:
            self.settled.append((scope, {entry: operation}))
            self._operations_left -= operations_in(operation)
        return self.talk_to(scope) + operation

    def call(self) -> SuppressionCall:
        """Return the script's call."""
        scopes = list(self._positions)
        dropped, announced = self.dropped, self.announced
        return SuppressionCall(
            self._spans,
            self._nonce,
            scopes,
            bytes(
                [
                    DROP * (scope in dropped) + (_announcement(scope) if scope in announced else 0)
                    for scope in scopes
                ]
            ),
            [scope.partitions for scope in scopes],
            list(self._operations),
            list(self._operations.values()),
            len(self.reserved),
        )


def _announcement(scope: Scope) -> int:
    return ANNOUNCE + MARK if scope.spooled.count else ANNOUNCE


def finish(forgets: "Iterable[asyncio.Future[None]]", error: Exception | None) -> None:
    """Complete the requests to forget that still wait, or fail them."""
    for done in forgets:
        if done.done():
            continue  # the request was cancelled
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
