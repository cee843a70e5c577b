"""Ends of publishes that Redis has not been told yet."""

from collections.abc import Iterator
from itertools import islice

from headgate.core.publish import Publish
from headgate.core.suppression import Scope, settle


class Settlements:
    """Operations by namespace and entry. They may be sent late, twice and in any order.

    While Redis is away, blind publishes pile up: of each entry only the highest offset is kept.
    The tokens of the others, if a claim without a reply left any, go by expiry.
    """

    __slots__ = ("_blind", "_most", "_pending")

    def __init__(self, most: int) -> None:
        self._pending: dict[Scope, dict[bytes, bytes]] = {}
        self._blind: dict[Scope, dict[bytes, tuple[int, bytes]]] = {}
        self._most = most

    def __bool__(self) -> bool:
        return bool(self._pending)

    def __len__(self) -> int:
        return sum(map(len, self._pending.values()))

    def of(self, scope: Scope) -> dict[bytes, bytes]:
        """Return the namespace's pending operations, to add to."""
        pending = self._pending.get(scope)
        if pending is None:
            pending = self._pending[scope] = {}
        return pending

    def add(self, scope: Scope, entry: bytes, operation: bytes) -> None:
        """Queue one operation."""
        pending = self.of(scope)
        pending[entry] = pending.get(entry, b"") + operation

    def add_blind(self, publish: Publish, offset: int) -> None:
        """An acknowledgement while Redis is away, of a publish it need not know."""
        known = self._blind.setdefault(publish.scope, {})
        entry = publish.entry
        if entry not in known or known[entry][0] < offset:
            digest = publish.digest or b""
            known[entry] = (offset, settle(publish.token, digest, offset))

    def overflowed(self) -> list[Scope]:
        """Forget the namespaces that hold too much; each must then be dropped in Redis."""
        scopes = []
        for scope in {*self._pending, *self._blind}:
            count = len(self._pending.get(scope, ())) + len(self._blind.get(scope, ()))
            size = sum(map(len, self._pending.get(scope, {}).values()))
            if count > self._most or size > 64 * self._most:
                self._pending.pop(scope, None)
                self._blind.pop(scope, None)
                scopes.append(scope)
        return scopes

    def reconnected(self) -> None:
        """Queue what was kept of the blind ones."""
        for scope, known in self._blind.items():
            for entry, (_, operation) in known.items():
                self.add(scope, entry, operation)
        self._blind.clear()

    def take(self, most: int) -> Iterator[tuple[Scope, dict[bytes, bytes]]]:
        """Remove and yield up to `most` entries with their operations, by namespace."""
        while self._pending and most > 0:
            scope, pending = next(iter(self._pending.items()))
            if len(pending) <= most:
                del self._pending[scope]
                taken = pending
            else:
                taken = {entry: pending.pop(entry) for entry in list(islice(pending, most))}
            most -= len(taken)
            yield scope, taken

    def take_one(self, scope: Scope, entry: bytes) -> bytes:
        """Remove and return one entry's operations, empty if there are none."""
        pending = self._pending.get(scope)
        return pending.pop(entry, b"") if pending is not None else b""
