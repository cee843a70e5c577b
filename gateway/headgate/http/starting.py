"""Start of requests: in their turn, with their Idempotency-Key, and with a deadline."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Final

from headgate.idempotency.requests import Once
from headgate.idempotency.rules import IDEMPOTENCY_KEY
from headgate.ingest.admission import TURN_S, FairTurns
from headgate.ingest.deadlines import Deadlines
from headgate.ingest.path import Decode, Inbound, Pipeline
from headgate.model.outcome import OVERLOADED_RETRY_S, Failure, Reason, brief
from headgate.model.publish import Ticket
from headgate.model.reply import Reply

# ---- fair turns: a producer that has used its share of a turn waits (`ingest.admission`)


log = logging.getLogger("headgate.http")


class InTurn:
    """A queue that shares the event loop fairly among producers.

    Args:
        max_wait_s: Longest wait of a request, in seconds; then it is refused.
        clock: Monotonic clock, in seconds. The event loop's clock is too coarse: it is read once
            a turn.
    """

    def __init__(self, max_wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_wait_s: Final = max_wait_s
        self._loop: Final = asyncio.get_running_loop()
        self._clock: Final = clock
        self._turns: Final = FairTurns[Callable[[], None]]()
        self._due: float | None = None

    @property
    def waited(self) -> int:
        """Return the number of requests that had to wait so far."""
        return self._turns.waited

    def is_pressed(self) -> bool:
        """Return whether a producer waits, or waited recently, while other producers send."""
        return self._turns.is_pressed(self._clock())

    def starts(self, inbound: Inbound) -> bool:
        """Return whether a request may start now; otherwise it must `wait`."""
        turns = self._turns
        may_start = turns.starts(inbound.producer, len(inbound.body), inbound.arrived)
        if self._due is None and turns.is_turning:
            self._schedule()
        return may_start

    def wait(self, inbound: Inbound, start: Callable[[], None]) -> None:
        """Queue a request; `start` is called when the request may start."""
        self._turns.wait(inbound.producer, len(inbound.body), start)

    async def came(self, inbound: Inbound) -> Failure | None:
        """Wait until the request may start. Return its `refusal`."""
        turn: asyncio.Future[None] = self._loop.create_future()
        self.wait(inbound, partial(_end, turn))
        await turn
        return self.refusal(inbound)

    def refusal(self, inbound: Inbound) -> Failure | None:
        """Return the failure if a request has waited too long."""
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
    if not turn.done():  # else the waiting task was cancelled
        turn.set_result(None)


class Starting:
    """Starter of requests, between a front and the pipeline.

    The front has already taken the bytes of a request's body from the budget.
    """

    def __init__(
        self, pipeline: Pipeline, once: Once, deadlines: Deadlines, in_turn: InTurn
    ) -> None:
        self._pipeline = pipeline
        self._once = once
        self._deadlines = deadlines
        self._in_turn = in_turn
        self._loop = asyncio.get_running_loop()

    async def start(self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None) -> Ticket:
        """Start a request, without events that earlier attempts of its Idempotency-Key completed.

        Args:
            inbound: The request.
            endpoint: Endpoint of the request, and its parameters besides the topic.
            decode_as: Decodes the body for a front of another protocol.
        """
        if not self._in_turn.starts(inbound):
            failure = await self._in_turn.came(inbound)
            if failure is not None:
                ticket = self._pipeline.ticket(inbound)
                self._pipeline.refuse(ticket, failure)
                return ticket
        if IDEMPOTENCY_KEY in inbound.headers:
            return await self._once.start(inbound, endpoint, decode_as)
        return self._pipeline.take(inbound, decode_as)

    async def remembered(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply to a ticket of `start`, once repeats would get the same reply."""
        return reply if ticket.attempt is None else await self._once.finish(ticket, reply)

    def begin(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> Ticket:
        """Start a complete request without task or future.

        Args:
            inbound: The request.
            ended: Callback for the ticket, or for one that replaces it, when it is done. With an
                Idempotency-Key it is always called, perhaps before this returns.

        Returns:
            The ticket; it may already be done. Without Idempotency-Key, `ended` is then not called.
        """
        if not self._in_turn.starts(inbound):
            self._in_turn.wait(inbound, partial(self._begin_late, inbound, ended))
            return self._pipeline.ticket(inbound)
        if IDEMPOTENCY_KEY in inbound.headers:
            return self._once.begin(inbound, ended)
        ticket = self._pipeline.take(inbound)
        if not ticket.done:
            self._watch(ticket, ended)
        return ticket

    def marked(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply to a ticket of `begin`."""
        return reply if ticket.attempt is None else self._once.marked(ticket, reply)

    def ended(self, ticket: Ticket) -> asyncio.Future[None]:
        """Return a future that is done when all events have ended, or at the deadline."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._watch(ticket, lambda _: None if future.done() else future.set_result(None))
        return future

    def _begin_late(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> None:
        """Begin a request that has waited for its turn."""
        failure = self._in_turn.refusal(inbound)
        if failure is None and IDEMPOTENCY_KEY in inbound.headers:
            self._once.begin(inbound, ended)
            return
        ticket = self._pipeline.ticket(inbound)
        now_s = self._loop.time()
        ticket.claimed_s, ticket.arrived = now_s - ticket.arrived, now_s
        if failure is None:
            self._pipeline.take(inbound, ticket=ticket)
        else:
            self._pipeline.refuse(ticket, failure)
        if ticket.done:
            ended(ticket)
        else:
            self._watch(ticket, ended)

    def _watch(self, ticket: Ticket, ended: Callable[[Ticket], None]) -> None:
        ticket.waiter = ended
        self._deadlines.watch(ticket)
