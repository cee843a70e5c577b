"""From a request's bytes to its events, by content type. Nothing here knows a topic."""

from collections.abc import Mapping
from enum import Enum

from headgate.core import cloudevents
from headgate.core.event import Decoded, RawEvent, Refused
from headgate.core.jsontext import elements, malformed
from headgate.core.outcome import Failure
from headgate.core.request import is_tombstone

Headers = Mapping[bytes, bytes]  # a request's headers, names in lower case

JSON = b"application/json"
_BOM = b"\xef\xbb\xbf"


class Kind(Enum):
    """How a body is cut into events."""

    JSON = "json"
    JSON_ONE = "json_one"  # any other +json: always one event
    NDJSON = "ndjson"
    CLOUDEVENT = "cloudevent"
    CLOUDEVENTS = "cloudevents"
    OPAQUE = "opaque"


_ENVELOPE = b"application/vnd.headgate.batch+json"  # reserved: never one opaque JSON document
_KINDS = {
    b"application/json": Kind.JSON,
    b"text/json": Kind.JSON,
    b"application/x-ndjson": Kind.NDJSON,
    b"application/ndjson": Kind.NDJSON,
    b"application/cloudevents+json": Kind.CLOUDEVENT,
    b"application/cloudevents-batch+json": Kind.CLOUDEVENTS,
}


def kind_of(content_type: bytes) -> Kind:
    """The kind of body that a Content-Type header names; parameters such as charset are ignored."""
    known = _KINDS.get(content_type)  # as most producers write it
    if known is not None:
        return known
    media_type = content_type.partition(b";")[0].strip().lower()
    known = _KINDS.get(media_type)
    if known is not None:
        return known
    if media_type == _ENVELOPE:
        raise Refused(malformed(f"{_ENVELOPE.decode()} is not available in this version"))
    return Kind.JSON_ONE if media_type.endswith(b"+json") else Kind.OPAQUE


def is_json(content_type: bytes | None) -> bool:
    """Whether key pointers may look into data of this type (CloudEvents: JSON if not named)."""
    if content_type is None:
        return True
    return kind_of(content_type) in (Kind.JSON, Kind.JSON_ONE)


def decode(body: bytes, headers: Headers, structured: bool = False) -> Decoded:
    """Cut a body into events, each value the exact slice that the producer sent.

    structured: keep CloudEvents as JSON documents instead of Kafka's binary mode.
    Raises Refused when the request as a whole is malformed. JSON documents are cut, not yet
    validated: the topic's KeyReader does that together with reading the key.
    """
    content_type = headers.get(b"content-type", b"application/octet-stream")
    if b"headgate-tombstone" in headers and is_tombstone(headers):
        return Decoded([_tombstone(body, headers)], False)
    if b"ce-specversion" in headers:
        return Decoded([cloudevents.from_headers(body, headers, structured)], False)
    kind = kind_of(content_type)
    if kind is Kind.OPAQUE:
        return Decoded([RawEvent(body, None, content_type=content_type)], False)
    if not body:
        raise Refused(malformed("the body is empty"))
    if body.startswith(_BOM):
        raise Refused(malformed("the body begins with a byte order mark"))
    if kind is Kind.NDJSON:
        return Decoded(_lines(body), True)
    if kind is Kind.JSON and headers.get(b"headgate-batch", b"").lower() != b"false":
        if body.lstrip(b" \t\r\n").startswith(b"["):
            return Decoded(_elements(body), True)
        return Decoded([_utf8(body)], False)
    if kind is Kind.CLOUDEVENT:
        return Decoded([cloudevents.from_json(_utf8(body), structured)], False)
    if kind is Kind.CLOUDEVENTS:
        return Decoded([*cloudevents.batch(_utf8(body), structured)], True)
    if kind is Kind.JSON:
        return Decoded([_utf8(body)], False)
    return Decoded([RawEvent(_utf8(body), body, content_type=content_type)], False)


def _tombstone(body: bytes, headers: Headers) -> RawEvent:
    if body:
        raise Refused(malformed("a tombstone has an empty body: nothing of this one would be kept"))
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


def _lines(body: bytes) -> list[bytes | RawEvent | Failure]:
    texts = [line for line in body.split(b"\n") if line and not line.isspace()]
    if b"\r" in body:
        texts = [line.removesuffix(b"\r") for line in texts]
    return _documents(texts, _is_utf8(body))


def _elements(body: bytes) -> list[bytes | RawEvent | Failure]:
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
