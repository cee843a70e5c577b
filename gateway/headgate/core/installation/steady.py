"""A value that is polled: it has changed once two polls in a row say so.

One poll may fall into the moment in which a worker starts, connects, or is away for an instant.
"""

from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")


class Change(NamedTuple, Generic[Value]):
    """before: None = it was not known.  at_ms: the first poll that said so.  lasted_ms: how long
    it was as before."""

    before: Value | None
    after: Value
    at_ms: int
    lasted_ms: int


class Steady(Generic[Value]):
    """value: what it is; None = not known yet."""

    def __init__(self) -> None:
        self.value: Value | None = None
        self._since_ms = 0
        self._candidate: Value | None = None
        self._seen_ms = 0

    def see(self, now_ms: int, value: Value) -> Change[Value] | None:
        """Take what a poll says."""
        if value == self.value:
            self._candidate = None
            return None
        if value != self._candidate:
            self._candidate, self._seen_ms = value, now_ms
            return None
        # a clock may be set back
        lasted_ms = max(0, self._seen_ms - self._since_ms) if self.value is not None else 0
        change = Change(self.value, value, self._seen_ms, lasted_ms)
        self.value, self._since_ms, self._candidate = value, self._seen_ms, None
        return change
