"""What can be sent: JSON values, bytes, tombstones, CloudEvents."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headgate_client.errors import InvalidEventError


class Tombstone(enum.Enum):
    """The type of `TOMBSTONE`."""

    TOMBSTONE = "tombstone"


TOMBSTONE: Final = Tombstone.TOMBSTONE  # a null value: the key is gone


@dataclass(frozen=True, slots=True)
class RawJson:
    """JSON text that is ready. Kafka gets these bytes as they are."""

    text: bytes

    def __post_init__(self) -> None:
        """Look at the text once: it stands beside others in a request, and must not end early."""
        try:
            json.loads(self.text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise InvalidEventError(f"RawJson: the text is no JSON document: {error}") from None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of a batch.

    value: what `dumps` makes JSON of, `RawJson`, bytes (opaque to the gateway), or `TOMBSTONE`.
    key: overrides the topic's key rule.  id: yours; on topics with `dedupe_ttl_s` an event with a
    known id is not written again.  headers: record headers.  timestamp_ms: milliseconds since
    1970, for topics with `timestamp = "event"`.  content_type: of the record.
    """

    value: object
    key: str | bytes | None = None
    id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timestamp_ms: int | None = None
    content_type: str | None = None


_REQUIRED = ("id", "source", "type")
_OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
_ATTRIBUTES = frozenset((*_REQUIRED, *_OPTIONAL, "specversion", "data", "data_base64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """A CloudEvent 1.0. Its key is the extension `partitionkey`, then `subject`.

    data: a JSON value, or bytes.  time: RFC 3339.
    """

    id: str
    source: str
    type: str
    data: object = None
    subject: str | None = None
    time: str | None = None
    datacontenttype: str | None = None
    dataschema: str | None = None
    extensions: Mapping[str, str | int | bool] = field(default_factory=dict)

    @classmethod
    def of(cls, event: object) -> "CloudEvent":
        """Return the same event as a `CloudEvent`.

        event: a mapping of attributes (with `data`), or an object of the `cloudevents` package.
        """
        found = _attributes(event)
        missing = [name for name in _REQUIRED if not found.get(name)]
        if missing:
            raise InvalidEventError(f"CloudEvent: {', '.join(missing)} missing or empty")
        if str(found.get("specversion", "1.0")) != "1.0":
            raise InvalidEventError("CloudEvent: specversion is not 1.0")
        time = found.get("time")
        return cls(
            id=str(found["id"]),
            source=str(found["source"]),
            type=str(found["type"]),
            data=found.get("data"),
            subject=_text(found.get("subject")),
            datacontenttype=_text(found.get("datacontenttype")),
            dataschema=_text(found.get("dataschema")),
            time=time.isoformat() if hasattr(time, "isoformat") else _text(time),
            extensions={
                name: value if isinstance(value, (int, bool)) else str(value)
                for name, value in found.items()
                if name not in _ATTRIBUTES and value is not None
            },
        )


def _attributes(event: object) -> dict[str, object]:
    """The attributes of a mapping, or of an SDK object: 2.x has methods, 1.x is like a mapping."""
    if isinstance(event, Mapping):
        return dict(event)
    for name in ("get_attributes", "_get_attributes"):
        get = getattr(event, name, None)
        if callable(get):
            data = getattr(event, "get_data", None) or getattr(event, "_get_data", None)
            return {**get(), "data": data() if callable(data) else None}
    raise InvalidEventError(
        f"CloudEvent.of: a mapping or an object of the cloudevents package, not {type(event)}"
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
