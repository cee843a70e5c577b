"""From a request's bytes to its events, by content type. Nothing here knows a topic."""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final

from headgate.core.event import Decoded, RawEvent
from headgate.core.formats import cloudevents, envelope
from headgate.core.formats.jsontext import elements, is_crowd
from headgate.core.http.request import is_array_one_event, is_tombstone
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed

Headers = Mapping[bytes, bytes]  # a request's headers, names in lower case

JSON = b"application/json"
_MAX_EVENTS = 1_000_000  # the largest http.batch_max_events
_LINE = re.compile(rb"\S[^\n]*")  # from a line's first sign to its end
_BOM: Final = b"\xef\xbb\xbf"


class BodyKind(Enum):
    """How a body is cut into events."""

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
    """The kind of body that a Content-Type header names; parameters such as charset are ignored."""
    known = _KINDS.get(content_type)  # as most producers write it
    if known is not None:
        return known
    media_type = content_type.partition(b";")[0].strip().lower()
    known = _KINDS.get(media_type)
    if known is not None:
        return known
    return BodyKind.JSON_ONE if media_type.endswith(b"+json") else BodyKind.OPAQUE


def is_json(content_type: bytes | None) -> bool:
    """Whether key pointers may look into data of this type (CloudEvents: JSON if not named)."""
    if content_type is None:
        return True
    return kind_of(content_type) in (BodyKind.JSON, BodyKind.JSON_ONE)


def decode(
    body: bytes, headers: Headers, structured: bool = False, limit: int = _MAX_EVENTS
) -> Decoded:
    """Cut a body into events, each value the exact slice that the producer sent.

    structured: keep CloudEvents as JSON documents instead of Kafka's binary mode.
    limit: events that the caller will take; a body with very many more is refused before it is
    cut, because each slice costs some 100 bytes of memory and the body may hold one in two bytes.
    Raises Refused when the request as a whole is malformed. JSON documents are cut, not yet
    validated: the topic's KeyReader does that together with reading the key.
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
    """The lines that are not blank, without a slice for each blank one. Raises Refused."""
    texts: list[bytes] = []
    for found in _LINE.finditer(body):
        if len(texts) == limit:
            raise _too_many(limit)
        texts.append(body[body.rfind(b"\n", 0, found.start()) + 1 : found.end()])
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
    """checked: the whole body is known to be UTF-8, so its slices at ASCII signs are, too."""
    if checked:
        return [*texts]
    found: list[bytes | RawEvent | Failure] = []
    for text in texts:
        try:
            found.append(_utf8(text))
        except Refused as refused:
            found.append(refused.failure)
    return found
