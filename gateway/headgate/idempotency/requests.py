"""Requests with an Idempotency-Key: a claim before the start, a response after the report to Redis.

A header of the response shows the result for the key: `Idempotency-Replayed: true` if the whole
response is from memory, `Idempotency-Bypassed: true` if Redis did not answer, so that a repeated
request may be written again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headgate.idempotency.claims import SizedClaim, Verdicts
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
from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Outcome, Refused
from headgate.model.publish import Attempt, Claim
from headgate.model.reply import Reply

EVENTS: Final = b"events"  # endpoint of requests that post events
_AT_ONCE_BYTES: Final = 1_048_576  # the digest of more would block the event loop for milliseconds
_REPLAYED: Final = ("Idempotency-Replayed", "true")
_BYPASSED: Final = ("Idempotency-Bypassed", "true")

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

    def begin(self, keyed: KeyedRequest, begun: Begun) -> None:
        """Claim the request's key.

        A large request is digested on a thread first, so as not to block the event loop.

        Args:
            keyed: The request.
            begun: Called with the attempt, or with the failure: malformed, idempotency_conflict,
                idempotency_mismatch, redis_unavailable. It is called once, at once or when Redis
                has answered, in the order of the requests that need no thread.
        """
        if self._client is None or len(keyed.body) <= _AT_ONCE_BYTES:
            self._claim(keyed, begun)
        else:
            digested = asyncio.get_running_loop().run_in_executor(None, keyed.fingerprint)
            digested.add_done_callback(lambda _: self._claim(keyed, begun))

    def _claim(self, keyed: KeyedRequest, begun: Begun) -> None:
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
        client.ask(iter([SizedClaim(claim, 0)]), decided)

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


def marked(attempt: Attempt, outcomes: Sequence[Outcome | None], reply: Reply) -> Reply:
    """Return the reply with a header about the result for the key."""
    if _is_replay(attempt, outcomes):
        return reply.with_headers((_REPLAYED,))
    return reply.with_headers((_BYPASSED,)) if attempt.bypassed else reply


def _is_replay(attempt: Attempt, outcomes: Sequence[Outcome | None]) -> bool:
    """Return whether earlier attempts provide the whole response."""
    if not attempt.known or len(attempt.known) != len(outcomes):
        return False
    first = outcomes[0]  # a failure if the request was refused as a whole
    return first is not None and first.failure is None
