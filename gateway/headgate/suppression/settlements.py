"""Ends of publishes that Redis has not been told yet."""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from headgate.core.publish import Publish
from headgate.core.suppression.protocol import CLEAR, KEEP, REFUSED, SETTLE, Scope, settle

_MAX_BYTES = 512  # of operations that one entry gathers; what is more goes into a line
# Bytes of each operation of an end, by its letter.
_WIDTHS: Final = {SETTLE[0]: 41, KEEP[0]: 41, REFUSED[0]: 13, CLEAR[0]: 1}


def operations_in(packed: bytes) -> int:
    """How many operations these are."""
    at, count, size = 0, 0, len(packed)
    while at < size:
        at += _WIDTHS[packed[at]]
        count += 1
    return count


class Settlements:
    """Operations by namespace and entry. They may be sent late, twice and in any order.

    line: those of keys that have many at once, so that a busy key costs no more than many keys.
    While Redis is away, unreserved publishes pile up: of each entry only the highest offset is
    kept. The tokens of the others, if a claim without a reply left any, go by expiry.
    """

    __slots__ = ("_limit", "_more", "_pending", "_unreserved", "line")

    def __init__(self, limit: int) -> None:
        self._pending: dict[Scope, dict[bytes, bytes]] = {}
        self._more: dict[Scope, int] = {}  # operations beyond the first of their entries, at most
        self._unreserved: dict[Scope, dict[bytes, tuple[int, bytes]]] = {}
        self._limit = limit
        self.line: deque[tuple[Scope, bytes, bytes]] = deque()

    def __bool__(self) -> bool:
        return bool(self._pending or self.line)

    def __len__(self) -> int:
        """At least how many operations wait."""
        return sum(map(len, self._pending.values())) + len(self.line)

    def of(self, scope: Scope) -> dict[bytes, bytes]:
        """Return the namespace's pending operations, to add to."""
        pending = self._pending.get(scope)
        if pending is None:
            pending = self._pending[scope] = {}
        return pending

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Queue one operation."""
        pending = self.of(scope)
        known = pending.get(entry)
        if known is None:
            pending[entry] = operation
        elif len(known) < _MAX_BYTES:
            pending[entry] = known + operation
            self._more[scope] = self._more.get(scope, 0) + 2
        else:
            self.line.append((scope, entry, operation))

    def add_unreserved(self, publish: Publish, offset: int) -> None:
        """An acknowledgement while Redis is away, of a publish it need not know."""
        reservation = publish.reserved
        known = self._unreserved.setdefault(reservation.scope, {})
        entry = reservation.entry
        if entry not in known or known[entry][0] < offset:
            digest = publish.digest or b""
            operation = settle(reservation.token, digest, offset, reservation.partitions)
            known[entry] = (offset, operation)

    def overflowed(self) -> set[Scope]:
        """Forget the namespaces that hold too much; each must then be dropped in Redis."""
        lines = Counter(scope for scope, _, _ in self.line)
        scopes = set()
        for scope in {*self._pending, *self._unreserved, *lines}:
            count = len(self._pending.get(scope, ())) + len(self._unreserved.get(scope, ()))
            if count + lines[scope] > self._limit:
                self._forget(scope)
                self._unreserved.pop(scope, None)
                scopes.add(scope)
        if scopes:
            self.line = deque(one for one in self.line if one[0] not in scopes)
        return scopes

    def reconnected(self) -> None:
        """Queue what was kept of the unreserved ones."""
        for scope, known in self._unreserved.items():
            for entry, (_, operation) in known.items():
                self.add(scope, entry, operation)
        self._unreserved.clear()

    def take(self, keys: int, operations: int) -> Iterator[tuple[Scope, dict[bytes, bytes], int]]:
        """Remove and yield entries with their operations, by namespace, up to so many of both.

        With them comes how many operations they are, at most.
        """
        limit = operations
        while self.line and keys > 0 and 2 * operations > limit:  # the rest is for other keys
            # One at a time: the next may be of the same entry.
            scope, entry, operation = self.line.popleft()
            count = operations_in(operation)
            keys -= 1
            operations -= count
            yield scope, {entry: operation}, count
        while self._pending and keys > 0 and operations > 0:
            scope, pending = next(iter(self._pending.items()))
            if not pending:  # `take_one` took the last
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
        """Remove and return one entry's operations, empty if there are none."""
        pending = self._pending.get(scope)
        if pending is None:
            return b""
        packed = pending.pop(entry, b"")
        if not pending:
            self._forget(scope)
        return packed
