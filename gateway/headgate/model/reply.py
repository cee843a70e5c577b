"""Conversion of outcomes to HTTP responses: status and JSON, without an HTTP library.

A reply (`Reply`) is the status, headers and body of a response as plain data, made here. A response
is the object of the HTTP library for a reply (`http.answer.response_to`). An event is answered once
it has its outcome (`Ticket.answered`).
"""

from collections.abc import Sequence
from typing import Final, cast

import orjson

from headgate.model.outcome import TRAITS, Failure, Outcome, OutcomeName, Reason
from headgate.model.publish import Ticket
from headgate.model.text import escaped
from headgate.model.topics import quota_policy
from headgate.native import plain_answers
from headgate.native.chosen import shown
from headgate.native.plain_answers import key_text, quoted, shortened, shown_key

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"


class Reply:
    """A response: status, content type, extra headers, body bytes."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self, status: int, content_type: str, headers: tuple[tuple[str, str], ...], body: bytes
    ) -> None:
        self.status: Final = status
        self.content_type: Final = content_type
        self.headers: Final = headers
        self.body: Final = body

    def with_headers(self, headers: tuple[tuple[str, str], ...]) -> "Reply":
        return Reply(self.status, self.content_type, self.headers + headers, self.body)


# No response has `superseded`: a held event ends so after its response.
SUCCESS_STATUS: Final = {
    OutcomeName.PUBLISHED: 201,
    OutcomeName.UNCHANGED: 200,
    OutcomeName.DUPLICATE: 200,
    OutcomeName.HELD: 202,
    OutcomeName.SPOOLED: 202,
}


def reply(
    topic: str, outcomes: Sequence[Outcome], is_batch: bool, minimal: bool, request_id: str
) -> Reply:
    """Return the response to a request whose events have all ended.

    Args:
        topic: The name of the topic.
        outcomes: The outcomes of the events.
        is_batch: Whether the request was a batch.
        minimal: Whether to return only the summary and the failed events of a batch
            (`Prefer: return=minimal`).
        request_id: The id of the request.
    """
    if is_batch:
        return _batch(topic, outcomes, minimal)
    outcome = outcomes[0]
    if outcome.failure is not None:
        return problem(outcome.failure, request_id, _event(outcome))
    body = _shown(_HEADS[outcome.name] + quoted(topic), outcome).encode()
    return Reply(SUCCESS_STATUS[outcome.name], JSON, (), body)


def reply_of(ticket: Ticket) -> Reply:
    """Return the response to a ticket that is done."""
    outcomes = cast(list[Outcome], ticket.outcomes)  # none is open
    return reply(ticket.topic, outcomes, ticket.is_batch, ticket.minimal, ticket.request_id)


def problem(failure: Failure, request_id: str, extra: dict[str, object] | None = None) -> Reply:
    """Return a problem document (RFC 9457) for a request that failed as a whole."""
    traits = TRAITS[failure.reason]
    document: dict[str, object] = {
        "type": f"/problems/{failure.reason}",
        "title": traits.title,
        "status": traits.status,
        "detail": failure.detail,
        "instance": request_id,
        "reason": failure.reason,
        "retryable": traits.retryable,
        **(failure.figures or {}),
        **(extra or {}),
    }
    return Reply(traits.status, PROBLEM, advice_headers(failure), json_text(document).encode())


def json_text(document: object) -> str:
    """Return JSON without control characters, safe for terminals; all responses use it."""
    return escaped(orjson.dumps(document).decode())


def shown_text(text: str) -> str:
    """Shorten a text from a request for a response."""
    return shortened(text)


def advice_headers(failure: Failure) -> tuple[tuple[str, str], ...]:
    """Return the headers about retries and authentication."""
    return (*retry_after([failure]), *_rate_limit(failure), *_challenge(failure))


def _rate_limit(failure: Failure) -> tuple[tuple[str, str], ...]:
    """Return RateLimit and RateLimit-Policy (draft-ietf-httpapi-ratelimit-headers-10)."""
    if failure.reason is not Reason.QUOTA_EXCEEDED or failure.figures is None:
        return ()
    if "quota" not in failure.figures:  # a quota of the control plane, which has no rate
        return ()
    name, per_second = str(failure.figures["quota"]), failure.figures["limit_per_s"]
    return (
        ("RateLimit", f'"{name}";r={failure.figures["remaining"]};t={failure.retry_after_s}'),
        ("RateLimit-Policy", quota_policy(name, int(float(str(per_second))))),
    )


def _challenge(failure: Failure) -> tuple[tuple[str, str], ...]:
    """Return WWW-Authenticate, which a 401 must have (RFC 9110, 15.5.2)."""
    if failure.reason is not Reason.UNAUTHENTICATED:
        return ()
    return (("WWW-Authenticate", 'Bearer realm="headgate"'),)


def retry_after(failures: Sequence[Failure]) -> tuple[tuple[str, str], ...]:
    """Return Retry-After with the longest wait of the failures."""
    waits = [failure.retry_after_s for failure in failures if failure.retry_after_s is not None]
    return (("Retry-After", str(max(waits))),) if waits else ()


def _event(outcome: Outcome) -> dict[str, object]:
    """Return the members that identify a failed event to its producer."""
    about: dict[str, object] = {}
    if outcome.key is not None:
        name, text = shown_key(outcome.key)
        about[name] = text
    if outcome.event_id is not None:
        about["event_id"] = shortened(outcome.event_id)
    return about


# Reading an Enum's value for each event costs too much.
_HEADS: Final = {name: f'{{"outcome":"{name.value}","topic":' for name in OutcomeName}


def _shown(head: str, outcome: Outcome) -> str:
    """Return the JSON text of a successful event; `head` is its beginning, with the topic."""
    partition, offset, records = outcome.partition, outcome.offset, outcome.records
    key, event_id = outcome.key, outcome.event_id
    if partition < 0:  # held, or equal to a held event: it has no position in the topic yet
        own_id = "" if event_id is None else f',"event_id":{quoted(shortened(event_id))}'
        return f"{head}{key_text(key)}{own_id}}}"
    text = shown(head, partition, offset, key, event_id, records)
    if text is None:
        text = plain_answers.shown(head, partition, offset, key, event_id, records)
    if outcome.oversize is None:
        return text
    return f'{text[:-1]},"oversize":{quoted(outcome.oversize)}}}'


def _failed(outcome: Outcome, failure: Failure) -> dict[str, object]:
    traits = TRAITS[failure.reason]
    return {
        "outcome": outcome.name,
        "reason": failure.reason,
        "status": traits.status,
        "detail": failure.detail,
        "retryable": traits.retryable,
        **(failure.figures or {}),
        **_event(outcome),
    }


def _batch(topic: str, outcomes: Sequence[Outcome], minimal: bool) -> Reply:
    summary: dict[str, int] = {}
    failures: list[Failure] = []
    texts: list[str] = []
    name, head, since = None, "", 0  # most events of a batch have the outcome of the previous one
    for index, outcome in enumerate(outcomes):
        if outcome.name is not name:
            if name is not None:
                summary[name.value] = summary.get(name.value, 0) + index - since
            name, since = outcome.name, index
            head = _HEADS[name] + quoted(topic)
        if outcome.failure is not None:
            failures.append(outcome.failure)
            entry = _failed(outcome, outcome.failure)
            texts.append(json_text({"index": index, **entry} if minimal else entry))
        elif not minimal:
            texts.append(_shown(head, outcome))
    if name is not None:
        summary[name.value] = summary.get(name.value, 0) + len(outcomes) - since
    body = f'{{"summary":{orjson.dumps(summary).decode()},"outcomes":[{",".join(texts)}]}}'
    return Reply(_batch_status(len(outcomes), failures), JSON, retry_after(failures), body.encode())


def _batch_status(events: int, failures: Sequence[Failure]) -> int:
    """Return 200 if all events succeeded, 207 if some did, else the highest failure status."""
    if not failures:
        return 200
    if len(failures) < events:
        return 207
    return max(TRAITS[failure.reason].status for failure in failures)
