"""Reads requests for the gateway in memory."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import httpx


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A written record.

    Attributes:
        value: JSON value, bytes, or None for a tombstone.
        headers: Headers without those of the gateway.
        is_tombstone: Whether the value is null in Kafka, and not the JSON value null.
    """

    topic: str
    key: str | bytes | None
    value: object
    event_id: str | None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_tombstone: bool = False


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
    return Record(
        topic=topic,
        key=key,
        value=value,
        headers={**own, **trace},
        event_id=None if event_id is None else str(event_id),
        is_tombstone=event.get("tombstone") is True,
    )


def _of_cloudevent(topic: str, event: Mapping[str, object]) -> Record:
    data = event.get("data")
    if "data_base64" in event:
        data = base64.b64decode(str(event["data_base64"]))
    attributes = {name: str(value) for name, value in event.items() if not name.startswith("data")}
    key = attributes.get("partitionkey") or attributes.get("subject")
    headers = {f"ce_{name}": text for name, text in attributes.items()}
    return Record(topic=topic, key=key, value=data, event_id=attributes["id"], headers=headers)


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
