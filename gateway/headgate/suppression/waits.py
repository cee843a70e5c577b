"""How long events have waited for Redis, without a clock reading for each of them."""

from collections import deque


class Waits:
    """Events wait in the order of their arrival, so a count at each poll says who came before it.

    An event is overdue `timeout_s` after the first poll that saw it.
    """

    __slots__ = ("_polls", "_timeout_s", "left")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._polls: deque[tuple[float, int]] = deque()  # when, and how many had arrived by then
        self.left = 0  # how many wait no longer, of all that ever came

    def overdue(self, now_s: float, waiting: int) -> int:
        """Poll: how many of those that wait are overdue, the oldest first. Call it often."""
        polls, arrived = self._polls, self.left + waiting
        while polls and polls[0][1] <= self.left:
            polls.popleft()
        if waiting and (not polls or polls[-1][1] < arrived):
            polls.append((now_s, arrived))
        overdue = 0
        while polls and now_s - polls[0][0] >= self._timeout_s:
            overdue = polls.popleft()[1] - self.left
        return overdue
