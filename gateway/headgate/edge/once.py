"""Requests with an Idempotency-Key: claimed before ingest sees them, answered once Redis knows.

A header of the answer says what became of the key: `Idempotency-Replayed: true` where all of it is
from memory, `Idempotency-Bypassed: true` where Redis could not be asked, so that a repeat may be
written again.
"""

from collections.abc import Callable
from typing import Protocol

from headgate.core.event import Refused
from headgate.core.http.reply import Reply
from headgate.core.idempotency.attempt import Attempt
from headgate.core.idempotency.protocol import Asked
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.ingest import Ingest
from headgate.pipeline.ticket import Ticket

_REPLAYED = ("Idempotency-Replayed", "true")
_BYPASSED = ("Idempotency-Bypassed", "true")


class Keys(Protocol):
    """Who knows the Idempotency-Keys (`identity.requests`)."""

    async def begin(self, asked: Asked) -> Attempt: ...

    async def told(self, attempt: Attempt) -> None: ...


class Once:
    """Between a front and ingest. clock: seconds, as in `Inbound.arrived`."""

    def __init__(self, ingest: Ingest, keys: Keys, clock: Callable[[], float]) -> None:
        self._ingest = ingest
        self._keys = keys
        self._clock = clock

    async def start(self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None) -> Ticket:
        """Start what earlier attempts under the request's key have not done.

        endpoint: which one, and where it points to beside the topic.  decode_as: see `handle`.
        """
        try:
            found = self._ingest.route(inbound.topic)
        except Refused:
            return self._ingest.handle(inbound, decode_as)  # which says the same, and counts it
        refuse = found.policy.redis_loss == "refuse"
        headers, streamed = inbound.headers, inbound.streamed
        body = inbound.body if streamed is None else streamed.stored.sha256.encode()
        topic_id = found.state.topic_id
        try:
            asked = Asked(endpoint, topic_id, inbound.producer, headers, body, refuse)
            attempt = await self._keys.begin(asked)
        except Refused as refused:
            return self._ingest.refuse(inbound, refused.failure)
        return self._ingest.handle(inbound.at(self._clock()), decode_as, attempt)

    async def finish(self, ticket: Ticket, reply: Reply) -> Reply:
        """The answer to a ticket that is done, once a repeat would get it as well."""
        attempt = ticket.attempt
        if attempt is None:
            return reply
        await self._keys.told(attempt)
        if attempt.is_replay(ticket.outcomes):
            return reply.with_header(_REPLAYED)
        if attempt.bypassed:
            return reply.with_header(_BYPASSED)
        return reply
