"""Terms of ownership of partitions, and the progress of the work in one.

A consumer group hands partitions from one member to another. All work on a partition carries the
term in which it began. A term ends when the partition is revoked, and the next assignment of the
same partition begins a new one.

A member starts from the committed offset after a rebalance, so a commit may only cover events that
are done: the low-water mark of work that ends in any order (parallel-consumer's rule, without its
bit maps).
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Owned(NamedTuple):
    """A partition in one term of ownership; the term's number is unique."""

    topic: str
    partition: int
    term: int


class Ownership:
    """The partitions that a group has assigned to one of its members."""

    __slots__ = ("_committed", "_last_term", "_owned")

    def __init__(self) -> None:
        self._owned: dict[tuple[str, int], Owned] = {}
        self._committed: dict[Owned, int] = {}
        self._last_term = 0

    def __len__(self) -> int:
        return len(self._owned)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> list[Owned]:
        """Begin a term for each partition of the group's new assignment; all other terms end."""
        self.revoke_all()
        for topic, partition in sorted(partitions):
            self._last_term += 1
            self._owned[topic, partition] = Owned(topic, partition, self._last_term)
        return list(self._owned.values())

    def revoke_all(self) -> list[Owned]:
        """End all terms, and return them."""
        ended = list(self._owned.values())
        self._owned.clear()
        self._committed.clear()
        return ended

    def is_current(self, owned: Owned) -> bool:
        """Return whether a term still lasts."""
        return self._owned.get((owned.topic, owned.partition)) == owned

    def may_commit(self, owned: Owned, offset: int) -> bool:
        """Return whether an offset may be committed now: in its own term, and never backwards."""
        return self.is_current(owned) and offset >= self._committed.get(owned, 0)

    def committed(self, owned: Owned, offset: int) -> None:
        """Note a commit: no later one of this term may be before it."""
        if self.is_current(owned):
            self._committed[owned] = max(offset, self._committed.get(owned, 0))


class PartitionProgress:
    """One partition in one term of ownership. Offsets are entered in the order of the log.

    Attributes:
        first: Offset at which reading began; -1 before that.
    """

    __slots__ = ("_ended", "_next", "_open", "first")

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()
        self._ended: set[int] = set()
        self._next: int | None = None
        self.first = -1

    def __len__(self) -> int:
        """Return the number of offsets behind the low-water mark, also of events that are done."""
        return len(self._open)

    def enter(self, offset: int, first: int) -> None:
        """Begin an event.

        Args:
            offset: Offset of the event.
            first: Offset from which the complete event can be read again.
        """
        self._open.append((offset, first))

    def passed(self, offset: int) -> None:
        """Note a record that was read: it and all before it are entered or need no work."""
        if self._next is None:
            self.first = offset
        self._next = offset + 1

    def reached(self, position: int) -> None:
        """Note the position of reading.

        Offsets that were not delivered have no events: they are markers of transactions, or
        aborted, compacted or deleted records.
        """
        if self._next is None:
            self.first = self._next = position
        self._next = max(self._next, position)

    def done(self, offset: int) -> bool:
        """End an event; return whether the low-water mark moved."""
        entered = self._open
        if entered[0][0] != offset:
            self._ended.add(offset)
            return False
        entered.popleft()
        ended = self._ended
        while entered and ended and entered[0][0] in ended:
            ended.discard(entered.popleft()[0])
        return True

    @property
    def done_below(self) -> int | None:
        """Return the offset below which no open event ends; None before anything was read."""
        return self._open[0][0] if self._open else self._next

    @property
    def low_water(self) -> int | None:
        """Return the offset to start from again; None before anything was read."""
        return self._open[0][1] if self._open else self._next
