"""Requests with an Idempotency-Key: a claim before the start, a response after the report to Redis.

A header of the response shows the result for the key: `Idempotency-Replayed: true` if the whole
response is from memory, `Idempotency-Bypassed: true` if Redis did not answer, so that a repeated
request may be written again.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from headgate.idempotency.claims import Sized, Verdicts
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.rules import (
    CONFLICT,
    IDEMPOTENCY_KEY,
    RELEASE,
    ClaimState,
    ClaimVerdict,
    KeyedRequest,
    key_mismatch,
    names_of_keys,
    read_key,
    step_of,
    unpack_outcomes,
)
from headgate.idempotency.store import NO_REDIS
from headgate.ingest.path import Decode, Inbound, Pipeline
from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Outcome, Reason, Refused, rejected
from headgate.model.publish import Attempt, Claim, Ticket
from headgate.model.reply import Reply

_AT_ONCE_BYTES = 1_048_576  # the digest of more would block the event loop for milliseconds

Begun = Callable[[Attempt | Failure], None]


class RequestIdentity:
    """Claims of Idempotency-Keys.

    Args:
        client: Client of request identity; None without Redis.
        prefix: Prefix of all names in Redis.
        key_ms: Time for which outcomes are remembered, in milliseconds.
        meter: Counter of requests that bypassed identity.
    """

    def __init__(
        self,
        client: IdentityClient | ShardedIdentity | None,
        prefix: str,
        key_ms: float,
        meter: Meter,
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._key_ms = key_ms
        self._meter = meter

    async def digest(self, keyed: KeyedRequest) -> None:
        """Digest a large request before `begin`, on a thread, so as not to block the event loop."""
        if self._client is not None and len(keyed.body) > _AT_ONCE_BYTES:
            await asyncio.to_thread(keyed.fingerprint)

    def begin(self, keyed: KeyedRequest, begun: Begun) -> None:
        """Claim the request's key.

        Args:
            keyed: The request.
            begun: Called with the attempt, or with the failure: malformed, idempotency_conflict,
                idempotency_mismatch, redis_unavailable. It is called once, at once or when Redis
                has answered, in the order of the requests.
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
        """Call back once the attempt's end is in Redis: a repeat then gets this response."""
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
            client.end(claim.token, step_of(claim, RELEASE))  # Redis may have made the claim
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

log = logging.getLogger("headgate.idempotency")

EVENTS: Final = b"events"  # endpoint of requests on the fast path
_REPLAYED: Final = ("Idempotency-Replayed", "true")
_BYPASSED: Final = ("Idempotency-Bypassed", "true")
_BUG: Final = Failure(Reason.INTERNAL, "an internal error")


class Once:
    """The path of requests with an Idempotency-Key, between a front and the pipeline.

    Args:
        pipeline: The pipeline.
        keys: Claims of Idempotency-Keys.
        clock: Monotonic clock, in seconds, as for `Inbound.arrived`.
        watch: Called with each started ticket of `begin`, for its deadline.
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
        """Start the events that earlier attempts with the request's key have not published.

        Args:
            inbound: The request.
            endpoint: Endpoint, and its target besides the topic.
            decode_as: Decoder of the request; None for the default one.
        """
        keyed = self._keyed(inbound, endpoint, decode_as)
        if keyed is None:
            return self._pipeline.take(inbound, decode_as)  # this refuses and counts the request
        await self._keys.digest(keyed)
        begun: asyncio.Future[Attempt | Failure] = asyncio.get_running_loop().create_future()
        self._keys.begin(keyed, partial(_settle, begun))
        ticket = self._pipeline.ticket(inbound)
        self._go_on(ticket, inbound, decode_as, await begun)
        return ticket

    async def finish(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply to a ticket that is done, once a repeat would get it, too."""
        if ticket.attempt is None:
            return reply
        reported: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keys.when_reported(ticket.attempt, partial(_settle, reported, None))
        await reported
        return self.marked(ticket, reply)

    def begin(self, inbound: Inbound, ended: Callable[[Ticket], None]) -> Ticket:
        """Start and finish a complete request, without a task or a future.

        Args:
            inbound: The request.
            ended: Called once with the ticket, or with one that replaces it, when its reply may be
                sent; perhaps before this returns.
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
        """Return the reply with a header about the result for the key."""
        attempt = ticket.attempt
        if attempt is None:
            return reply
        if _is_replay(attempt, ticket.outcomes):
            return reply.with_header(_REPLAYED)
        return reply.with_header(_BYPASSED) if attempt.bypassed else reply

    def _keyed(
        self, inbound: Inbound, endpoint: bytes, decode_as: Decode | None
    ) -> KeyedRequest | None:
        """Return the request to claim; None if the topic takes no requests now."""
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
        """Start a request on the fast path, and handle its end."""
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
        """Reply to a done ticket once its end is in Redis."""
        attempt = ticket.attempt
        if attempt is None:
            ended(ticket)
        else:
            self._keys.when_reported(attempt, partial(ended, ticket))


def _is_replay(attempt: Attempt, outcomes: Sequence[Outcome | None]) -> bool:
    """Return whether earlier attempts provide the whole response."""
    if not attempt.known or len(attempt.known) != len(outcomes):
        return False
    first = outcomes[0]  # a failure if the request was refused as a whole
    return first is not None and first.failure is None


def _settle(future: "asyncio.Future[Result]", result: Result) -> None:
    if not future.done():  # otherwise the waiting task was cancelled
        future.set_result(result)
