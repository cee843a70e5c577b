"""Reads requests for the gateway in memory."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import httpx

from headgate_client.core.header_text import is_key
from headgate_client.settings import did_you_mean

_FLAGS = ("headgate-force", "headgate-batch", "headgate-tombstone")
_OURS = (
    *_FLAGS, "headgate-key", "headgate-key*", "headgate-event-id", "headgate-timestamp",
    "headgate-burst", "headgate-producer",
)  # fmt: skip
_MOST_HEADERS = 1000  # of an event
_DEEPEST = 128  # http.json_max_depth


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A written record.

    Attributes:
        value: JSON value, bytes, or None for a tombstone.
        headers: Headers without those of the gateway.
        is_tombstone: Whether the value is null in Kafka, and not the JSON value null.
        content_type: Content type of the record, None without one.
        scope: What the event id belongs to: a producer, or the source of a CloudEvent.
    """

    topic: str
    key: str | bytes | None
    value: object
    event_id: str | None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_tombstone: bool = False
    content_type: str | None = field(default=None, repr=False, compare=False)
    scope: tuple[str, str] = field(default=("", ""), repr=False, compare=False)


class RefusedError(Exception):
    """The request fails as a whole."""

    def __init__(self, reason: str, detail: str, retry_after_s: int = 0) -> None:
        super().__init__(detail)
        self.reason, self.retry_after_s = reason, retry_after_s


def content_of(request: httpx.Request) -> bytes:
    """Return the uncompressed body."""
    encoding = request.headers.get("Content-Encoding")
    if encoding not in (None, "gzip"):
        raise RefusedError("unsupported_encoding", "the gateway in memory supports only gzip")
    return gzip.decompress(request.content) if encoding == "gzip" else request.content


def records_of(topic: str, request: httpx.Request, content: bytes) -> Iterator[Record]:
    """Yield the events of a request."""
    producer = request.headers.get("Headgate-Producer", request.headers.get("Authorization", ""))
    for record in _events(topic, request, content):
        source = record.headers.get("ce_source")
        scope = ("producer", producer) if source is None else ("source", source)
        yield replace(record, scope=scope)


def check_request(headers: httpx.Headers) -> None:
    """Raise RefusedError (malformed) for headers that a gateway refuses."""
    for name, value in headers.items():
        is_ours = name in _OURS or name.startswith("headgate-header-")
        if name.startswith("headgate-") and not is_ours:
            hint = did_you_mean(name.title(), [each.title() for each in _OURS])
            raise RefusedError("malformed", f"there is no header {name.title()}.{hint}")
        if name in _FLAGS and value.lower() not in ("true", "1", "false", "0"):
            detail = f"{name.title()} is true, 1, false or 0, not {value!r}"
            raise RefusedError("malformed", detail)
    if "Idempotency-Key" in headers and not is_key(headers["Idempotency-Key"]):
        detail = "an Idempotency-Key has 1 to 255 visible ASCII characters"
        raise RefusedError("malformed", detail)


def fault_of(record: Record) -> str | None:
    """Return why the gateway would call the event malformed, else None."""
    if len(record.headers) > _MOST_HEADERS:
        return f"an event has at most {_MOST_HEADERS} headers or attributes"
    if _depth(record.value) > _DEEPEST:
        return f"the JSON nests deeper than {_DEEPEST}"
    return None


def _depth(value: object) -> int:
    level, depth = [value], 0
    while level := [each for each in level if isinstance(each, (dict, list))]:
        depth += 1
        level = [
            member
            for each in level
            for member in (each.values() if isinstance(each, dict) else each)
        ]
    return depth


def _events(topic: str, request: httpx.Request, content: bytes) -> Iterator[Record]:
    kind = request.headers.get("Content-Type", "")
    if kind == "application/vnd.headgate.batch+json":
        for event in json.loads(content)["events"]:
            yield _of_envelope(topic, event, _trace(request.headers))
    elif kind == "application/cloudevents-batch+json":
        for event in json.loads(content):
            yield _of_cloudevent(topic, event)
    else:
        yield _alone(topic, request.headers, content)


def _of_envelope(topic: str, event: Mapping[str, object], trace: Mapping[str, str]) -> Record:
    value = event.get("value")
    if "value_base64" in event:
        value = base64.b64decode(str(event["value_base64"]))
    key = event.get("key")
    if "key_base64" in event:
        key = base64.b64decode(str(event["key_base64"]))
    headers, event_id = event.get("headers", {}), event.get("id")
    assert isinstance(key, (str, bytes, type(None)))
    assert isinstance(headers, dict)
    own = {name: text for name, text in headers.items() if name.lower() != "content-type"}
    types = [text for name, text in headers.items() if name.lower() == "content-type"]
    is_json = "value" in event
    return Record(
        topic=topic,
        key=key,
        value=value,
        headers={**own, **trace},
        event_id=None if event_id is None else str(event_id),
        is_tombstone=event.get("tombstone") is True,
        content_type=types[0] if types else "application/json" if is_json else None,
    )


def _of_cloudevent(topic: str, event: Mapping[str, object]) -> Record:
    data = event.get("data")
    if "data_base64" in event:
        data = base64.b64decode(str(event["data_base64"]))
    attributes = {name: str(value) for name, value in event.items() if not name.startswith("data")}
    key = attributes.get("partitionkey") or attributes.get("subject")
    headers = {f"ce_{name}": text for name, text in attributes.items()}
    return Record(
        topic=topic,
        key=key,
        value=data,
        event_id=attributes["id"],
        headers=headers,
        content_type=str(event.get("datacontenttype", "application/json")),
    )


def _alone(topic: str, headers: httpx.Headers, content: bytes) -> Record:
    value: object = content
    is_tombstone = headers.get("Headgate-Tombstone") == "true"
    if is_tombstone:
        value = None
    elif headers.get("Content-Type") == "application/json":
        value = json.loads(content)
    key = headers.get("Headgate-Key*")
    prefix = "headgate-header-"
    return Record(
        topic=topic,
        key=None if key is None else unquote(key.removeprefix("UTF-8''")),
        value=value,
        event_id=headers.get("Headgate-Event-Id"),
        is_tombstone=is_tombstone,
        content_type=headers.get("Content-Type"),
        headers={
            name.removeprefix(prefix): text
            for name, text in headers.items()
            if name.startswith(prefix)
        }
        | _trace(headers),
    )


def _trace(headers: httpx.Headers) -> dict[str, str]:
    """Return the trace context of a request, which each of its records has."""
    return {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
