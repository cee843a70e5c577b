"""Who owns a partition: terms of ownership, and what may be committed in one.

A consumer group hands partitions from one member to another. Whatever a member does for a
partition carries the term in which it began; a term ends when the partition is revoked and never
comes back, also when the partition does (assigned, taken away, assigned again).
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Owned(NamedTuple):
    """A partition in one term of ownership. term: never used for another assignment."""

    topic: str
    partition: int
    term: int


class Ownership:
    """The partitions of one member of a group, told what the group says."""

    __slots__ = ("_committed", "_last_term", "_owned")

    def __init__(self) -> None:
        self._owned: dict[tuple[str, int], Owned] = {}
        self._committed: dict[Owned, int] = {}
        self._last_term = 0

    def __len__(self) -> int:
        return len(self._owned)

    def assign(self, partitions: Iterable[tuple[str, int]]) -> list[Owned]:
        """The group's whole new assignment: each partition begins a term, all others ended."""
        self.revoke_all()
        for topic, partition in sorted(partitions):
            self._last_term += 1
            self._owned[topic, partition] = Owned(topic, partition, self._last_term)
        return list(self._owned.values())

    def revoke_all(self) -> list[Owned]:
        """No partition is owned any more; returns what was."""
        ended = list(self._owned.values())
        self._owned.clear()
        self._committed.clear()
        return ended

    def is_current(self, owned: Owned) -> bool:
        """Whether the term still lasts."""
        return self._owned.get((owned.topic, owned.partition)) == owned

    def may_commit(self, owned: Owned, offset: int) -> bool:
        """Whether this offset may be committed now: in its own term, and never backwards."""
        return self.is_current(owned) and offset >= self._committed.get(owned, 0)

    def committed(self, owned: Owned, offset: int) -> None:
        """Note a commit that the group has, so that none goes back behind it in this term."""
        if self.is_current(owned):
            self._committed[owned] = max(offset, self._committed.get(owned, 0))


# How far a partition is done: the low-water mark of work that ends in any order.
#
# What is committed is what a member starts from after the next rebalance, so it may only cover
# events of which nothing is left to do: parallel-consumer's rule, without its bit maps.


class PartitionProgress:
    """One partition in one term of ownership. Offsets are entered in the order of the log.

    first: the offset where reading began, -1 before that.
    """

    __slots__ = ("_ended", "_next", "_open", "first")

    def __init__(self) -> None:
        self._open: deque[tuple[int, int]] = deque()
        self._ended: set[int] = set()
        self._next: int | None = None
        self.first = -1

    def __len__(self) -> int:
        """How many offsets the low-water mark cannot pass yet, ended ones behind it included."""
        return len(self._open)

    def enter(self, offset: int, first: int) -> None:
        """An event begins. first: where reading must start for it to come again as a whole."""
        self._open.append((offset, first))

    def passed(self, offset: int) -> None:
        """A record was read; it, and what lies before it, is either entered or needs nothing."""
        if self._next is None:
            self.first = offset
        self._next = offset + 1

    def reached(self, position: int) -> None:
        """All records below are read; those that were not handed over hold no events: markers of
        transactions, what was aborted, what compaction or retention took."""
        if self._next is None:
            self.first = self._next = position
        self._next = max(self._next, position)

    def done(self, offset: int) -> bool:
        """Nothing is left to do for this event. True: the low-water mark moved."""
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
        """No event that ends below this offset is open; None before anything was read."""
        return self._open[0][0] if self._open else self._next

    @property
    def low_water(self) -> int | None:
        """The offset to start from again; None before anything was read."""
        return self._open[0][1] if self._open else self._next
