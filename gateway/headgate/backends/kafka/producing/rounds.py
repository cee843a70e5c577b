"""When lanes hand over: many at a time, because every request to a broker costs the same.

aiokafka sends one request at a time to each broker. A batch that is handed over meanwhile only
waits inside, and takes no more records; a lane that waits here fills its batch at the last moment,
and the next request carries the batches of all lanes. Brokers are independent of each other.
"""

import asyncio
from collections.abc import Callable
from typing import Final

# Behind a request that carried so many records, what arrives has to wait for its turn anyway.
# Gathering longer makes fewer and larger batches: a tenth off the processor time of an event.
MANY_RECORDS: Final = 100
LONGER: Final = 4
# So few records, and so few lanes behind them, are one client's: gathering only makes it wait.
FEW: Final = 1


class Round:
    """What one broker's next request will carry: it gathers from the end of the last request on.

    Whoever joins has a future of its own: ending one lane must leave the others alone.
    """

    __slots__ = ("_sleepers", "_timer", "hurry", "is_quiet")

    def __init__(self) -> None:
        self.is_quiet = True  # there is little traffic: who comes first goes at once
        self.hurry = False  # somebody in it has a full batch: it gathers no longer than it must
        self._sleepers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_gathering(self) -> bool:
        """Tell whether a time is set at which it goes."""
        return self._timer is not None

    @property
    def waiting(self) -> int:
        """How many have joined."""
        return len(self._sleepers)

    def gather(self, seconds: float) -> None:
        """Go after so many seconds."""
        self.stop()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._gathered)

    def _gathered(self) -> None:
        self.is_quiet = not self._sleepers
        self.go()

    def stop(self) -> None:
        """Forget when to go."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def join(self) -> asyncio.Future[None]:
        """Return what ends when it goes."""
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        return sleeper

    def go(self) -> None:
        """Wake all that have joined; they run before whatever is scheduled later."""
        self.stop()
        self.hurry = False
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            if not sleeper.done():  # cancelled with its lane
                sleeper.set_result(None)


class Rounds:
    """The rounds of all brokers of one producer.

    linger_s: for how long a round gathers, from the end of the request before it. 0: not at all.
    LONGER times as long where that request carried MANY_RECORDS; not at all while there is little
    traffic: then the first goes at once, and what comes during its request goes together (Nagle's
    rule, RFC 896).
    busy: ids of the brokers with a request under way; aiokafka's sender keeps it.
    is_pressed: whether one producer floods while others are there, who must not wait longer for
    what its many records save.
    """

    def __init__(
        self, linger_s: float, busy: set[int], is_pressed: Callable[[], bool] = lambda: False
    ) -> None:
        self._linger_s = linger_s
        self._busy = busy
        self._is_pressed = is_pressed
        self._rounds: dict[int, Round] = {}

    def turn(self, node: int, is_first: bool, is_full: bool) -> asyncio.Future[None] | None:
        """Return what to wait for before handing over, or None to do it now.

        is_first: the lane was empty.  is_full: more records would not fit into its batch anyway.
        After the wait look again: leaders and producers change.
        """
        one = self._rounds.get(node)
        if one is None:
            one = self._rounds[node] = Round()
        if node in self._busy:
            one.hurry = one.hurry or is_full
            return one.join()
        if is_full:
            if one.is_gathering:
                one.go()  # the others come along
            return None
        if is_first and self._linger_s > 0 and not (one.is_quiet or one.is_gathering):
            one.gather(self._linger_s)
        return one.join() if one.is_gathering else None

    def ended(self, node: int, records: int) -> None:
        """The request to this broker has ended. records: how many it carried."""
        one = self._rounds.get(node)
        if one is None:
            return
        one.is_quiet = records <= FEW and one.waiting <= FEW
        if self._linger_s > 0 and not (one.hurry or one.is_quiet):
            is_longer = records >= MANY_RECORDS and not self._is_pressed()
            one.gather(self._linger_s * (LONGER if is_longer else 1))
        else:
            one.go()

    def go(self) -> None:
        """Leaders may have moved, or no request will ever end: all look again."""
        for one in self._rounds.values():
            one.go()
