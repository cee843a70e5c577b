"""How long events have waited for Redis, without a clock reading for each of them."""

from collections import deque


class Waits:
    """Events wait in the order of their arrival, so a count at each look tells who came before it.

    An event is overdue `timeout_s` after the first look that saw it.
    """

    __slots__ = ("_looks", "_timeout_s", "left")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._looks: deque[tuple[float, int]] = deque()  # when, and how many had arrived by then
        self.left = 0  # how many wait no longer, of all that ever came

    def overdue(self, now_s: float, waiting: int) -> int:
        """Look: how many of those that wait are overdue, the oldest first. Call it often."""
        looks, arrived = self._looks, self.left + waiting
        while looks and looks[0][1] <= self.left:
            looks.popleft()
        if waiting and (not looks or looks[-1][1] < arrived):
            looks.append((now_s, arrived))
        overdue = 0
        while looks and now_s - looks[0][0] >= self._timeout_s:
            overdue = looks.popleft()[1] - self.left
        return overdue
