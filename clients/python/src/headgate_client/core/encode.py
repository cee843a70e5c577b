"""Encodes events as the bytes of a request, and compresses them."""

import gzip
import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import quote

from headgate_client.errors import InvalidEventError, InvalidOptionError
from headgate_client.events import TOMBSTONE, CloudEvent, Event, RawJson
from headgate_client.settings import Compression

Dumps: TypeAlias = Callable[[object], str | bytes]
Form: TypeAlias = Literal["envelope", "cloudevents", "single"]

_CONTENT_TYPES = {
    "envelope": "application/vnd.headgate.batch+json",
    "cloudevents": "application/cloudevents-batch+json",
}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}")
_PLAIN = re.compile(
    r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?"
)  # what a header field carries as it is
_ATTRIBUTE = re.compile(r"[a-z0-9]{1,64}")
_ID_BYTES = 256
_LATEST_MS = 999_999_999_999_999
_GZIP_LEVEL = 6
_NO_JSON = re.compile(r"(?:Object of type|Type is not JSON serializable:) (\w+)")
# Fixes for values that JSON does not have, by the name of their type.
_JSON_FIXES = {
    **dict.fromkeys(("set", "frozenset"), "use a list, such as sorted(value)"),
    **dict.fromkeys(
        ("generator", "map", "filter", "zip", "range", "dict_values", "dict_keys", "dict_items"),
        "use list(value)",
    ),
    **dict.fromkeys(
        ("datetime", "date", "time"),
        "use value.isoformat(), or Client(dumps=lambda value: json.dumps(value, default=str))",
    ),
    **dict.fromkeys(
        ("Decimal", "UUID"),
        "use str(value), or Client(dumps=lambda value: json.dumps(value, default=str))",
    ),
    **dict.fromkeys(
        ("bytes", "bytearray", "memoryview"),
        "bytes can be the whole value, but no part of one: use base64 text",
    ),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_HEADER_BYTES = 4096  # of a request with one event; longer ones go into an envelope
_TRACE = ("traceparent", "tracestate")
_TRACE_FIX = (
    "a record has the trace context of its request, and this request has many events; "
    "use send() of a client, or request_headers"
)
_RECORD_MEMBERS = frozenset(("key", "value", "headers", "partition", "timestamp"))  # of KafkaJS
_OCTETS = "application/octet-stream"
_BYTES = (bytes, bytearray, memoryview)
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_quoted = json.encoder.encode_basestring_ascii


class Part(NamedTuple):
    """One encoded event.

    lane: the ordering key, None if only the gateway knows the record key.  headers: HTTP headers of
    its request; only events that are sent alone have them.
    """

    form: Form
    text: bytes
    event_id: str | None
    lane: bytes | None
    headers: tuple[tuple[str, str], ...] = ()


class Body(NamedTuple):
    """Headers and body of a request."""

    headers: tuple[tuple[str, str], ...]
    content: bytes


def dumps(value: object) -> str:
    """Encode a value as JSON, without spaces. NaN is refused."""
    return _encode(value)


def check_topic(topic: str) -> str:
    """Return the topic if Kafka allows the name. Raises InvalidEventError."""
    if not isinstance(topic, str) or _TOPIC.fullmatch(topic) is None or topic in (".", ".."):
        raise InvalidEventError(
            f"topic {topic!r}: a name has 1 to 249 letters, digits, dots, dashes and underscores"
        )
    return topic


def check_batch(events: Iterable[object]) -> Iterable[object]:
    """Return the events of a batch. Raises InvalidEventError for one event without a list."""
    is_one = isinstance(events, (str, *_BYTES, Mapping))
    if is_one or not isinstance(events, Iterable):
        kind = type(events).__name__
        raise InvalidEventError(
            f"events: use a list, not {kind}; for one event call send() or use [event]"
        )
    return events


def is_pair(event: object) -> bool:
    """Return whether a bare value looks like a record of another library, with a key of its own."""
    if isinstance(event, tuple):
        return len(event) == 2 and isinstance(event[0], (str, bytes, type(None)))
    return (
        isinstance(event, Mapping)
        and len(event) > 1
        and "value" in event
        and _RECORD_MEMBERS.issuperset(event)
    )


def as_event(
    value: object,
    key: str | bytes | None = None,
    id: str | None = None,
    headers: Mapping[str, str] | None = None,
    timestamp: int | datetime | None = None,
) -> Event | CloudEvent:
    """Return the event that the arguments of `send` describe. Raises InvalidEventError."""
    if not isinstance(value, (Event, CloudEvent)):
        return Event(value, key=key, id=id, headers=headers or {}, timestamp=timestamp)
    fields = {"key": key, "id": id, "headers": headers, "timestamp": timestamp}
    for name, field in fields.items():
        if field is not None:
            kind = type(value).__name__
            raise InvalidEventError(f"{name}: the value is {kind}(...); give it {name}= there")
    return value


def encode_part(
    event: Event | CloudEvent, to_json: Dumps, new_id: Callable[[], str] | None
) -> Part:
    """Encode an event as a member of a batch. Raises InvalidEventError."""
    if isinstance(event, CloudEvent):
        return _cloudevent(event, to_json)
    _check_headers(event.headers)
    for name in event.headers:
        if name.lower() in _TRACE:
            raise InvalidEventError(f"headers: {name!r}: {_TRACE_FIX}")
    return _member(event, to_json, new_id)


def _member(event: Event, to_json: Dumps, new_id: Callable[[], str] | None) -> Part:
    event_id = _event_id(event, new_id)
    members = []
    lane = None
    if event.key is not None:
        lane = key_bytes(event.key)
        members.append(_key_member(event.key))
    content_type = event.content_type
    if event.value is TOMBSTONE:
        members.append(b'"tombstone":true')
    elif isinstance(event.value, _BYTES):
        members.append(b'"value_base64":"' + b64encode(event.value) + b'"')
        content_type = content_type or _OCTETS
    else:
        members.append(b'"value":' + _json_text(event.value, to_json))
    if event_id is not None:
        members.append(f'"id":{_quoted(event_id)}'.encode())
    if event.headers or content_type:
        members.append(b'"headers":' + _headers_text(event, content_type))
    if event.timestamp is not None:
        members.append(b'"timestamp_ms":%d' % _timestamp_ms(event.timestamp))
    return Part("envelope", b"{" + b",".join(members) + b"}", event_id, lane)


def encode_alone(
    event: Event | CloudEvent, to_json: Dumps, new_id: Callable[[], str] | None
) -> Part:
    """Encode an event that is sent alone: the body is the value, HTTP headers carry the rest.

    This form costs the gateway least, and a large value goes straight to its blob store.
    """
    if isinstance(event, CloudEvent):
        return _cloudevent(event, to_json)
    _check_headers(event.headers)
    trace, own = _split_trace(event.headers)
    if len(own) < len(event.headers):
        event = replace(event, headers=own)
    if not _fits_headers(event):
        return _member(event, to_json, new_id)._replace(headers=trace)
    event_id = _event_id(event, new_id)
    headers = [*trace]
    lane, text = None, b""
    if event.value is TOMBSTONE:
        headers.append(("Headgate-Tombstone", "true"))
    elif isinstance(event.value, _BYTES):
        text = bytes(event.value)
        headers.append(("Content-Type", event.content_type or _OCTETS))
    else:
        text = _json_text(event.value, to_json)
        headers.append(("Content-Type", "application/json"))
        if text.lstrip()[:1] == b"[":
            headers.append(("Headgate-Batch", "false"))
    if isinstance(event.key, str):
        lane = key_bytes(event.key)
        headers.append(("Headgate-Key*", "UTF-8''" + quote(event.key, safe="")))
    if event_id is not None:
        headers.append(("Headgate-Event-Id", event_id))
    if event.timestamp is not None:
        headers.append(("Headgate-Timestamp", str(_timestamp_ms(event.timestamp))))
    headers += ((f"Headgate-Header-{name}", value) for name, value in event.headers.items())
    return Part("single", text, event_id, lane, tuple(headers))


def body_of(parts: Sequence[Part]) -> Body:
    """Join parts of one form."""
    form = parts[0].form
    if form == "single":
        return Body(parts[0].headers, parts[0].text)
    texts = b",".join([part.text for part in parts])
    content = b"[" + texts + b"]" if form == "cloudevents" else b'{"events":[' + texts + b"]}"
    return Body((("Content-Type", _CONTENT_TYPES[form]), *parts[0].headers), content)


def key_bytes(key: str | bytes, argument: str = "key") -> bytes:
    """Return the key as Kafka has it. argument: the name in an error."""
    if not isinstance(key, (str, bytes)):
        raise InvalidEventError(f"key: use a str or bytes, not {type(key).__name__}; try str(key)")
    if not key:
        raise InvalidEventError("key: it is empty; leave it out to use the topic's key rule")
    return _utf8(argument, key) if isinstance(key, str) else key


def _key_member(key: str | bytes) -> bytes:
    if isinstance(key, str):
        return b'"key":' + _quoted(key).encode()
    return b'"key_base64":"' + b64encode(key) + b'"'


def _event_id(event: Event, new_id: Callable[[], str] | None) -> str | None:
    if event.id is None:
        return new_id() if new_id is not None else None
    if not isinstance(event.id, str):
        raise InvalidEventError(f"id: use a str, not {type(event.id).__name__}; try str(id)")
    if not 0 < len(_utf8("id", event.id)) <= _ID_BYTES:
        raise InvalidEventError(f"id: use a str of 1 to {_ID_BYTES} bytes")
    return event.id


def _json_text(value: object, to_json: Dumps) -> bytes:
    if isinstance(value, RawJson):
        return value.encoded()
    if value is None:
        raise InvalidEventError(
            "value: None could mean two things; use TOMBSTONE to delete the key, "
            "or RawJson(b'null') for the JSON value null"
        )
    try:
        text = to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEventError(
            f"value: it cannot be encoded as JSON ({error}); {_json_fix(error)}"
        ) from error
    if not isinstance(text, (str, bytes)):
        kind = type(text).__name__
        raise InvalidEventError(f"dumps: the function returned {kind}; return a str or bytes")
    return _utf8("value", text) if isinstance(text, str) else text


def _json_fix(error: Exception) -> str:
    """Return the fix for a value that the function of `dumps` does not take."""
    text = str(error)
    if isinstance(error, RecursionError) or "Circular reference" in text:
        return "a value must not contain itself, nor be nested a thousand levels deep"
    if text.startswith("Out of range float"):
        return "JSON has neither NaN nor infinity: use a str, or leave the member out"
    if text.startswith("keys must be"):
        return "use a str for each key"
    named = _NO_JSON.search(text)
    return _JSON_FIXES.get(
        named[1] if named else "",
        "convert it to a dict, list, str or number, such as dataclasses.asdict(value); "
        "or give the client a function that does, Client(dumps=...)",
    )


def _utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidEventError(f"{what}: a lone surrogate cannot be encoded as UTF-8") from None


def _headers_text(event: Event, content_type: str | None) -> bytes:
    headers = dict(event.headers)
    if content_type is not None:
        headers["content-type"] = content_type
    return _utf8("headers", _encode(headers))


def _check_headers(headers: Mapping[str, str]) -> None:
    if not isinstance(headers, Mapping):
        kind = type(headers).__name__
        fix = (
            "{name: text.decode() for name, text in headers}"
            if _has_bytes(headers)
            else "dict(headers)"
        )
        raise InvalidEventError(f"headers: use a dict of str, not {kind}; try {fix}")
    for name, value in headers.items():
        if not isinstance(name, str) or _HEADER_NAME.fullmatch(name) is None:
            raise InvalidEventError(
                f"headers: {name!r} is not a header name; use letters, digits and dashes"
            )
        if name.lower().startswith("hg-"):
            raise InvalidEventError(f"headers: {name!r}: the gateway reserves names with hg-")
        if not isinstance(value, str):
            kind = type(value).__name__
            raise InvalidEventError(f"headers: the value of {name!r} must be a str, not {kind}")


def _has_bytes(headers: object) -> bool:
    """Return whether headers are a list of pairs with bytes, as in other Kafka clients."""
    pairs = headers if isinstance(headers, (list, tuple)) else ()
    return any(isinstance(pair, tuple) and isinstance(pair[-1], bytes) for pair in pairs if pair)


def _timestamp_ms(timestamp: int | datetime) -> int:
    if isinstance(timestamp, datetime):
        if timestamp.tzinfo is None:
            raise InvalidEventError("timestamp: the datetime needs a time zone, such as UTC")
        timestamp = (timestamp - _EPOCH) // _MILLISECOND
    if not isinstance(timestamp, int) or not 0 <= timestamp <= _LATEST_MS:
        raise InvalidEventError(
            "timestamp: use whole milliseconds since 1970, such as int(time.time() * 1000), "
            "or a datetime"
        )
    return timestamp


def _fits_headers(event: Event) -> bool:
    """Return whether HTTP headers can carry all fields of the event.

    HTTP does not keep the case of names, so headers with capitals need an envelope.
    """
    key = b"" if event.key is None else key_bytes(event.key)
    if isinstance(event.key, bytes) or (event.value is TOMBSTONE and event.content_type):
        return False
    is_bytes = isinstance(event.value, _BYTES)
    if event.content_type is not None and not (is_bytes and _is_opaque(event.content_type)):
        return False
    texts = [*event.headers.values()]
    if event.id is not None:
        texts.append(_event_id(event, None) or "")
    length = sum(map(len, (*event.headers, *texts))) + 3 * len(key)
    is_clear = "content-type" not in event.headers and all(map(_is_lower, event.headers))
    return is_clear and length <= _HEADER_BYTES and all(map(_PLAIN.fullmatch, texts))


def _is_lower(name: str) -> bool:
    return name == name.lower()


def _split_trace(
    headers: Mapping[str, str],
) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    """Separate the trace context, which is of the request, from the record's other headers.

    Raises:
        InvalidEventError: HTTP cannot carry the trace context.
    """
    given = {name.lower(): text for name, text in headers.items() if name.lower() in _TRACE}
    trace = {name: text for name, text in given.items() if text}
    for name, text in trace.items():
        if _PLAIN.fullmatch(text) is None:
            raise InvalidEventError(f"headers: the value of {name!r}: use visible ASCII characters")
    own = {name: text for name, text in headers.items() if name.lower() not in _TRACE}
    return tuple(trace.items()), own


def _is_opaque(content_type: str) -> bool:
    """Return whether the gateway treats a body of this type as the bytes of one event."""
    if _PLAIN.fullmatch(content_type) is None:
        raise InvalidEventError("content_type: it is not a media type; use one such as image/png")
    main = content_type.partition(";")[0].strip().lower()
    return "json" not in main


def _cloudevent(event: CloudEvent, to_json: Dumps) -> Part:
    attributes: dict[str, object] = {"specversion": "1.0"}
    for name in ("id", "source", "type"):
        value = getattr(event, name)
        if not isinstance(value, str) or not value:
            raise InvalidEventError(f"CloudEvent: {name} must be a str that is not empty")
        attributes[name] = value
    for name in ("subject", "time", "datacontenttype", "dataschema"):
        if getattr(event, name) is not None:
            attributes[name] = getattr(event, name)
    if isinstance(event.data, _BYTES):  # without a type data counts as JSON
        attributes.setdefault("datacontenttype", _OCTETS)
    for name, extension in event.extensions.items():
        if _ATTRIBUTE.fullmatch(name) is None or name in attributes or name.startswith("data"):
            raise InvalidEventError(f"CloudEvent: {name!r} is not a valid name of an extension")
        attributes[name] = extension
    text = _utf8("CloudEvent", _encode(attributes))
    if isinstance(event.data, _BYTES):
        text = text[:-1] + b',"data_base64":"' + b64encode(event.data) + b'"}'
    elif event.data is not None:
        text = text[:-1] + b',"data":' + _json_text(event.data, to_json) + b"}"
    key = event.extensions.get("partitionkey") or event.subject
    return Part("cloudevents", text, event.id, None if key is None else str(key).encode())


def compressor(compression: Compression | None) -> Callable[[bytes], bytes] | None:
    """Return a function that compresses; equal bytes always give equal results."""
    if compression is None:
        return None
    if compression == "gzip":
        return lambda content: gzip.compress(content, _GZIP_LEVEL, mtime=0)
    if compression != "zstd":
        raise InvalidOptionError(f"compression: use 'gzip' or 'zstd', not {compression!r}")
    return _zstd()


def _zstd() -> Callable[[bytes], bytes]:
    if sys.version_info >= (3, 14):
        from compression.zstd import compress
    else:
        try:
            from backports.zstd import compress
        except ImportError:
            raise InvalidOptionError(
                "compression: zstd needs Python 3.14 or `pip install headgate-client[zstd]`"
            ) from None
    return lambda content: bytes(compress(content))
