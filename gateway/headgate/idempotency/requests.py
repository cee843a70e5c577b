"""Idempotency-Keys: one request is done once, and its answer given again."""

import asyncio
from collections.abc import Callable
from functools import partial

from headgate.core.idempotency import remembered
from headgate.core.idempotency.attempt import Attempt
from headgate.core.idempotency.protocol import (
    CONFLICT,
    IDEMPOTENCY_KEY,
    RELEASE,
    Claim,
    ClaimState,
    ClaimVerdict,
    KeyedRequest,
    key_mismatch,
    names_of_keys,
    read_key,
)
from headgate.core.outcome import Failure
from headgate.core.refusal import Refused
from headgate.idempotency.identity_client import IdentityClient
from headgate.idempotency.options import NO_REDIS, IdentityMeter
from headgate.idempotency.pending import Sized, Verdicts
from headgate.idempotency.sharded import ShardedIdentity

_AT_ONCE_BYTES = 1_048_576  # digesting more would hold up the event loop for milliseconds

Begun = Callable[[Attempt | Failure], None]


class RequestIdentity:
    """client: None where there is no Redis.  key_ms: how long what was done is remembered."""

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

    async def digest(self, asked: KeyedRequest) -> None:
        """Digest a large request without holding up the event loop, before `begin`."""
        if self._client is not None and len(asked.body) > _AT_ONCE_BYTES:
            await asyncio.to_thread(asked.fingerprint)

    def begin(self, asked: KeyedRequest, begun: Begun) -> None:
        """Claim the request's key.

        `begun` is told of the attempt, or why there is none: malformed, idempotency_conflict,
        idempotency_mismatch, redis_unavailable. Once, at once or when Redis has answered, in the
        order of the calls.
        """
        try:
            key = read_key(asked.headers[IDEMPOTENCY_KEY])
        except Refused as refused:
            begun(refused.failure)
            return
        client = None if self._client is None else self._client.of(asked.topic_id)
        if client is None:
            begun(self._without(asked, Attempt(), "not_configured"))
            return
        name = names_of_keys(self._prefix, asked.topic_id, asked.producer).of(key)
        claim = Claim(name, asked.fingerprint(), client.new_token(), self._key_ms)
        decided = partial(self._decided, asked, claim, client, begun)
        client.ask(iter([Sized(claim, 0)]), decided)

    def when_reported(self, attempt: Attempt, call: Callable[[], None]) -> None:
        """Call it once Redis knows how the attempt ended: a repeat then gets this answer."""
        if attempt.request is not None and self._client is not None:
            self._client.when_reported(attempt.request.token, call)
        else:
            call()

    def _decided(
        self,
        asked: KeyedRequest,
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
        if asked.refuse:
            client.end(claim.token, claim.operation(RELEASE))  # it may have been made all the same
        else:
            client.follow(claim)
        begun(self._without(asked, Attempt(claim), reason))

    def _without(self, asked: KeyedRequest, attempt: Attempt, reason: str) -> Attempt | Failure:
        self._meter.identity_bypassed(reason, 1)
        if asked.refuse:
            return NO_REDIS
        attempt.bypassed = True
        return attempt


def _attempt(claim: Claim, verdict: ClaimVerdict) -> Attempt | Failure:
    if verdict.state is ClaimState.RUNNING:
        return CONFLICT
    if verdict.state is ClaimState.MISMATCH:
        return key_mismatch()
    attempt = Attempt(claim if verdict.state is ClaimState.CLAIMED else None)
    attempt.known = remembered.unpack(verdict.remembered)
    return attempt
