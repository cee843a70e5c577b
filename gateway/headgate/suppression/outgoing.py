"""Packs what waits into one call of the script, and remembers what was in it."""

import asyncio
from collections import deque

from headgate.core import suppression
from headgate.core.publish import Publish, Stage
from headgate.core.suppression import Call, Limits, Scope
from headgate.suppression.settlements import Settlements

Waiting = tuple[bytes, Publish]  # the name of its entry, and the reservation
Forget = tuple[Scope, bytes | None, "asyncio.Future[None]"]
_MOST_SCOPES = 200  # a namespace's place in the call is one byte


class Flight:
    """One call under construction and then on its way.

    settled: what must be sent again if no reply comes.  reserved: in order of arrival.
    """

    __slots__ = ("_dropped", "_forgets", "_most", "_operations", "_places", "reserved", "settled")

    def __init__(self, most_keys: int) -> None:
        self._most = most_keys
        self._places: dict[Scope, bytes] = {}
        self._dropped: set[Scope] = set()
        self._operations: dict[bytes, bytes] = {}
        self.settled: list[tuple[Scope, bytes, bytes]] = []
        self.reserved: list[Waiting] = []
        self._forgets: list[asyncio.Future[None]] = []

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def room(self) -> int:
        """How many more keys it takes."""
        if len(self._places) > _MOST_SCOPES:
            return 0
        return self._most - len(self._operations)

    @property
    def dropped(self) -> set[Scope]:
        """Namespaces whose incarnation this call deletes."""
        return self._dropped

    def talk_to(self, scope: Scope) -> bytes:
        """Ask for the namespace's nonce; returns its place."""
        place = self._places.get(scope)
        if place is None:
            place = self._places[scope] = bytes((len(self._places),))
        return place

    def drop(self, scope: Scope) -> None:
        """Delete the namespace's incarnation first."""
        self.talk_to(scope)
        self._dropped.add(scope)

    def address(self, to_drop: set[Scope], to_talk: set[Scope]) -> None:
        """Take the namespaces to drop, and those to talk to, as far as there is room."""
        while to_drop and self.room > 0:
            self.drop(to_drop.pop())
        while to_talk and self.room > 0:
            self.talk_to(to_talk.pop())

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Do this to the entry, after what was added for it before."""
        known = self._operations.get(entry)
        self._operations[entry] = (self.talk_to(scope) if known is None else known) + operation

    def settle(self, settlements: Settlements, most: int) -> None:
        """Take settlements, up to `most` keys."""
        for scope, entry, operation in settlements.take(min(most, self.room)):
            self.add(scope, entry, operation)
            self.settled.append((scope, entry, operation))

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

    def reserve(self, queue: deque[Waiting], settlements: Settlements) -> None:
        """Take reservations in order of arrival, each behind the settlements of its key."""
        operations, reserved = self._operations, self.reserved
        number, most = 0, 2 * self._most
        while queue and number < most and len(operations) < self._most:
            waiting = queue.popleft()
            entry, publish = waiting
            scope = publish.scope
            known = operations.get(entry)
            if known is None:
                known = self.talk_to(scope)
                if settlements:
                    known += self._late_settlement(settlements, scope, entry)
            if publish.force:
                operation = suppression.force(publish.token, _NUMBERS[number])
            else:
                operation = suppression.reserve(
                    publish.token, publish.digest or b"", _NUMBERS[number]
                )
            operations[entry] = known + operation
            publish.stage = Stage.RESERVING
            reserved.append(waiting)
            number += 1

    def _late_settlement(self, settlements: Settlements, scope: Scope, entry: bytes) -> bytes:
        operation = settlements.of(scope).pop(entry, b"")
        if operation:
            self.settled.append((scope, entry, operation))
        return operation

    def call(self, limits: Limits, candidate: bytes) -> Call:
        """Return the call."""
        scopes = list(self._places)
        dropped = bytes(scope in self._dropped for scope in scopes)
        return Call(
            limits,
            candidate,
            scopes,
            dropped,
            list(self._operations),
            list(self._operations.values()),
            len(self.reserved),
        )


_NUMBERS = suppression.number_bytes(4096)
