"""Holds back requests whose producer has had its share of this turn (`core.fair_turns`)."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from headgate.core.admission import OVERLOADED_RETRY_S
from headgate.core.fair_turns import TURN_S, FairTurns
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import brief
from headgate.pipeline.inbound import Inbound

log = logging.getLogger("headgate.edge.in_turn")


class InTurn:
    """max_wait_s: a request that has waited longer is refused.

    clock: monotonic seconds, finer than the event loop's own, which it reads once a turn.
    """

    def __init__(self, max_wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_wait_s: Final = max_wait_s
        self._loop: Final = asyncio.get_running_loop()
        self._clock: Final = clock
        self._turns: Final = FairTurns[Callable[[], None]]()
        self._due: float | None = None

    @property
    def waited(self) -> int:
        """How many requests had to wait so far."""
        return self._turns.waited

    def is_pressed(self) -> bool:
        """Whether requests of a producer wait while others are there, or did a moment ago."""
        return self._turns.is_pressed(self._clock())

    def starts(self, inbound: Inbound) -> bool:
        """Whether a request may start now; else it has to `wait`."""
        turns = self._turns
        found = turns.starts(inbound.producer, len(inbound.body), inbound.arrived)
        if self._due is None and turns.is_turning:
            self._schedule()
        return found

    def wait(self, inbound: Inbound, start: Callable[[], None]) -> None:
        """Call `start` when the request may start."""
        self._turns.wait(inbound.producer, len(inbound.body), start)

    async def came(self, inbound: Inbound) -> Failure | None:
        """As `wait`, for who awaits it. Returns the `refusal`."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.wait(inbound, partial(_end, turn))
        await turn
        return self.refusal(inbound)

    def refusal(self, inbound: Inbound) -> Failure | None:
        """Why a request that has waited is not started any more."""
        if self._loop.time() - inbound.arrived <= self._max_wait_s:
            return None
        detail = f"producer {brief(inbound.producer)} sends more than its share of this instance"
        detail += f": this waited {self._max_wait_s:g} s; nothing was written"
        return Failure(Reason.OVERLOADED, detail, {"limit": "share"}, OVERLOADED_RETRY_S)

    def _schedule(self) -> None:
        self._due = self._clock() + TURN_S
        self._loop.call_later(TURN_S, self._next)

    def _next(self) -> None:
        due, self._due = self._due, None
        late_s = 0.0 if due is None else self._clock() - due
        for start in self._turns.next_turn(late_s):
            try:
                start()
            except Exception:  # the outermost frame of this request
                log.exception("request failed")
        if self._due is None and self._turns.is_turning:
            self._schedule()


def _end(turn: "asyncio.Future[None]") -> None:
    if not turn.done():  # else whoever waited for it was cancelled
        turn.set_result(None)
