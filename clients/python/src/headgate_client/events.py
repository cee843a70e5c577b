"""Kinds of events: JSON values, bytes, tombstones and CloudEvents."""

import enum
import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final, Self

from headgate_client.errors import InvalidEventError
from headgate_client.settings import did_you_mean


class Tombstone(enum.Enum):
    """The type of `TOMBSTONE`."""

    TOMBSTONE = "tombstone"


TOMBSTONE: Final = Tombstone.TOMBSTONE  # a null value, which deletes the key


@dataclass(frozen=True, slots=True)
class RawJson:
    """JSON text that is already encoded. Kafka gets it unchanged (a `str` as UTF-8)."""

    text: bytes | str

    def __post_init__(self) -> None:
        """Check the text: it is placed among other events of a request and must be one document."""
        try:
            json.loads(self.encoded(), parse_constant=_refuse_constant)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidEventError(f"RawJson: the text is not a JSON document: {error}") from None

    def encoded(self) -> bytes:
        """Return the bytes that Kafka gets."""
        return self.text.encode() if isinstance(self.text, str) else self.text


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_FIELDS = ("value", "key", "id", "headers", "timestamp", "content_type")


class _OneValue:
    __slots__ = ()

    def __new__(cls, *values: object, **given: object) -> Self:
        """Refuse wrong arguments, before the dataclass does so without the fix."""
        for name in given:
            if name not in _FIELDS:
                raise TypeError(f"Event: unknown argument {name!r}.{did_you_mean(name, _FIELDS)}")
        if len(values) > 1:
            raise TypeError("Event: name what follows the value: Event(value, key=..., id=...)")
        return super().__new__(cls)


@dataclass(frozen=True, slots=True)
class Event(_OneValue):
    """A value with the fields of its Kafka record, for `send_batch` and `send`.

    Attributes:
        value: Anything that JSON has, `RawJson`, bytes, or `TOMBSTONE`.
        key: Record key. It overrides the topic's key rule.
        id: Event id. A topic with `dedupe_ttl_s` writes each id once.
        headers: Record headers.
        timestamp: Milliseconds since 1970, or a `datetime` with a time zone. Topics with
            `timestamp = "event"` use it.
        content_type: Content type of the record.
    """

    value: object
    _: KW_ONLY
    key: str | bytes | None = None
    id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timestamp: int | datetime | None = None
    content_type: str | None = None


_REQUIRED = ("id", "source", "type")
_OPTIONAL = ("subject", "time", "datacontenttype", "dataschema")
_ATTRIBUTES = frozenset((*_REQUIRED, *_OPTIONAL, "specversion", "data", "data_base64"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvent:
    """A CloudEvent 1.0. Its record key is the extension `partitionkey`, else `subject`.

    Attributes:
        data: A JSON value, or bytes.
        time: Timestamp as RFC 3339 text.
        extensions: Extension attributes by name.
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
        """Convert an event.

        Args:
            event: A mapping of attributes (with `data`), or an object of the `cloudevents` package.

        Raises:
            InvalidEventError: A required attribute is missing, or the version is not 1.0.
        """
        attributes = _attributes(event)
        missing = [name for name in _REQUIRED if not attributes.get(name)]
        if missing:
            raise InvalidEventError(f"CloudEvent: {', '.join(missing)} missing or empty")
        if str(attributes.get("specversion", "1.0")) != "1.0":
            raise InvalidEventError("CloudEvent: specversion is not 1.0")
        time = attributes.get("time")
        return cls(
            id=str(attributes["id"]),
            source=str(attributes["source"]),
            type=str(attributes["type"]),
            data=attributes.get("data"),
            subject=_text(attributes.get("subject")),
            datacontenttype=_text(attributes.get("datacontenttype")),
            dataschema=_text(attributes.get("dataschema")),
            time=time.isoformat() if hasattr(time, "isoformat") else _text(time),
            extensions={
                name: value if isinstance(value, (int, bool)) else str(value)
                for name, value in attributes.items()
                if name not in _ATTRIBUTES and value is not None
            },
        )


def _attributes(event: object) -> dict[str, object]:
    """Return the attributes of a mapping or SDK object (2.x has methods, 1.x is a mapping)."""
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
