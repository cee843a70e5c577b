"""Starts requests: in their turn, under their Idempotency-Key, and with a deadline."""

import asyncio
from collections.abc import Callable
from functools import partial

from headgate.core.publish import Ticket
from headgate.core.reply import Reply
from headgate.edge.in_turn import InTurn
from headgate.idempotency.requests import Once
from headgate.idempotency.rules import IDEMPOTENCY_KEY
from headgate.pipeline.deadlines import Deadlines
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.pipeline import Pipeline


class Starting:
    """Between a front and the pipeline. The bytes of a request's body were taken before."""

    def __init__(
        self, pipeline: Pipeline, once: Once, deadlines: Deadlines, in_turn: InTurn
    ) -> None:
        self._pipeline = pipeline
        self._once = once
        self._deadlines = deadlines
        self._in_turn = in_turn
        self._loop = asyncio.get_running_loop()

    async def start(self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None) -> Ticket:
        """Start a request, without what earlier ones under its Idempotency-Key have done.

        endpoint: which one, and where it points to beside the topic.
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
        """The reply to a ticket of `start`, once a repeat would be answered with it."""
        return reply if ticket.attempt is None else await self._once.finish(ticket, reply)

    def begin(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> Ticket:
        """As `start`, for a request that is there as a whole: no task, no future.

        It may be done already. Else `ended` is told of it, or of a ticket that stands for it, when
        it is; with an Idempotency-Key in any case, perhaps before this returns.
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
        """The reply to a ticket of `begin`."""
        return reply if ticket.attempt is None else self._once.marked(ticket, reply)

    def ended(self, ticket: Ticket) -> asyncio.Future[None]:
        """Done when every event of the ticket has ended; the deadline sees to that."""
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
