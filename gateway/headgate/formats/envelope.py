"""The envelope `application/vnd.headgate.batch+json`: a batch of events with attributes.

    {"events": [{"key" | "key_base64", "value" | "value_base64" | "tombstone": true,
                 "id", "headers": {name: value}, "timestamp_ms"}, ...]}

A value is the exact slice of the body. Unknown members are refused, so that a misspelt member is
not silently ignored. A Failure replaces an invalid event. A member that is null counts as absent.
A null `value` counts as absent only next to another form of the value; alone it is the document
`null`.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Annotated

import msgspec

from headgate.formats.json_text import ABSENT, StructReader, elements, is_crowd
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.model.publish import RawEvent
from headgate.model.record import CONTENT_TYPE, Header
from headgate.model.request import HeaderCount, is_own

TYPE: bytes = b"application/vnd.headgate.batch+json"

_JSON = b"application/json"
_NULL = b"null"
_CROWD = 250_000  # commas; below it, counting the events first gains nothing
_NAME = re.compile(r"[\x21-\x7e]{1,256}")
_ID_BYTES = 256
_LATEST_MS = 999_999_999_999_999  # as Headgate-Timestamp: 15 digits


class _Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    key: str | None = None
    key_base64: str | None = None
    value: msgspec.Raw = ABSENT
    value_base64: str | None = None
    tombstone: bool | None = None
    id: str | None = None
    headers: dict[str, str | None] | None = None
    timestamp_ms: Annotated[int, msgspec.Meta(ge=0, le=_LATEST_MS)] | None = None


class _Envelope(msgspec.Struct, forbid_unknown_fields=True):
    events: list[_Event]


class _Loose(msgspec.Struct, forbid_unknown_fields=True):
    events: msgspec.Raw


_decode = msgspec.json.Decoder(_Envelope).decode
_decode_loosely = msgspec.json.Decoder(_Loose).decode
_outer = StructReader(_Loose, "the envelope", lists=True)
_single = StructReader(_Event, "the event", lists=True)


def read_envelope(body: bytes, limit: int) -> Sequence[RawEvent | Failure]:
    """Return the events of an envelope.

    They are counted before they are cut, because each slice costs about 200 bytes and may be only
    three bytes long.

    Raises:
        Refused: The body is no envelope, or has more than `limit` events.
    """
    if body.count(b",") > max(limit, _CROWD) and is_crowd(_events(body), limit):
        detail = f"more than http.batch_max_events = {limit} events in one request"
        raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))
    count = HeaderCount()
    try:
        body.decode()
        events = _decode(body).events
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return [_slowly(event, count) for event in elements(_events(body))]
    return [_raw_event(event, count) for event in events]


def _events(body: bytes) -> bytes:
    """Return the text of the array; all errors outside of the events are found here."""
    try:
        text = bytes(_decode_loosely(body).events)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        if body.lstrip(b" \t\r\n")[:1] == b"[":
            raise _no_envelope() from None
        text = bytes(_outer.read(body).events)
    if text[:1] != b"[":
        raise _no_envelope()
    return text


def _no_envelope() -> Refused:
    return Refused(malformed('the envelope: an object {"events": [...]} was expected'))


def _slowly(text: bytes, count: HeaderCount) -> RawEvent | Failure:
    """Parse one event, if the envelope could not be parsed as a whole."""
    try:
        return _raw_event(_single.read(text), count)
    except Refused as refused:
        return refused.failure


def _raw_event(event: _Event, count: HeaderCount) -> RawEvent | Failure:
    try:
        key = None if event.key is None and event.key_base64 is None else _key(event)
        if event.id is not None:
            _check_id(event.id)
        own_type, headers = _headers(event.headers, count) if event.headers else (None, ())
        value, document = _value(event)
    except Refused as refused:
        return refused.failure
    content_type = own_type or (_JSON if document is not None else None)
    return RawEvent(value, document, key, event.id, event.timestamp_ms, content_type, headers)


def _value(event: _Event) -> tuple[bytes | None, bytes | None]:
    """Return the bytes for Kafka, and the JSON text for the key rule if they are JSON."""
    document, tombstone = bytes(event.value), bool(event.tombstone)
    if document == _NULL and (event.value_base64 is not None or tombstone):
        document = b""
    given = bool(document) + (event.value_base64 is not None) + tombstone
    if given != 1:
        detail = "an event has one of value, value_base64 and tombstone: true"
        raise Refused(malformed(f"{detail}; this one has {given or 'none'}"))
    if document:
        return document, document
    if event.value_base64 is None:
        return None, None
    return _bytes("value_base64", event.value_base64), None


def _key(event: _Event) -> bytes:
    if event.key is None:
        key = _bytes("key_base64", event.key_base64 or "")
    elif event.key_base64 is None:
        key = event.key.encode()
    else:
        raise Refused(malformed("an event has key or key_base64, not both"))
    if not key:
        raise Refused(Failure(Reason.MISSING_KEY, "the event's key is empty"))
    return key


def _bytes(name: str, encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Refused(malformed(f"{name} is not base64")) from None


def _check_id(event_id: str) -> None:
    if not 0 < len(event_id.encode()) <= _ID_BYTES:
        raise Refused(malformed(f"an event's id has 1 to {_ID_BYTES} bytes"))


def _headers(
    given: dict[str, str | None], count: HeaderCount
) -> tuple[bytes | None, tuple[Header, ...]]:
    """Return the content type, if there is one, and the other headers without the gateway's."""
    count.take(len(given))
    content_type: bytes | None = None
    others: list[Header] = []
    for name, value in given.items():
        if _NAME.fullmatch(name) is None:
            detail = f"header name {brief(name)}: 1 to 256 visible ASCII characters"
            raise Refused(malformed(detail))
        if value is None:
            continue
        if name.lower() == CONTENT_TYPE:
            content_type = value.encode()
        elif not is_own(name):
            others.append((name, value.encode()))
    return content_type, tuple(others)
