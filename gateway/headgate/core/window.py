"""One key's window: the events of a key that wait to become one record."""

from typing import NamedTuple

from headgate.core.held import Held


class Times(NamedTuple):
    """A topic's clocks, in ms: `coalesce_quiet_ms` restarts at each event, `max_delay` does not;
    `burst_max` is how long a burst may hold a key. is_leading: `coalesce_leading`."""

    quiet: int
    max_delay: int
    burst_max: int
    is_leading: bool = False


class Bounds(NamedTuple):
    """How much one partition holds: distinct keys, and bytes."""

    keys: int
    bytes: int


class Sum(NamedTuple):
    """Events, and the bytes of their values."""

    events: int
    bytes: int

    @classmethod
    def of(cls, held: Held) -> "Sum":
        return cls(1, len(held.value or b""))

    def plus(self, other: "Sum") -> "Sum":
        return Sum(self.events + other.events, self.bytes + other.bytes)


_NOTHING = Sum(0, 0)


class Window:
    """first: the offset of its first event.  last: its newest event, the one that is emitted.

    Times are arrivals: the coalescer's clock decides nothing that another owner, reading the same
    records again, would decide otherwise.
    is_forced: an event in it was (sticky: the newest content must end in a record).
    is_due: whatever the clocks say.  superseded: what later events replaced, by producer.
    """

    __slots__ = (
        "bursts",
        "bursts_since_ms",
        "first",
        "first_ms",
        "is_due",
        "is_forced",
        "last",
        "not_before_ms",
        "superseded",
    )

    def __init__(self, held: Held) -> None:
        self.first = held.offset
        self.first_ms = held.arrived_ms
        self.last = held
        self.is_forced = held.forced
        self.is_due = held.forced
        self.not_before_ms = 0
        self.bursts: set[bytes] = set()
        self.bursts_since_ms = held.arrived_ms
        self.superseded: dict[str, Sum] = {}

    def take(self, held: Held) -> None:
        """A later event of the key: it wins."""
        self._supersede(self.last)
        self.last = held
        if held.forced:
            self.is_forced = self.is_due = True

    def hold(self, burst: bytes, arrived_ms: int) -> None:
        """An event of a burst: the key waits for the burst's end."""
        if not self.bursts:
            self.bursts_since_ms = arrived_ms
        self.bursts.add(burst)

    def absorb(self, earlier: "Window") -> None:
        """An earlier window of the key that could not be emitted is part of this one now."""
        self.first, self.first_ms = earlier.first, earlier.first_ms
        self.is_forced |= earlier.is_forced
        self.is_due |= earlier.is_due
        for producer, more in earlier.superseded.items():
            self.superseded[producer] = self.superseded.get(producer, _NOTHING).plus(more)
        self._supersede(earlier.last)

    def due_ms(self, times: Times) -> int:
        """When it closes, if nothing more arrives."""
        if self.is_due:
            due = 0
        elif self.bursts:
            due = self.bursts_since_ms + times.burst_max
        else:
            due = min(self.last.arrived_ms + times.quiet, self.first_ms + times.max_delay)
        return max(due, self.not_before_ms)

    def _supersede(self, held: Held) -> None:
        known = self.superseded.get(held.producer, _NOTHING)
        self.superseded[held.producer] = known.plus(Sum.of(held))
