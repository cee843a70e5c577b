"""Idempotency-Keys: one request is done once, and its answer given again."""

import asyncio

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
    key_name,
    read_key,
    request_fingerprint,
)
from headgate.core.refusal import Refused
from headgate.idempotency.identity_client import IdentityClient
from headgate.idempotency.options import NO_REDIS, IdentityMeter
from headgate.idempotency.pending import Sized, Verdicts

_AT_ONCE_BYTES = 1_048_576  # digesting more would hold up the event loop for milliseconds


class RequestIdentity:
    """client: None where there is no Redis.  key_ms: how long what was done is remembered."""

    def __init__(
        self, client: IdentityClient | None, prefix: str, key_ms: float, meter: IdentityMeter
    ) -> None:
        self._client = client
        self._prefix = prefix
        self._key_ms = key_ms
        self._meter = meter

    async def begin(self, asked: KeyedRequest) -> Attempt:
        """Claim the request's key.

        Raises Refused: malformed, idempotency_conflict, idempotency_mismatch, redis_unavailable.
        """
        key = read_key(asked.headers[IDEMPOTENCY_KEY])
        client = self._client
        if client is None:
            return self._without(asked, Attempt(), "not_configured")
        name = key_name(self._prefix, asked.topic_id, asked.producer, key)
        content = await _fingerprint(asked)
        claim = Claim(name, content, client.new_token(), self._key_ms)
        verdict, reason = await _verdict(client, claim)
        if verdict is not None:
            return _attempt(claim, verdict)
        if asked.refuse:
            client.end(claim.token, claim.operation(RELEASE))  # it may have been made all the same
        else:
            client.follow(claim)
        return self._without(asked, Attempt(claim), reason)

    async def reported(self, attempt: Attempt) -> None:
        """Wait until Redis knows how the attempt ended: a repeat then gets this answer."""
        if attempt.request is not None and self._client is not None:
            await self._client.reported(attempt.request.token)

    def _without(self, asked: KeyedRequest, attempt: Attempt, reason: str) -> Attempt:
        self._meter.identity_bypassed(reason, 1)
        if asked.refuse:
            raise Refused(NO_REDIS)
        attempt.bypassed = True
        return attempt


async def _fingerprint(asked: KeyedRequest) -> bytes:
    if len(asked.body) <= _AT_ONCE_BYTES:
        return request_fingerprint(asked.route, asked.headers, asked.body)
    return await asyncio.to_thread(request_fingerprint, asked.route, asked.headers, asked.body)


async def _verdict(client: IdentityClient, claim: Claim) -> tuple[ClaimVerdict | None, str]:
    """The verdict, or why there is none."""
    future: asyncio.Future[tuple[ClaimVerdict | None, str]] = (
        asyncio.get_running_loop().create_future()
    )

    def go_on(verdicts: Verdicts, reason: str) -> None:
        if not future.done():
            future.set_result((verdicts.get(claim.token), reason))

    client.ask(iter([Sized(claim, 0)]), go_on)
    return await future


def _attempt(claim: Claim, verdict: ClaimVerdict) -> Attempt:
    if verdict.state is ClaimState.RUNNING:
        raise Refused(CONFLICT)
    if verdict.state is ClaimState.MISMATCH:
        raise Refused(key_mismatch())
    attempt = Attempt(claim if verdict.state is ClaimState.CLAIMED else None)
    attempt.known = remembered.unpack(verdict.remembered)
    return attempt
