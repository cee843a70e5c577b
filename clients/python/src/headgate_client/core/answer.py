"""Reads the gateway's response.

The result is one of three: an outcome for each event, a refusal of the whole request, or nothing.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TypeAlias

from headgate_client.core.header_text import Hide
from headgate_client.outcomes import (
    Duplicate,
    Figures,
    Held,
    Key,
    LargePath,
    Outcome,
    Published,
    Rejected,
    Spooled,
    Unchanged,
    Unknown,
    Violation,
)

NEW_OUTCOME = "bad_answer"  # reason of an outcome that this version does not know
_Good: TypeAlias = Published | Unchanged | Duplicate | Held | Spooled
_KINDS: tuple[type[_Good], ...] = (Published, Unchanged, Duplicate, Held, Spooled)
_ENDED_WELL: dict[object, type[_Good]] = {kind.name: kind for kind in _KINDS}
_TEMPORARY = (408, 425, 429)  # statuses of proxies that may pass
_SHOWN = 200  # characters of a body
_READ = 10_000  # bytes in which secrets are hidden before that
# How a gateway ends the detail of a missing key: with the header that gives one.
_KEY_HEADERS = (". The header Headgate-Key can also give the key", ": send Headgate-Key")


@dataclass(frozen=True, slots=True)
class Ended:
    """The gateway returned an outcome for each event.

    bypassed: the gateway could not check the Idempotency-Key.
    """

    outcomes: list[Outcome]
    bypassed: bool = False
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Refused:
    """The request failed as a whole. This attempt wrote nothing.

    figures: fields of `Rejected` beside these.  key: record key, if the response names it.
    """

    reason: str
    detail: str
    retryable: bool
    status: int | None
    retry_after_s: float = 0.0
    figures: Figures = field(default_factory=Figures)
    key: Key = None


@dataclass(frozen=True, slots=True)
class Lost:
    """No usable response: the events may or may not be written.

    was_sent: False if no byte was sent.  reason: `unknown` if the gateway returned that,
    `unreachable` if there was no connection.
    is_unknown_host: the name of the host does not resolve.
    is_final: another attempt would fail in the same way.
    """

    detail: str
    was_sent: bool = True
    reason: str = "no_answer"
    status: int | None = None
    retry_after_s: float = 0.0
    is_unknown_host: bool = False
    is_final: bool = False
    request_id: str | None = None


Answer: TypeAlias = Ended | Refused | Lost


def read_answer(
    topic: str,
    expected: int,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    now_s: float,
    hide: Hide = str,
) -> Answer:
    """Read the response to a request with `expected` events.

    headers: names in any case.  now_s: seconds since 1970.  hide: removes secrets from a text.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    wait_s = retry_after(fields.get("retry-after"), now_s)
    request_id = fields.get("x-request-id")
    document = _document(body)
    if document is None:
        return _foreign(status, hide(body[:_READ].decode(errors="replace")), wait_s, request_id)
    bypassed = "idempotency-bypassed" in fields
    outcomes = document.get("outcomes")
    if isinstance(outcomes, list):
        if len(outcomes) != expected or not all(isinstance(outcome, dict) for outcome in outcomes):
            detail = f"{counted(len(outcomes), 'outcome')} for {counted(expected, 'event')}"
            return Lost(detail, status=status, request_id=request_id)
        ended = [outcome_of(topic, outcome, request_id, hide) for outcome in outcomes]
        return Ended(ended, bypassed, wait_s)
    if "outcome" in document and expected == 1:
        return Ended([outcome_of(topic, document, request_id, hide)], bypassed, wait_s)
    reason = document.get("reason")
    if not isinstance(reason, str):
        return _foreign(status, hide(body[:_READ].decode(errors="replace")), wait_s, request_id)
    failure = outcome_of(topic, {"outcome": "rejected", **document}, request_id, hide)
    if expected == 1 and "event_id" in document:  # of the event, and not of the request
        return Ended([failure], bypassed, wait_s)
    if isinstance(failure, Rejected):
        figures = _figures(document, request_id)
        return Refused(
            reason, failure.detail, failure.retryable, status, wait_s, figures, failure.key
        )
    detail = hide(str(document.get("detail", "")))
    return Lost(detail, True, reason, status, wait_s, request_id=request_id)


def outcome_of(
    topic: str, fields: Mapping[str, object], request_id: str | None = None, hide: Hide = str
) -> Outcome:
    """Read the outcome of one event."""
    name, key, event_id = fields.get("outcome"), _key(fields), _text(fields.get("event_id"))
    kind = _ENDED_WELL.get(name)
    if kind is not None:
        partition, offset, records = (
            fields.get("partition"),
            fields.get("offset"),
            fields.get("records"),
        )
        return kind(
            topic=topic,
            key=key,
            event_id=event_id,
            partition=partition if isinstance(partition, int) else None,
            offset=offset if isinstance(offset, int) else None,
            records=records if isinstance(records, int) else 0,
            oversize=_text(fields.get("oversize")),
        )
    reason, detail = str(fields.get("reason", "bad_answer")), hide(str(fields.get("detail", "")))
    detail = _with_fix(reason, detail)
    status = fields.get("status")
    status = status if isinstance(status, int) else None
    if name not in ("rejected", "unknown"):
        reason = NEW_OUTCOME
        detail = (
            f"this version of the client does not know the outcome {name!r}, so the event "
            "may be written: update headgate-client"
        )
    if name != "rejected" or reason == "unknown":
        return Unknown(
            topic=topic,
            reason=reason,
            detail=detail,
            status=status,
            key=key,
            event_id=event_id,
            request_id=request_id,
        )
    return Rejected(
        topic=topic,
        reason=reason,
        detail=detail,
        retryable=fields.get("retryable") is True,
        status=status,
        key=key,
        event_id=event_id,
        **_figures(fields, request_id),
    )


def _with_fix(reason: str, detail: str) -> str:
    """Return a detail that names the argument of this library: a gateway names headers."""
    if reason == "missing_key":
        for header in _KEY_HEADERS:
            detail = detail.removesuffix(header)
        return f"{detail}; send the event with key=..."
    is_token_missing = reason == "unauthenticated" and "Authorization: Bearer" in detail
    return f"{detail} (in the Python client: Client(token=...))" if is_token_missing else detail


def _figures(fields: Mapping[str, object], request_id: str | None) -> Figures:
    """Return the fields of `Rejected` that few answers have."""
    figures = Figures()
    if request_id is not None:
        figures["request_id"] = request_id
    if isinstance(size := fields.get("size_bytes"), int):
        figures["size_bytes"] = size
    if isinstance(limit := fields.get("limit_bytes"), int):
        figures["limit_bytes"] = limit
    if isinstance(paths := fields.get("largest_paths"), list):
        figures["largest_paths"] = tuple(
            LargePath(str(path.get("path", "")), int(path.get("bytes", 0)))
            for path in paths
            if isinstance(path, dict)
        )
    if isinstance(violations := fields.get("violations"), list):
        figures["violations"] = tuple(
            Violation(*(str(violation.get(name, "")) for name in ("path", "schema_path", "detail")))
            for violation in violations
            if isinstance(violation, dict)
        )
    return figures


def retry_after(value: str | None, now_s: float) -> float:
    """Return the seconds of a Retry-After, which has seconds or a date; else 0."""
    if value is None:
        return 0.0
    if value.strip().isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
    except (TypeError, ValueError):
        return 0.0


def _document(body: bytes) -> dict[str, object] | None:
    try:
        fields = json.loads(body)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def _foreign(status: int, text: str, wait_s: float, request_id: str | None) -> Answer:
    """Return the answer for a response of a proxy or another server. text: how its body begins."""
    detail = f"status {status}, not a response of Headgate: {text[:_SHOWN]!r}"
    if status >= 500 or 200 <= status < 300:
        return Lost(detail, status=status, retry_after_s=wait_s, request_id=request_id)
    figures = _figures({}, request_id)
    return Refused("bad_answer", detail, status in _TEMPORARY, status, wait_s, figures)


def _key(fields: Mapping[str, object]) -> Key:
    encoded = fields.get("key_base64")
    return base64.b64decode(encoded) if isinstance(encoded, str) else _text(fields.get("key"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def counted(number: int, noun: str) -> str:
    """Return `1 event`, `2 events`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
