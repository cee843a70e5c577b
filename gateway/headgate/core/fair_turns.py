"""Fair scheduling of requests while several producers share one event loop.

Each request delays the requests of other producers. If a producer is alone, nothing is counted.
If there are several, each may start a share of work in a turn, and its other requests wait in its
own queue for the next turns (deficit round robin: M. Shreedhar and G. Varghese, "Efficient Fair
Queuing Using Deficit Round Robin", 1996). The share depends on the event loop: a late turn shows
that the loop is full and reduces the share; a turn in time increases it (additive increase,
multiplicative decrease, as in TCP). A flood therefore gets the remaining capacity, and its other
requests wait in front of the loop, not in it.
"""

from collections import deque
from typing import Final, Generic, TypeVar

Waiting = TypeVar("Waiting")

TURN_S: Final = 0.001  # event loops count milliseconds
# A request costs its bytes plus this: a single event of 650 bytes takes about 30 us of the loop,
# one of 50 in a batch 8 us (loadtest/README.md), so 1,000 bytes take 12 to 15 us.
REQUEST_BYTES: Final = 1500
MAX_SHARE: Final = 65_536  # about a turn's time
MIN_SHARE: Final = 4096  # two single events a turn, also if the loop is full
STEP: Final = 4096
LATE_S: Final = 0.001
# Time after a second producer's request until the first one counts as alone again, and time after
# the last request that had to wait until the instance is not pressed any more.
COMPANY_S: Final = 1.0


class FairTurns(Generic[Waiting]):
    """Scheduler of requests; callers report each request and the beginning of each turn.

    Attributes:
        share: Bytes that each producer may start in a turn.
        waiting: The number of requests that wait.
        waited: The number of requests that had to wait so far.
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
        """Return whether any producer needs the next turn."""
        return bool(self._spent)

    def is_pressed(self, now_s: float) -> bool:
        """Return whether a producer wants more than its share while there are others."""
        return now_s < self._pressed_until

    def starts(self, producer: str, size: int, now_s: float) -> bool:
        """Return whether a request may start now; otherwise it has to `wait`.

        Args:
            producer: The name of the producer.
            size: The bytes of the request.
            now_s: Monotonic time, in seconds.
        """
        if producer != self._latest:
            self._latest = producer
            self._company_until = now_s + COMPANY_S
        elif now_s >= self._company_until:
            return True  # its waiting requests start with the next turns
        spent = self._spent.get(producer, 0)
        if spent >= self.share:  # always true while requests of this producer wait
            self._pressed_until = now_s + COMPANY_S
            return False
        self._spent[producer] = spent + size + REQUEST_BYTES
        return True

    def wait(self, producer: str, size: int, request: Waiting) -> None:
        """Append a request to the queue of its producer."""
        line = self._lines.get(producer)
        if line is None:
            line = self._lines[producer] = deque()
        line.append((size, request))
        self.waiting += 1
        self.waited += 1

    def next_turn(self, late_s: float) -> list[Waiting]:
        """Begin a turn, and return the requests that start with it.

        The work of a producer above its share counts in the next turns.

        Args:
            late_s: The delay of the turn, in seconds.
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
