"""Decoding of a request's body into events by content type, independent of topics."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from headgate.core.event import Decoded, RawEvent
from headgate.core.formats import cloudevents, envelope
from headgate.core.formats.jsontext import elements, is_crowd
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed
from headgate.core.request import is_array_one_event, is_tombstone

Headers = Mapping[bytes, bytes]  # a request's headers, names in lower case

JSON = b"application/json"
_MAX_EVENTS = 1_000_000  # the largest http.batch_max_events
_LINE = re.compile(rb"\S[^\n]*")  # from a line's first character to its end
_BOM: Final = b"\xef\xbb\xbf"


class BodyKind(Enum):
    """Format of a body, which decides its division into events."""

    JSON = "json"
    JSON_ONE = "json_one"  # any other +json: always one event
    NDJSON = "ndjson"
    CLOUDEVENT = "cloudevent"
    CLOUDEVENTS = "cloudevents"
    ENVELOPE = "envelope"
    OPAQUE = "opaque"


_KINDS: Final = {
    b"application/json": BodyKind.JSON,
    b"text/json": BodyKind.JSON,
    b"application/x-ndjson": BodyKind.NDJSON,
    b"application/ndjson": BodyKind.NDJSON,
    b"application/cloudevents+json": BodyKind.CLOUDEVENT,
    b"application/cloudevents-batch+json": BodyKind.CLOUDEVENTS,
    envelope.TYPE: BodyKind.ENVELOPE,
}


def kind_of(content_type: bytes) -> BodyKind:
    """Return the format that a Content-Type names; parameters such as charset are ignored."""
    kind = _KINDS.get(content_type)  # the usual spelling
    if kind is not None:
        return kind
    media_type = content_type.partition(b";")[0].strip().lower()
    kind = _KINDS.get(media_type)
    if kind is not None:
        return kind
    return BodyKind.JSON_ONE if media_type.endswith(b"+json") else BodyKind.OPAQUE


def is_json(content_type: bytes | None) -> bool:
    """Return whether data of this type is JSON, which is the default of CloudEvents."""
    if content_type is None:
        return True
    return kind_of(content_type) in (BodyKind.JSON, BodyKind.JSON_ONE)


def decode(
    body: bytes, headers: Headers, structured: bool = False, limit: int = _MAX_EVENTS
) -> Decoded:
    """Cut a body into events, each value the exact slice that the producer sent.

    JSON documents are cut but not validated: the topic's KeyReader validates them when it reads the
    key.

    Args:
        body: The body of the request.
        headers: The headers of the request, names in lower case.
        structured: Whether to keep CloudEvents as JSON instead of Kafka's binary mode.
        limit: Maximum number of events. A body with many more is refused before it is cut,
            because each slice costs about 100 bytes and may be only two bytes long.

    Raises:
        Refused: The request as a whole is malformed.
    """
    content_type = headers.get(b"content-type", b"application/octet-stream")
    if b"headgate-tombstone" in headers and is_tombstone(headers):
        return Decoded([_tombstone(body, headers)], False)
    if b"ce-specversion" in headers:
        return Decoded([cloudevents.from_headers(body, headers, structured)], False)
    kind = kind_of(content_type)
    if kind is BodyKind.OPAQUE:
        return Decoded([RawEvent(body, None, content_type=content_type)], False)
    if not body:
        raise Refused(malformed("the body is empty"))
    if body.startswith(_BOM):
        raise Refused(malformed("the body begins with a byte order mark"))
    if kind is BodyKind.NDJSON:
        return Decoded(_lines(body, limit), True)
    if kind is BodyKind.JSON and (
        b"headgate-batch" not in headers or not is_array_one_event(headers)
    ):
        if body.lstrip(b" \t\r\n").startswith(b"["):
            return Decoded(_elements(body, limit), True)
        return Decoded([_utf8(body)], False)
    if kind is BodyKind.CLOUDEVENT:
        return Decoded([cloudevents.from_json(_utf8(body), structured)], False)
    if kind is BodyKind.CLOUDEVENTS:
        _refuse_crowd(body, limit)
        return Decoded([*cloudevents.batch(_utf8(body), structured)], True)
    if kind is BodyKind.ENVELOPE:
        return Decoded([*envelope.read_envelope(body, limit)], True)
    if kind is BodyKind.JSON:
        return Decoded([_utf8(body)], False)
    return Decoded([RawEvent(_utf8(body), body, content_type=content_type)], False)


def _tombstone(body: bytes, headers: Headers) -> RawEvent:
    if body:
        raise Refused(malformed("a tombstone must have an empty body: this body would be lost"))
    if b"ce-specversion" in headers:
        return cloudevents.from_headers(body, headers, False)._replace(value=None)
    return RawEvent(None, None, content_type=headers.get(b"content-type"))


def _utf8(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise Refused(malformed(f"invalid UTF-8 at byte {error.start}")) from None
    return text


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(body: bytes, limit: int) -> list[bytes | RawEvent | Failure]:
    texts = body.split(b"\n", limit + 1)
    if len(texts) > limit + 1:
        texts = _few_lines(body, limit)
    else:
        texts = [line for line in texts if line and not line.isspace()]
    if b"\r" in body:
        texts = [line.removesuffix(b"\r") for line in texts]
    return _documents(texts, _is_utf8(body))


def _few_lines(body: bytes, limit: int) -> list[bytes]:
    """Return the lines that are not blank, without a slice for blank ones. Raises Refused."""
    texts: list[bytes] = []
    for line in _LINE.finditer(body):
        if len(texts) == limit:
            raise _too_many(limit)
        texts.append(body[body.rfind(b"\n", 0, line.start()) + 1 : line.end()])
    return texts


def _refuse_crowd(body: bytes, limit: int) -> None:
    if is_crowd(body, limit):
        raise _too_many(limit)


def _too_many(limit: int) -> Refused:
    detail = f"more than http.batch_max_events = {limit} events in one request"
    return Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))


def _elements(body: bytes, limit: int) -> list[bytes | RawEvent | Failure]:
    _refuse_crowd(body, limit)
    return _documents(elements(body), _is_utf8(body))


def _documents(texts: list[bytes], checked: bool) -> list[bytes | RawEvent | Failure]:
    """Return documents, and failures for those that are not UTF-8.

    Args:
        texts: The slices of the body.
        checked: Whether the whole body is UTF-8; then its slices at ASCII characters are, too.
    """
    if checked:
        return [*texts]
    documents: list[bytes | RawEvent | Failure] = []
    for text in texts:
        try:
            documents.append(_utf8(text))
        except Refused as refused:
            documents.append(refused.failure)
    return documents


# ---- Hints for refused bodies

_HINTED = frozenset((Reason.MALFORMED, Reason.MISSING_KEY, Reason.INVALID_KEY))
_HEAD_BYTES = 4096
_TYPE_SHOWN_BYTES = 60
_ENVELOPE = re.compile(rb'\s*\{\s*"events"\s*:\s*\[')
_CLOUDEVENT = re.compile(rb'\s*\{[^\[{]*"specversion"\s*:')
_LINES = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_JSON_LIKE = re.compile(rb'\s*[\[{"]')


def with_hint(failure: Failure, headers: Mapping[bytes, bytes], body: bytes) -> Failure:
    """Return the failure with a hint about the likely format of the body."""
    if failure.reason not in _HINTED or b"ce-specversion" in headers:
        return failure
    hint = _hint(headers.get(b"content-type"), body[:_HEAD_BYTES])
    return failure if hint is None else failure._replace(detail=f"{failure.detail}. {hint}")


def _hint(content_type: bytes | None, head: bytes) -> str | None:
    kind = BodyKind.OPAQUE if content_type is None else kind_of(content_type)
    wanted = _wanted(kind, head)
    if kind is BodyKind.OPAQUE:
        return f"{_received(content_type)}: send Content-Type: {wanted or 'application/json'}"
    if wanted is None:
        return None
    return f"The body looks like another type: send Content-Type: {wanted}"


def _received(content_type: bytes | None) -> str:
    if content_type is None:
        return "Without a Content-Type the body is opaque bytes, and no key is looked for in it"
    shown = content_type[:_TYPE_SHOWN_BYTES].decode("ascii", "replace")
    return f"A body of Content-Type {shown!r} is opaque bytes, and no key is looked for in it"


def _wanted(kind: BodyKind, head: bytes) -> str | None:
    """Return the Content-Type of the body's likely format, if it differs."""
    if kind is not BodyKind.ENVELOPE and _ENVELOPE.match(head):
        return "application/vnd.headgate.batch+json"
    if kind not in (BodyKind.CLOUDEVENT, BodyKind.CLOUDEVENTS) and _CLOUDEVENT.match(head):
        return "application/cloudevents+json"
    if kind is not BodyKind.NDJSON and _LINES.match(head):
        return "application/x-ndjson"
    if kind is BodyKind.NDJSON and head.lstrip()[:1] == b"[":
        return "application/json"
    return "application/json" if kind is BodyKind.OPAQUE and _JSON_LIKE.match(head) else None
