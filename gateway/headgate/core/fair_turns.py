"""Whose requests start when, while several producers share one event loop.

What one producer starts, the others wait for. While a producer is alone nothing is counted. While
several are there, each may start so much work in a turn, and the rest of it waits for the next
turns in a line of its own (deficit round robin: M. Shreedhar and G. Varghese, "Efficient Fair
Queuing Using Deficit Round Robin", 1996). How much depends on the event loop: turns that come late
show that it is full, and each makes the share smaller; each that comes in time makes it larger
(additive increase, multiplicative decrease, as TCP does). So a flood takes what is left, and what
it cannot have waits before the loop, not in it.
"""

from collections import deque
from typing import Final, Generic, TypeVar

Waiting = TypeVar("Waiting")

TURN_S: Final = 0.001  # event loops count milliseconds
# A request costs its bytes and this: a single event of 650 bytes takes some 30 us of the loop, one
# of 50 in a batch 8 us (loadtest/README.md), so 1,000 bytes take 12 to 15 us.
REQUEST_BYTES: Final = 1500
MAX_SHARE: Final = 65_536  # about a turn's time
MIN_SHARE: Final = 4096  # two single events a turn, however full the loop is
STEP: Final = 4096
LATE_S: Final = 0.001
# So long after a second producer has posted, the first one is alone again. As long after the last
# request that had to wait, the instance is not pressed any more.
COMPANY_S: Final = 1.0


class FairTurns(Generic[Waiting]):
    """Told of each request before it starts, and of the beginning of each turn.

    share: bytes that each producer may start in a turn.  waiting: how many requests wait.
    waited: how many had to, so far.
    """

    __slots__ = ("_company_until", "_latest", "_lines", "_pressed_until", "_spent", "share",
                 "waited", "waiting")  # fmt: skip

    def __init__(self) -> None:
        self.share = MAX_SHARE
        self.waiting = self.waited = 0
        self._latest = ""
        self._company_until = self._pressed_until = 0.0
        self._spent: dict[str, int] = {}
        self._lines: dict[str, deque[tuple[int, Waiting]]] = {}

    @property
    def is_turning(self) -> bool:
        """Whether the next turn matters to anybody."""
        return bool(self._spent)

    def is_pressed(self, now_s: float) -> bool:
        """Whether somebody wants more than a share, while others are there."""
        return now_s < self._pressed_until

    def starts(self, producer: str, size: int, now_s: float) -> bool:
        """Whether a request of so many bytes may start now; else it has to `wait`."""
        if producer != self._latest:
            self._latest = producer
            self._company_until = now_s + COMPANY_S
        elif now_s >= self._company_until:
            return True  # what of it still waits comes with the next turns
        spent = self._spent.get(producer, 0)
        if spent >= self.share:  # as long as somebody of it waits, it has
            self._pressed_until = now_s + COMPANY_S
            return False
        self._spent[producer] = spent + size + REQUEST_BYTES
        return True

    def wait(self, producer: str, size: int, request: Waiting) -> None:
        """Put a request behind those of its producer that wait."""
        line = self._lines.get(producer)
        if line is None:
            line = self._lines[producer] = deque()
        line.append((size, request))
        self.waiting += 1
        self.waited += 1

    def next_turn(self, late_s: float) -> list[Waiting]:
        """Begin a turn, so much later than it was due: the requests that start with it.

        What a producer started beyond its share it owes to the next turns.
        """
        share = self.share
        self._spent = {
            producer: spent - share for producer, spent in self._spent.items() if spent > share
        }
        if late_s > LATE_S:
            self.share = max(MIN_SHARE, share * 3 // 4)
        else:
            self.share = min(MAX_SHARE, share + STEP)
        started: list[Waiting] = []
        for producer in list(self._lines):
            self._release(producer, started)
        return started

    def _release(self, producer: str, started: list[Waiting]) -> None:
        line, spent = self._lines[producer], self._spent.get(producer, 0)
        while line and spent < self.share:
            size, request = line.popleft()
            self.waiting -= 1
            spent += size + REQUEST_BYTES
            started.append(request)
        self._spent[producer] = spent
        if not line:
            del self._lines[producer]
