"""One key's window: the events of a key that wait to become one record."""

from collections.abc import Collection
from typing import NamedTuple

from headgate.core.coalescing.held import HeldEvent


class WindowTimes(NamedTuple):
    """A topic's clocks, in ms: `coalesce_quiet_ms` restarts at each event, `max_delay` does not;
    `burst_max` is how long a burst may hold a key. is_leading: `coalesce_leading`."""

    quiet: int
    max_delay: int
    burst_max: int
    is_leading: bool = False


class HeldBounds(NamedTuple):
    """How much one partition holds: distinct keys, and bytes."""

    keys: int
    bytes: int


class Sum(NamedTuple):
    """Events, and the bytes of their values."""

    events: int
    bytes: int

    @classmethod
    def of(cls, held: HeldEvent) -> "Sum":
        return cls(1, len(held.value or b""))

    def plus(self, other: "Sum") -> "Sum":
        return Sum(self.events + other.events, self.bytes + other.bytes)


_NOTHING = Sum(0, 0)


# Bytes of memory in CPython 3.11: what is superseded, for each producer; a window's bursts.
_SUPERSEDED, _BURSTS, _BURST = 176, 232, 64


class Window:
    """first: the offset of its first event.  last: its newest event, the one that is emitted.

    Times are arrivals: the coalescer's clock decides nothing that another owner, reading the same
    records again, would decide otherwise.
    is_forced: an event in it was (sticky: the newest content must end in a record).
    is_due: whatever the clocks say.  planned_ms: when it is looked at next, at the latest.
    There may be a hundred thousand, so what few of them have is made only for these.
    """

    __slots__ = (
        "_bursts",
        "_superseded",
        "bursts_since_ms",
        "first",
        "first_ms",
        "is_due",
        "is_forced",
        "last",
        "not_before_ms",
        "planned_ms",
    )

    def __init__(self, held: HeldEvent) -> None:
        self.first = held.offset
        self.first_ms = held.arrived_ms
        self.last = held
        self.is_forced = held.forced
        self.is_due = held.forced
        self.not_before_ms = 0
        self.planned_ms: int | None = None
        self.bursts_since_ms = held.arrived_ms
        self._bursts: set[bytes] | None = None
        self._superseded: tuple[str | int, ...] = ()  # producer, events, bytes, producer, ...

    @property
    def cost(self) -> int:
        """Bytes of memory that it takes."""
        cost = self.last.size
        if self._superseded:
            cost += _SUPERSEDED * (len(self._superseded) // 3)
        if self._bursts is not None:
            cost += _BURSTS + _BURST * len(self._bursts)
        return cost

    @property
    def bursts(self) -> Collection[bytes]:
        """The bursts whose ends it waits for."""
        return self._bursts or ()

    @property
    def superseded(self) -> dict[str, Sum]:
        """What later events replaced, by producer."""
        flat = self._superseded
        return {
            str(flat[at]): Sum(int(flat[at + 1]), int(flat[at + 2]))
            for at in range(0, len(flat), 3)
        }

    def forget_superseded(self) -> None:
        """Somebody else has counted them."""
        self._superseded = ()

    def take(self, held: HeldEvent) -> None:
        """A later event of the key: it wins."""
        self._supersede(self.last)
        self.last = held
        if held.forced:
            self.is_forced = self.is_due = True

    def hold(self, burst: bytes, arrived_ms: int) -> None:
        """An event of a burst: the key waits for the burst's end."""
        if not self._bursts:
            self.bursts_since_ms = arrived_ms
            self._bursts = set()
        self._bursts.add(burst)

    def release(self, burst: bytes) -> None:
        """The burst has ended: without another one the window is due."""
        if self._bursts is not None:
            self._bursts.discard(burst)
            self.is_due |= not self._bursts
            self._bursts = self._bursts or None

    def absorb(self, earlier: "Window") -> None:
        """An earlier window of the key that could not be emitted is part of this one now."""
        self.first, self.first_ms = earlier.first, earlier.first_ms
        self.is_forced |= earlier.is_forced
        self.is_due |= earlier.is_due
        for producer, more in earlier.superseded.items():
            self._add(producer, more)
        self._supersede(earlier.last)

    def due_ms(self, times: WindowTimes) -> int:
        """When it closes, if nothing more arrives."""
        if self.is_due:
            due = 0
        elif self._bursts:
            due = self.bursts_since_ms + times.burst_max
        else:
            due = min(self.last.arrived_ms + times.quiet, self.first_ms + times.max_delay)
        return max(due, self.not_before_ms)

    def _supersede(self, held: HeldEvent) -> None:
        self._add(held.producer, Sum.of(held))

    def _add(self, producer: str, more: Sum) -> None:
        sums = self.superseded if self._superseded else {}
        sums[producer] = sums.get(producer, _NOTHING).plus(more)
        flat: list[str | int] = []
        for name, total in sums.items():
            flat += (name, *total)
        self._superseded = tuple(flat)
