"""Requests with an Idempotency-Key: claimed before they start, answered once Redis knows.

A header of the answer says what became of the key: `Idempotency-Replayed: true` if all of it is
from memory, `Idempotency-Bypassed: true` if Redis did not answer, so that a repeat may be written
again.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from headgate.core.idempotency import RELEASE, Attempt, Claim, unpack_outcomes
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.publish import Ticket
from headgate.core.refusal import Refused
from headgate.core.reply import Reply
from headgate.idempotency.claims import Sized, Verdicts
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.rules import (
    CONFLICT,
    IDEMPOTENCY_KEY,
    ClaimState,
    ClaimVerdict,
    KeyedRequest,
    key_mismatch,
    names_of_keys,
    read_key,
)
from headgate.idempotency.store import NO_REDIS, IdentityMeter
from headgate.pipeline.pipeline import Decode, Inbound, Pipeline

_AT_ONCE_BYTES = 1_048_576  # digesting more would hold up the event loop for milliseconds

Begun = Callable[[Attempt | Failure], None]


class RequestIdentity:
    """Claims of Idempotency-Keys.

    Args:
        client: None if there is no Redis.
        key_ms: How long outcomes are remembered.
    """

    def __init__(
        self,
        client: IdentityClient | ShardedIdentity | None,
        prefix: str,
        key_ms: float,
        meter: IdentityMeter,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._key_ms = key_ms
        self._meter = meter

    async def digest(self, keyed: KeyedRequest) -> None:
        """Digest a large request without holding up the event loop, before `begin`."""
        if self._client is not None and len(keyed.body) > _AT_ONCE_BYTES:
            await asyncio.to_thread(keyed.fingerprint)

    def begin(self, keyed: KeyedRequest, begun: Begun) -> None:
        """Claim the request's key.

        Args:
            begun: Called with the attempt, or with the failure: malformed, idempotency_conflict,
                idempotency_mismatch, redis_unavailable. Once, at once or when Redis has answered,
                in the order of the calls.
        """
        try:
            key = read_key(keyed.headers[IDEMPOTENCY_KEY])
        except Refused as refused:
            begun(refused.failure)
            return
        client = None if self._client is None else self._client.of(keyed.topic_id)
        if client is None:
            begun(self._without(keyed, Attempt(), "not_configured"))
            return
        name = names_of_keys(self._prefix, keyed.topic_id, keyed.producer).of(key)
        claim = Claim(name, keyed.fingerprint(), client.new_token(), self._key_ms)
        decided = partial(self._decided, keyed, claim, client, begun)
        client.ask(iter([Sized(claim, 0)]), decided)

    def when_reported(self, attempt: Attempt, call: Callable[[], None]) -> None:
        """Call it once Redis knows how the attempt ended: a repeat then gets this answer."""
        if attempt.request is not None and self._client is not None:
            self._client.when_reported(attempt.request.token, call)
        else:
            call()

    def _decided(
        self,
        keyed: KeyedRequest,
        claim: Claim,
        client: IdentityClient,
        begun: Begun,
        verdicts: Verdicts,
        reason: str,
    ) -> None:
        verdict = verdicts.get(claim.token)
        if verdict is not None:
            begun(_attempt(claim, verdict))
            return
        if keyed.refuse:
            client.end(claim.token, claim.operation(RELEASE))  # it may have been made all the same
        else:
            client.follow(claim)
        begun(self._without(keyed, Attempt(claim), reason))

    def _without(self, keyed: KeyedRequest, attempt: Attempt, reason: str) -> Attempt | Failure:
        self._meter.identity_bypassed(reason, 1)
        if keyed.refuse:
            return NO_REDIS
        attempt.bypassed = True
        return attempt


def _attempt(claim: Claim, verdict: ClaimVerdict) -> Attempt | Failure:
    if verdict.state is ClaimState.RUNNING:
        return CONFLICT
    if verdict.state is ClaimState.MISMATCH:
        return key_mismatch()
    attempt = Attempt(claim if verdict.state is ClaimState.CLAIMED else None)
    attempt.known = unpack_outcomes(verdict.remembered)
    return attempt


Result = TypeVar("Result")

log = logging.getLogger("headgate.idempotency.requests")

EVENTS: Final = b"events"  # the endpoint of the short way
_REPLAYED: Final = ("Idempotency-Replayed", "true")
_BYPASSED: Final = ("Idempotency-Bypassed", "true")
_BUG: Final = Failure(Reason.INTERNAL, "an internal error")


class Once:
    """The way of requests with an Idempotency-Key, between a front and the pipeline.

    Args:
        clock: Monotonic clock in seconds, as in `Inbound.arrived`.
        watch: Called with each ticket of `begin` that has started, for its deadline.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        keys: RequestIdentity,
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
        keyed = self._keyed(inbound, endpoint, decode_as)
        if keyed is None:
            return self._pipeline.take(inbound, decode_as)  # which says why not, and counts it
        await self._keys.digest(keyed)
        begun: asyncio.Future[Attempt | Failure] = asyncio.get_running_loop().create_future()
        self._keys.begin(keyed, partial(_settle, begun))
        ticket = self._pipeline.ticket(inbound)
        self._go_on(ticket, inbound, decode_as, await begun)
        return ticket

    async def finish(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the answer to a ticket that is done, once a repeat would get it as well."""
        if ticket.attempt is None:
            return reply
        reported: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keys.when_reported(ticket.attempt, partial(_settle, reported, None))
        await reported
        return self.marked(ticket, reply)

    def begin(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> Ticket:
        """Start and finish a request that has arrived as a whole, without a task or a future.

        Args:
            ended: Called with the ticket, or with one that stands for it, when it may be answered:
                once, perhaps before this returns.
        """
        ticket = self._pipeline.ticket(inbound)
        keyed = self._keyed(inbound, EVENTS, None)
        if keyed is None:
            self._pipeline.take(inbound, ticket=ticket)
            ended(ticket)
        else:
            self._keys.begin(keyed, partial(self._begun, ticket, inbound, ended))
        return ticket

    def marked(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply with a header about the fate of the key."""
        attempt = ticket.attempt
        if attempt is None:
            return reply
        if attempt.is_replay(ticket.outcomes):
            return reply.with_header(_REPLAYED)
        return reply.with_header(_BYPASSED) if attempt.bypassed else reply

    def _keyed(
        self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None
    ) -> KeyedRequest | None:
        """Return the request to claim; None if the topic takes nothing now."""
        try:
            route = self._pipeline.gate.open(inbound.topic, needs_offset=decode_as is not None)
        except Refused:
            return None
        refuse = route.policy.redis_loss == "refuse"
        headers, streamed = inbound.headers, inbound.streamed
        body = inbound.body if streamed is None else streamed.stored.sha256.encode()
        topic_id = route.state.topic_id
        return KeyedRequest(endpoint, topic_id, inbound.producer, headers, body, refuse)

    def _begun(
        self,
        ticket: Ticket,
        inbound: Inbound,
        ended: Callable[[Ticket], None],
        attempt: Attempt | Failure,
    ) -> None:
        """Start a request of the short way, and see to its end."""
        try:
            self._go_on(ticket, inbound, None, attempt)
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
        self, ticket: Ticket, inbound: Inbound, decode_as: Decode | None, attempt: Attempt | Failure
    ) -> None:
        if isinstance(attempt, Attempt):
            now_s = self._clock()
            ticket.claimed_s, ticket.arrived = now_s - ticket.arrived, now_s
            self._pipeline.take(inbound, decode_as, attempt, ticket)
        else:
            self._pipeline.refuse(ticket, attempt)

    def _ended(self, ended: Callable[[Ticket], None], ticket: Ticket) -> None:
        """Answer the client of a done ticket once Redis knows."""
        attempt = ticket.attempt
        if attempt is None:
            ended(ticket)
        else:
            self._keys.when_reported(attempt, partial(ended, ticket))


def _settle(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():  # else the waiting task was cancelled
        future.set_result(result)
