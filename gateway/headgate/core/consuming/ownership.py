"""Who owns a partition: terms of ownership, and what may be committed in one.

A consumer group hands partitions from one member to another. Whatever a member does for a
partition carries the term in which it began; a term ends when the partition is revoked and never
comes back, also when the partition does (assigned, taken away, assigned again).
"""

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
