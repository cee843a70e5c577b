"""Packs what waits into one call of the script, and remembers what was in it."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from headgate.core import suppression
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import FORCE, RESERVE, Call, Limits, Scope
from headgate.suppression.settlements import Settlements

Forget = tuple[Scope, bytes | None, "asyncio.Future[None]"]
_MOST_SCOPES = 250  # a namespace's place in the call is one byte
_MOST_TALKED_TO = 50  # of them without an operation, so that there is room for those with one
_NUMBERS: Final = suppression.number_bytes(4096)
_RESERVING: Final = Stage.RESERVING  # looking it up in the Enum class costs 0.1 us


class Flight:
    """One call under construction and then on its way.

    settled: what must be sent again if no reply comes.  reserved: in order of arrival.
    dropped: the namespaces whose incarnation it deletes.
    """

    __slots__ = ("_forgets", "_most", "_operations", "_places", "dropped", "reserved", "settled")

    def __init__(self, most_keys: int) -> None:
        self._most = most_keys
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
        return min(self._most - len(self._operations), _MOST_SCOPES - len(self._places))

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
        """Delete the namespace's incarnation first."""
        self.talk_to(scope)
        self.dropped.add(scope)

    def address(self, to_drop: set[Scope], to_talk: set[Scope]) -> None:
        """Take the namespaces to drop, and those to talk to, as far as there is room."""
        while to_drop and len(self._places) < _MOST_TALKED_TO:
            self.drop(to_drop.pop())
        while to_talk and len(self._places) < _MOST_TALKED_TO:
            self.talk_to(to_talk.pop())

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Do this to the entry, after what was added for it before."""
        known = self._operations.get(entry)
        self._operations[entry] = (self.talk_to(scope) if known is None else known) + operation

    def settle(self, settlements: Settlements, most: int) -> None:
        """Take settlements, up to `most` keys."""
        for scope, taken in settlements.take(min(most, self.room)):
            self.settled.append((scope, taken))
            if self._operations:
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
            self.add(scope, entry, suppression.CLEAR)
        self._forgets.append(done)

    def finish_forgets(self, error: Exception | None) -> None:
        """Tell those who asked to forget that it is done, or why not."""
        for done in self._forgets:
            if done.done():
                continue  # whoever asked waits no longer
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

    def reserve(self, queue: deque[Publish], settlements: Settlements, stem: bytes) -> None:
        """Take reservations in order of arrival, each behind the settlements of its key.

        Several of one key take the room of one, so there may be room left after a round.
        stem: 10 bytes; with the number of the reservation behind it, its token.
        """
        most = min(2 * self._most, len(_NUMBERS))
        while queue:
            count = min(self.room, most - len(self.reserved))
            if count <= 0:
                break
            if count >= len(queue):
                some = list(queue)
                queue.clear()
            else:
                some = [queue.popleft() for _ in range(count)]
            self._reserve(some, settlements, stem)

    def _reserve(self, some: list[Publish], settlements: Settlements, stem: bytes) -> None:
        # The hottest loop of suppression: about 1 us an event, most of it these lines.
        operations, scope, place, head = self._operations, None, b"", RESERVE + stem
        first = len(self.reserved)
        for publish, number in zip(some, _NUMBERS[first : first + len(some)], strict=True):
            entry = publish.entry
            known = operations.get(entry)
            if known is None:
                if publish.scope is not scope:
                    scope = publish.scope
                    place = self.talk_to(scope)
                known = self._behind_settlement(settlements, scope, entry) if settlements else place
            publish.token = stem + number
            if publish.force:
                operations[entry] = known + FORCE + publish.token + number
            else:  # as `suppression.reserve`
                operations[entry] = known + head + number + publish.digest + number  # type: ignore[operator]
            publish.stage = _RESERVING
        self.reserved += some

    def _behind_settlement(self, settlements: Settlements, scope: Scope, entry: bytes) -> bytes:
        operation = settlements.take_one(scope, entry)
        if operation:
            self.settled.append((scope, {entry: operation}))
        return self.talk_to(scope) + operation

    def call(self, limits: Limits, candidate: bytes) -> Call:
        """Return the call."""
        scopes = list(self._places)
        return Call(
            limits,
            candidate,
            scopes,
            bytes([scope in self.dropped for scope in scopes]),
            list(self._operations),
            list(self._operations.values()),
            len(self.reserved),
        )
