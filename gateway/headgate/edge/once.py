"""Requests with an Idempotency-Key: claimed before they start, answered once Redis knows.

A header of the answer says what became of the key: `Idempotency-Replayed: true` where all of it is
from memory, `Idempotency-Bypassed: true` where Redis could not be asked, so that a repeat may be
written again.
"""

from collections.abc import Callable
from typing import Protocol

from headgate.core.http.reply import Reply
from headgate.core.idempotency.attempt import Attempt
from headgate.core.idempotency.protocol import KeyedRequest
from headgate.core.publish import Ticket
from headgate.core.refusal import Refused
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.pipeline import Pipeline

_REPLAYED = ("Idempotency-Replayed", "true")
_BYPASSED = ("Idempotency-Bypassed", "true")


class Keys(Protocol):
    """Who knows the Idempotency-Keys (`idempotency.requests`)."""

    async def begin(self, asked: KeyedRequest) -> Attempt: ...

    async def reported(self, attempt: Attempt) -> None: ...


class Once:
    """Between a front and the pipeline. clock: seconds, as in `Inbound.arrived`."""

    def __init__(self, pipeline: Pipeline, keys: Keys, clock: Callable[[], float]) -> None:
        self._pipeline = pipeline
        self._keys = keys
        self._clock = clock

    async def start(self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None) -> Ticket:
        """Start what earlier attempts under the request's key have not done.

        endpoint: which one, and where it points to beside the topic.  decode_as: see there.
        """
        try:
            found = self._pipeline.gate.open(inbound.topic, needs_offset=decode_as is not None)
        except Refused:
            return self._pipeline.take(inbound, decode_as)  # which says the same, and counts it
        refuse = found.policy.redis_loss == "refuse"
        headers, streamed = inbound.headers, inbound.streamed
        body = inbound.body if streamed is None else streamed.stored.sha256.encode()
        topic_id = found.state.topic_id
        try:
            asked = KeyedRequest(endpoint, topic_id, inbound.producer, headers, body, refuse)
            attempt = await self._keys.begin(asked)
        except Refused as refused:
            return self._pipeline.refuse(inbound, refused.failure)
        return self._pipeline.take(inbound.at(self._clock()), decode_as, attempt)

    async def finish(self, ticket: Ticket, reply: Reply) -> Reply:
        """The answer to a ticket that is done, once a repeat would get it as well."""
        attempt = ticket.attempt
        if attempt is None:
            return reply
        await self._keys.reported(attempt)
        if attempt.is_replay(ticket.outcomes):
            return reply.with_header(_REPLAYED)
        if attempt.bypassed:
            return reply.with_header(_BYPASSED)
        return reply
