"""Finds the guilty records of a refused batch."""

import sys

_NO_CAP = sys.maxsize


class Halving:
    """How many records may share a batch, after a batch was refused.

    A broker refuses a whole batch for one record. The records go back to the front of their lane
    and are sent again in halves, so that k guilty ones among n cost about k * log2(n) batches, the
    innocent ones are published, and all keep their order.
    """

    __slots__ = ("_suspects", "cap")

    def __init__(self) -> None:
        self.cap = _NO_CAP
        self._suspects = 0

    def refused(self, count: int) -> bool:
        """A batch of `count` records was refused; tell whether its one record is the guilty one."""
        if count == 1:
            self._suspects = max(0, self._suspects - 1)
            return True
        self._suspects = max(self._suspects, count)
        self.cap = max(1, count // 2)
        return False

    def accepted(self, count: int) -> None:
        """A batch of `count` records was published."""
        if self._suspects:
            self._suspects = max(0, self._suspects - count)
            self.cap = self.cap * 2 if self._suspects else _NO_CAP
