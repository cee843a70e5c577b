"""The two uses of request identity: Idempotency-Keys of requests, and the ids of events.

A request with a key makes a claim before its start, and gets its response after the report to
Redis. A header of the response shows the result for the key: `Idempotency-Replayed: true` if the
whole response is from memory, `Idempotency-Bypassed: true` if Redis did not answer, so that a
repeated request may be written again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
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
    Names,
    event_fingerprint,
    final_steps,
    id_mismatch,
    key_mismatch,
    names_of_cloudevents,
    names_of_ids,
    names_of_keys,
    read_key,
    step_of,
    unpack_outcomes,
)
from headgate.idempotency.store import NO_REDIS
from headgate.metrics.meter import Meter
from headgate.model.outcome import Failure, Outcome, Refused, rejected
from headgate.model.publish import Attempt, Claim, Publish, Stage, Ticket, content_type_of
from headgate.model.reply import Reply
from headgate.model.route import Route

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


# ---- de-duplication by event id: the step between placing events and reserving them


GoOn = Callable[[list[Publish]], None]


class EventIdentity:
    """De-duplication of events by event id.

    Args:
        client: Client of request identity.
        prefix: Prefix of all names in Redis.
        meter: Counter of events that bypassed identity.
    """

    def __init__(self, client: IdentityClient | ShardedIdentity, prefix: str, meter: Meter) -> None:
        self._client = client
        self._prefix = prefix
        self._meter = meter

    def claim(self, ticket: Ticket, route: Route, started: list[Publish], go_on: GoOn) -> None:
        """Claim the ids of events.

        Events without an id wait with the others, so that each key keeps its order.

        Args:
            ticket: Ticket of the request.
            route: Route of the topic.
            started: The events.
            go_on: Called with the events to publish, in order.
        """
        client = self._client.of(route.state.topic_id)
        if client.is_idle and all(publish.event_id is None for publish in started):
            go_on(started)
            return
        attempt = ticket.attempt = ticket.attempt or Attempt()
        claims = self._claims(attempt, route, started, client)
        client.ask(claims, partial(self._decided, attempt, route, started, go_on))

    def _claims(
        self, attempt: Attempt, route: Route, started: list[Publish], client: IdentityClient
    ) -> Iterator[SizedClaim]:
        """Yield the claims one by one, so that digests never block the event loop for long."""
        first_of: dict[bytes, tuple[int, bytes]] = {}
        keep_ms = (route.policy.dedupe_ttl_s or 0) * 1000.0
        names = self._names(route, started)
        for publish in started:
            event_id = publish.event_id
            if event_id is None or publish.dropped:
                continue
            record = publish.record
            source = publish.source
            if source is None:
                name = names.of(event_id.encode())
            else:
                of_source = names_of_cloudevents(self._prefix, route.state.topic_id, source)
                name = of_source.of(event_id.encode())
            content = event_fingerprint(
                record.key, _content(publish), content_type_of(record.headers)
            )
            first = first_of.setdefault(name, (publish.index, content))
            if first == (publish.index, content):
                claim = Claim(name, content, client.new_token(), keep_ms)
                attempt.events[publish.index] = claim
                yield SizedClaim(claim, len(record.value or b""))
            elif first[1] == content:
                attempt.repeats[publish.index] = first[0]
            else:
                _end(publish, rejected(id_mismatch(), record.key, publish.event_id))

    def _names(self, route: Route, started: list[Publish]) -> Names:
        """Return the names of event ids that do not come from CloudEvents."""
        ticket = started[0].ticket
        assert ticket is not None
        return names_of_ids(self._prefix, route.state.topic_id, ticket.producer)

    def _decided(
        self,
        attempt: Attempt,
        route: Route,
        started: list[Publish],
        go_on: GoOn,
        verdicts: Verdicts,
        reason: str,
    ) -> None:
        ticket = started[0].ticket
        assert ticket is not None
        if ticket.done:  # the deadline came first: no event goes on
            self._release(attempt)
            return
        without = 0
        for publish in started:
            if ticket.outcomes[publish.index] is not None:
                continue
            if publish.index in attempt.repeats:
                ticket.leave_to_twin(publish)
                continue
            claim = attempt.events.get(publish.index)
            verdict = verdicts.get(claim.token) if claim is not None else None
            if verdict is not None:
                self._obey(verdict, attempt, publish)
            elif publish.event_id is not None:
                without += 1
                if route.policy.redis_loss == "refuse":
                    _end(publish, rejected(NO_REDIS, publish.record.key, publish.event_id))
        if without:
            self._meter.identity_bypassed(reason or "internal", without)
        go_on([publish for publish in started if publish.stage is Stage.NEW])

    @staticmethod
    def _obey(verdict: ClaimVerdict, attempt: Attempt, publish: Publish) -> None:
        if verdict.state is ClaimState.CLAIMED:
            return
        del attempt.events[publish.index]
        if verdict.state is ClaimState.DONE:
            first = unpack_outcomes(verdict.remembered)[0]
            _end(publish, first.of(first.name, publish.event_id))
        else:
            failure = CONFLICT if verdict.state is ClaimState.RUNNING else id_mismatch()
            _end(publish, rejected(failure, publish.record.key, publish.event_id))

    def ended(self, ticket: Ticket) -> None:
        """Send the ends of a ticket's claims, whose events have all ended."""
        assert ticket.attempt is not None
        for token, operation in final_steps(ticket.attempt, ticket.outcomes):
            self._client.end(token, operation)

    def _release(self, attempt: Attempt) -> None:
        for claim in attempt.events.values():
            self._client.end(claim.token, step_of(claim, RELEASE))


def _content(publish: Publish) -> bytes | None:
    """Return the event's value, or its digest if the value is only in the blob store."""
    if publish.large is None or publish.large.stored is None:
        return publish.record.value
    return publish.large.stored.sha256.encode()


def _end(publish: Publish, outcome: Outcome) -> None:
    """End an event here; the next stage ends its request."""
    assert publish.ticket is not None
    publish.advance(Stage.ENDED)
    publish.ticket.end(publish.index, outcome)
