"""How far a partition is done: the low-water mark of work that ends in any order.

What is committed is what a member starts from after the next rebalance, so it may only cover
events of which nothing is left to do: parallel-consumer's rule, without its bit maps.
"""

from collections import deque


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
