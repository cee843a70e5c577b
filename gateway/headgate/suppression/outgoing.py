"""Packs what waits into one call of the script, and remembers what was in it."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from headgate.core.publish import Publish, Stage, advance_all
from headgate.core.suppression import protocol
from headgate.core.suppression.protocol import (
    ANNOUNCE,
    DROP,
    FORCE,
    MARK,
    RESERVE,
    Scope,
    SuppressionCall,
    SuppressionSpans,
)
from headgate.suppression.settlements import Settlements, operations_in

Forget = tuple[Scope, bytes | None, "asyncio.Future[None]"]
_MAX_SCOPES = 250  # a namespace's place in the call is one byte
_MAX_TALKED_TO = 50  # of them without an operation, so that there is room for those with one
_NUMBERS: Final = protocol.number_bytes(4096)
_RESERVING: Final = Stage.RESERVING  # looking it up in the Enum class costs 0.1 us


class OutgoingCall:
    """One call under construction and then on its way.

    max_keys, max_operations: how much one call may do.
    settled: what must be sent again if no reply comes.  reserved: in order of arrival.
    dropped: the namespaces that get a new incarnation.  announced: those to which this process
    writes without reservations.  sent_s: when it was sent.
    """

    __slots__ = (
        "_forgets",
        "_left",
        "_max_keys",
        "_max_operations",
        "_operations",
        "_places",
        "announced",
        "dropped",
        "reserved",
        "sent_s",
        "settled",
    )

    def __init__(self, max_keys: int, max_operations: int, sent_s: float = 0.0) -> None:
        self._max_keys = max_keys
        self._max_operations = self._left = max_operations
        self.sent_s = sent_s
        self.announced: set[Scope] = set()
        self._places: dict[Scope, bytes] = {}
        self._operations: dict[bytes, bytes] = {}
        self._forgets: list[asyncio.Future[None]] = []
        self.dropped: set[Scope] = set()
        self.settled: list[tuple[Scope, dict[bytes, bytes]]] = []
        self.reserved: list[Publish] = []

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def room(self) -> int:
        """How many more keys it takes. Each may be the first of its namespace."""
        keys = min(self._max_keys - len(self._operations), _MAX_SCOPES - len(self._places))
        return min(keys, self._left)

    @property
    def scopes(self) -> Sequence[Scope]:
        """The namespaces in it."""
        return list(self._places)

    def talk_to(self, scope: Scope) -> bytes:
        """Ask for the namespace's nonce; returns its place."""
        place = self._places.get(scope)
        if place is None:
            place = self._places[scope] = bytes((len(self._places),))
        return place

    def drop(self, scope: Scope) -> None:
        """Forget what is known of all keys first."""
        self.talk_to(scope)
        self.dropped.add(scope)

    def address(self, to_drop: set[Scope], to_announce: set[Scope], to_talk: set[Scope]) -> None:
        """Take the namespaces to drop, to announce and to talk to, as far as there is room."""
        while to_drop and len(self._places) < _MAX_TALKED_TO:
            self.drop(to_drop.pop())
        while to_announce and len(self._places) < _MAX_TALKED_TO:
            scope = to_announce.pop()
            self.talk_to(scope)
            self.announced.add(scope)
        while to_talk and len(self._places) < _MAX_TALKED_TO:
            self.talk_to(to_talk.pop())

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Do this to the entry, after what was added for it before."""
        known = self._operations.get(entry)
        self._operations[entry] = (self.talk_to(scope) if known is None else known) + operation
        self._left -= 1

    def settle(self, settlements: Settlements, share: float = 1.0) -> None:
        """Take settlements, up to this share of the keys and of the operations."""
        keys = min(int(share * self._max_keys), self.room)
        operations = min(int(share * self._max_operations), self._left)
        for scope, taken, count in settlements.take(keys, operations):
            self.settled.append((scope, taken))
            self._left -= count
            if self._operations:
                self._left += len(taken)  # `add` counts them again
                for entry, operation in taken.items():
                    self.add(scope, entry, operation)
            else:
                place = self.talk_to(scope)
                self._operations = {entry: place + taken[entry] for entry in taken}

    def forget(self, request: Forget) -> None:
        """Forget the published state of a key, or of all."""
        scope, entry, done = request
        if entry is None:
            self.drop(scope)
        else:
            self.add(scope, entry, protocol.CLEAR)
        self._forgets.append(done)

    def finish_forgets(self, error: Exception | None) -> None:
        """Tell those who asked to forget that it is done, or why not."""
        finish(self._forgets, error)

    def reserve(
        self, queue: deque[Publish], settlements: Settlements, stem: bytes, *, force: bool = False
    ) -> None:
        """Take reservations in order of arrival, each behind the settlements of its key.

        Several of one key take the room of one, so there may be room left after a round.
        stem: 10 bytes; with the number of the reservation behind it, its token.  force: `unchanged`
        would not be believed.
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
        # The hottest loop of suppression: about 1 us an event, most of it these lines.
        operations, scope, place, head = self._operations, None, b"", RESERVE + stem
        first = len(self.reserved)
        for publish, number in zip(some, _NUMBERS[first : first + len(some)], strict=True):
            reservation = publish.reserved
            entry = reservation.entry
            known = operations.get(entry)
            if known is None:
                if reservation.scope is not scope:
                    scope = reservation.scope
                    place = self.talk_to(scope)
                known = place
                if settlements and self._left > len(some):
                    known = self._behind_settlement(settlements, scope, entry)
            reservation.token = stem + number
            if force or reservation.force:
                operations[entry] = known + FORCE + reservation.token + number
            else:  # as `protocol.reserve`
                operations[entry] = known + head + number + publish.digest + number  # type: ignore[operator]
        advance_all(some, _RESERVING)
        self._left -= len(some)
        self.reserved += some

    def _behind_settlement(self, settlements: Settlements, scope: Scope, entry: bytes) -> bytes:
        operation = settlements.take_one(scope, entry)
        if operation:
            self.settled.append((scope, {entry: operation}))
            self._left -= operations_in(operation)
        return self.talk_to(scope) + operation

    def call(self, spans: SuppressionSpans, candidate: bytes) -> SuppressionCall:
        """Return the call."""
        scopes = list(self._places)
        dropped, announced = self.dropped, self.announced
        return SuppressionCall(
            spans,
            candidate,
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
    """Each that is still waited for has its result, or the error."""
    for done in forgets:
        if done.done():
            continue  # whoever asked waits no longer
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
