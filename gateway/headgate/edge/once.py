"""Requests with an Idempotency-Key: claimed before they start, answered once Redis knows.

A header of the answer says what became of the key: `Idempotency-Replayed: true` where all of it is
from memory, `Idempotency-Bypassed: true` where Redis could not be asked, so that a repeat may be
written again.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeVar

from headgate.core.idempotency.attempt import Attempt
from headgate.core.idempotency.protocol import KeyedRequest
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.publish import Ticket
from headgate.core.refusal import Refused
from headgate.core.reply import Reply
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.pipeline import Pipeline

Result = TypeVar("Result")

log = logging.getLogger("headgate.edge.once")

EVENTS: Final = b"events"  # the endpoint of the short way
_REPLAYED: Final = ("Idempotency-Replayed", "true")
_BYPASSED: Final = ("Idempotency-Bypassed", "true")
_BUG: Final = Failure(Reason.INTERNAL, "an internal error")


class Keys(Protocol):
    """Who knows the Idempotency-Keys (`idempotency.requests`)."""

    async def digest(self, asked: KeyedRequest) -> None: ...

    def begin(self, asked: KeyedRequest, begun: Callable[[Attempt | Failure], None]) -> None: ...

    def when_reported(self, attempt: Attempt, call: Callable[[], None]) -> None: ...


class Once:
    """Between a front and the pipeline.

    clock: seconds, as in `Inbound.arrived`.  watch: told of each ticket of `begin` that has
    started, for its deadline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        keys: Keys,
        clock: Callable[[], float],
        watch: Callable[[Ticket], None],
    ) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._clock = clock
        self._watch = watch

    async def start(self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None) -> Ticket:
        """Start what earlier attempts under the request's key have not done.

        endpoint: which one, and where it points to beside the topic.  decode_as: see there.
        """
        asked = self._asked(inbound, endpoint, decode_as)
        if asked is None:
            return self._pipeline.take(inbound, decode_as)  # which says why not, and counts it
        await self._keys.digest(asked)
        begun: asyncio.Future[Attempt | Failure] = asyncio.get_running_loop().create_future()
        self._keys.begin(asked, partial(_settle, begun))
        ticket = self._pipeline.ticket(inbound)
        self._go_on(ticket, inbound, decode_as, await begun)
        return ticket

    async def finish(self, ticket: Ticket, reply: Reply) -> Reply:
        """The answer to a ticket that is done, once a repeat would get it as well."""
        if ticket.attempt is None:
            return reply
        reported: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keys.when_reported(ticket.attempt, partial(_settle, reported, None))
        await reported
        return self.marked(ticket, reply)

    def begin(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> Ticket:
        """As `start` and `finish` for a request that is there as a whole: no task, no future.

        `ended` is told of the ticket, or of one that stands for it, when it may be answered:
        once, perhaps before this returns.
        """
        ticket = self._pipeline.ticket(inbound)
        asked = self._asked(inbound, EVENTS, None)
        if asked is None:
            self._pipeline.take(inbound, ticket=ticket)
            ended(ticket)
        else:
            self._keys.begin(asked, partial(self._begun, ticket, inbound, ended))
        return ticket

    def marked(self, ticket: Ticket, reply: Reply) -> Reply:
        """The reply, with what became of the key."""
        attempt = ticket.attempt
        if attempt is None:
            return reply
        if attempt.is_replay(ticket.outcomes):
            return reply.with_header(_REPLAYED)
        return reply.with_header(_BYPASSED) if attempt.bypassed else reply

    def _asked(
        self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None
    ) -> KeyedRequest | None:
        """What is claimed; None where the topic takes nothing now."""
        try:
            found = self._pipeline.gate.open(inbound.topic, needs_offset=decode_as is not None)
        except Refused:
            return None
        refuse = found.policy.redis_loss == "refuse"
        headers, streamed = inbound.headers, inbound.streamed
        body = inbound.body if streamed is None else streamed.stored.sha256.encode()
        topic_id = found.state.topic_id
        return KeyedRequest(endpoint, topic_id, inbound.producer, headers, body, refuse)

    def _begun(
        self,
        ticket: Ticket,
        inbound: Inbound,
        ended: Callable[[Ticket], None],
        found: Attempt | Failure,
    ) -> None:
        """Start a request of the short way, and see to its end."""
        try:
            self._go_on(ticket, inbound, None, found)
        except Exception:  # the outermost frame of this request
            log.exception("request failed")
            failed = self._pipeline.ticket(inbound)
            failed.refuse(rejected(_BUG))
            ended(failed)
            return
        if ticket.done:
            self._ended(ended, ticket)
        else:
            ticket.waiter = partial(self._ended, ended)
            self._watch(ticket)

    def _go_on(
        self, ticket: Ticket, inbound: Inbound, decode_as: Decode | None, found: Attempt | Failure
    ) -> None:
        if isinstance(found, Attempt):
            now_s = self._clock()
            ticket.claimed_s, ticket.arrived = now_s - ticket.arrived, now_s
            self._pipeline.take(inbound, decode_as, found, ticket)
        else:
            self._pipeline.refuse(ticket, found)

    def _ended(self, ended: Callable[[Ticket], None], ticket: Ticket) -> None:
        """It is done: the client is answered once Redis knows."""
        attempt = ticket.attempt
        if attempt is None:
            ended(ticket)
        else:
            self._keys.when_reported(attempt, partial(ended, ticket))


def _settle(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():  # else whoever waited for it was cancelled
        future.set_result(result)
