"""Answers tickets whose time is up. One sweep for all instead of a timer for each request."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from headgate.core.publish import Ticket

log = logging.getLogger("headgate.deadlines")

SWEEP_S = 0.05  # how late an answer may come after its deadline


class Deadlines:
    """Tickets in the order of their arrival; all have the same time, so the oldest is due first."""

    def __init__(
        self, expire: Callable[[Ticket], None], timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self._expire = expire
        self._timeout_s = timeout_s
        self._clock = clock
        self._tickets: deque[Ticket] = deque()

    def watch(self, ticket: Ticket) -> None:
        self._tickets.append(ticket)

    def sweep(self) -> None:
        """Forget what is done and expire what is due."""
        tickets = self._tickets
        due = self._clock() - self._timeout_s
        while tickets and (tickets[0].done or tickets[0].arrived <= due):
            ticket = tickets.popleft()
            if not ticket.done:
                self._expire(ticket)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            try:
                self.sweep()
            except Exception:  # the outermost frame of this task: the others must be answered
                log.exception("deadline callback failed")
