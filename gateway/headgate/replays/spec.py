"""Replay requests: read from JSON, with every mistake named by its field.

The registry keeps and shows the requested JSON itself, so that fields of a newer release survive an
older one. The API and the runner work with the `Spec` and the `RecordFilter` that are read from it.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

from headgate.model.keys import BadPointer, parse_pointer
from headgate.model.outcome import brief
from headgate.model.record import PRODUCER
from headgate.model.times import shown_time
from headgate.native.plain_answers import shortened

MAX_PARTITIONS = 10_000
LONGEST_NAME = 200
_MAX_VALUES = 10_000  # of one condition of a filter
_LONGEST = 10_000
_ABSENT = object()
_TOPIC = r"[\w.\-]{1,249}"  # org.apache.kafka.common.internals.Topic
_GROUP_BYTES = 255
_RELATIVE = re.compile(r"-(\d{1,9})(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_TTL_S = 365 * 86_400
_FIELDS = {
    "name", "topic", "partitions", "from", "to", "filter", "deliver", "rate", "dry_run",
    "allow_cold",
}  # fmt: skip
_BOUND = (
    'one of {"offsets": {"0": 5}}, {"timestamp": "2026-01-31T12:00:00Z"}, {"relative": "-2h"}, '
    '{"snapshot": "release"} and {"group": "billing"}'
)

Headers = Sequence[tuple[str, bytes | None]]


class FieldError(ValueError):
    """A missing, unknown or wrong field.

    Args:
        field: Dotted; empty for the whole document. A long one is cut: it may be the client's text.
        what: The mistake, or the expected value.
    """

    def __init__(self, field: str, what: str) -> None:
        shown = shortened(field)
        super().__init__(f"{shown}: {what}" if field else what)
        self.field = shown


def read_object(
    field: str, value: object, names: Collection[str], *needed: str
) -> Mapping[str, object]:
    """Return an object that has only these fields, and all needed ones. Raises FieldError."""
    if not isinstance(value, Mapping):
        raise FieldError(field, "a JSON object is asked for")
    prefix = f"{field}." if field else ""
    for name in value:
        if name not in names:
            raise FieldError(prefix + str(name), f"not known; there are {', '.join(sorted(names))}")
    for name in needed:
        if name not in value:
            raise FieldError(prefix + name, "missing")
    return value


def read_text(field: str, value: object, limit: int) -> str:
    """Return a text of 1 to `limit` printable characters. Raises FieldError."""
    if not isinstance(value, str) or not 0 < len(value) <= limit or not value.isprintable():
        raise FieldError(field, f"a text of 1 to {limit} printable characters")
    return value


def read_number(field: str, value: object, minimum: int, maximum: int) -> int:
    """Return a whole number within bounds. Raises FieldError."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not minimum <= value <= maximum:  # type: ignore[operator]
        raise FieldError(field, f"a whole number from {minimum} to {maximum}")
    return value  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class RecordFilter:
    """The records of a range that a replay takes. All conditions must hold.

    The API refuses a filter that makes no sense; the runner decides for each record.

    Attributes:
        keys: The record has one of these keys.
        headers: Name and values; the record has a header with one of the values. The producer is
            such a header.
        equals: Tokens of a JSON Pointer, and JSON text in canonical form. A record whose value is
            not JSON does not match.
    """

    keys: frozenset[bytes] = frozenset()
    headers: tuple[tuple[str, frozenset[bytes]], ...] = ()
    equals: tuple[tuple[tuple[str, ...], str | None], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Return whether the filter takes every record."""
        return not (self.keys or self.headers or self.equals)

    def takes(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Return whether the filter takes a record. Any of several headers of a name may match."""
        if self.keys and key not in self.keys:
            return False
        for name, wanted in self.headers:
            if not any(given in wanted for header, given in headers if header == name):
                return False
        return not self.equals or self._equal(value)

    def _equal(self, value: bytes | None) -> bool:
        if value is None:
            return False
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return False
        return all(_canonical(_value_at(document, path)) == wanted for path, wanted in self.equals)


def read_filter(raw: object) -> RecordFilter:
    """Read the filter of a request. Raises FieldError."""
    if raw is None:
        return RecordFilter()
    names = {"keys", "keys_base64", "producers", "headers", "equals"}
    given = read_object("filter", raw, names)
    keys = {key.encode() for key in _texts("filter.keys", given.get("keys", ()))}
    keys |= set(map(_decoded, _texts("filter.keys_base64", given.get("keys_base64", ()))))
    headers = _headers(given.get("headers", {}))
    producers = _texts("filter.producers", given.get("producers", ()))
    if producers:
        headers.append((PRODUCER, frozenset(producer.encode() for producer in producers)))
    return RecordFilter(frozenset(keys), tuple(headers), _equals(given.get("equals", {})))


def _texts(field: str, raw: object) -> Sequence[str]:
    is_list = isinstance(raw, Sequence) and not isinstance(raw, str | bytes)
    if not is_list or len(raw) > _MAX_VALUES:  # type: ignore[arg-type]
        raise FieldError(field, f"a list of at most {_MAX_VALUES} texts")
    return [read_text(field, each, limit=_LONGEST) for each in raw]  # type: ignore[attr-defined]


def _decoded(key: str) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FieldError("filter.keys_base64", f"{brief(key)} is not base64") from error


def _headers(raw: object) -> list[tuple[str, frozenset[bytes]]]:
    if not isinstance(raw, Mapping):
        raise FieldError("filter.headers", 'values by name, such as {"content-type": "text/plain"}')
    headers = []
    for name, given in raw.items():
        values = _texts(f"filter.headers.{name}", [given] if isinstance(given, str) else given)
        headers.append((str(name), frozenset(value.encode() for value in values)))
    return headers


def _equals(raw: object) -> tuple[tuple[tuple[str, ...], str | None], ...]:
    if not isinstance(raw, Mapping) or len(raw) > _MAX_VALUES:
        raise FieldError("filter.equals", 'values by JSON Pointer, such as {"/status": "paid"}')
    conditions = []
    for pointer, value in raw.items():
        try:
            conditions.append((parse_pointer(str(pointer)), _canonical(value)))
        except BadPointer as error:  # it quotes the pointer, which may be long
            detail = f"{brief(str(pointer))} is no JSON Pointer, such as /status"
            raise FieldError("filter.equals", detail) from error
    return tuple(conditions)


def _canonical(value: object) -> str | None:
    """Return text that is equal for equal JSON: 1 and 1.0 are equal, 1 and true are not."""
    if value is _ABSENT:
        return None
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _value_at(document: object, path: tuple[str, ...]) -> object:
    for token in path:
        if isinstance(document, dict):
            document = document.get(token, _ABSENT)
        elif isinstance(document, list) and token.isascii() and token.isdigit():
            at = int(token) if len(token) < 10 else len(document)
            is_element = at < len(document) and str(at) == token
            document = document[at] if is_element else _ABSENT
        else:
            return _ABSENT
    return document


class ReplayMode(StrEnum):
    """The delivery of a replay."""

    SEEK = "seek"  # offsets on the backfill tier, nothing is copied
    TOPIC = "topic"  # records copied to a topic of their own
    GROUP = "group"  # offsets committed for a group of the backfill tier


class Bound(NamedTuple):
    """One end of a range.

    Attributes:
        kind: offsets, timestamp, snapshot, group, or now (the source's end at the time of the
            request). A relative time is a timestamp.
        offsets: Source offsets by partition, of kind offsets.
        time_ms: Milliseconds since 1970, of kind timestamp.
        name: Name of the snapshot or group.
    """

    kind: str
    offsets: Mapping[int, int] = MappingProxyType({})
    time_ms: int = 0
    name: str = ""


class Rate(NamedTuple):
    """The most that is copied per second. None: the runner's own limit."""

    records_per_s: int | None = None
    bytes_per_s: int | None = None


class Deliver(NamedTuple):
    """The delivery.

    Attributes:
        group: The consumer group of mode group.
        ttl_s: Lifetime of the result, in seconds; None for the configured one.
    """

    mode: ReplayMode
    group: str = ""
    ttl_s: int | None = None


@dataclass(frozen=True, slots=True)
class Spec:
    """A requested replay.

    Attributes:
        partitions: None: all.
        start: The first record to replay.
        end: The first record behind the range; None, in mode group alone: there is none.
        allow_cold: Records that are not mirrored may be read from the ingest tier.
    """

    name: str
    topic: str
    partitions: tuple[int, ...] | None
    start: Bound
    end: Bound | None
    only: RecordFilter
    deliver: Deliver
    rate: Rate
    allow_cold: bool
    dry_run: bool


def read_spec(raw: object, now_ms: int) -> Spec:
    """Read the spec of a request. Raises FieldError."""
    given = read_object("", raw, _FIELDS, "name", "topic", "from", "deliver")
    deliver, end = _deliver(given["deliver"]), given.get("to")
    if end is None and deliver.mode is not ReplayMode.GROUP:
        end = {"relative": "now"}
    spec = Spec(
        name=read_text("name", given["name"], limit=LONGEST_NAME),
        topic=read_topic(given["topic"]),
        partitions=_partitions(given.get("partitions")),
        start=_bound("from", given["from"], now_ms),
        end=None if end is None else _bound("to", end, now_ms),
        only=read_filter(given.get("filter")),
        deliver=deliver,
        rate=_rate(given.get("rate")),
        allow_cold=_flag("allow_cold", given),
        dry_run=_flag("dry_run", given),
    )
    _check_mode(spec)
    _check_order(spec)
    _check_offsets(spec)
    return spec


def _check_mode(spec: Spec) -> None:
    mode = spec.deliver.mode
    if mode is ReplayMode.TOPIC:
        return
    if not spec.only.is_empty:
        raise FieldError("filter", f"mode {mode} copies nothing and cannot filter: use topic")
    if spec.allow_cold:
        raise FieldError("allow_cold", f"mode {mode} gives places on the backfill tier: mirror")
    if spec.rate != Rate():
        raise FieldError("rate", f"mode {mode} copies nothing: leave it out")
    if mode is ReplayMode.GROUP and spec.end is not None:
        raise FieldError("to", "mode group only says where reading begins: leave it out")


def _check_order(spec: Spec) -> None:
    start, end = spec.start, spec.end
    if end is None or (start.kind, end.kind) != ("timestamp", "timestamp"):
        return
    if end.time_ms < start.time_ms:
        raise FieldError("to", "a time before that of from")


def _check_offsets(spec: Spec) -> None:
    for field, bound in (("from", spec.start), ("to", spec.end)):
        if bound is not None and bound.kind == "offsets" and spec.partitions is not None:
            missing = set(spec.partitions) - bound.offsets.keys()
            if missing:
                raise FieldError(f"{field}.offsets", f"partition {min(missing)} has no offset")


def read_topic(raw: object) -> str:
    """Read a topic's name. Raises FieldError."""
    if not isinstance(raw, str) or not re.fullmatch(_TOPIC, raw, re.ASCII):
        raise FieldError("topic", "the name of a topic")
    return raw


def _partitions(raw: object) -> tuple[int, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes) or not raw:
        raise FieldError("partitions", "a list of partition numbers, or leave it out for all")
    numbers = {read_number("partitions", each, minimum=0, maximum=MAX_PARTITIONS) for each in raw}
    return tuple(sorted(numbers))


def _bound(field: str, raw: object, now_ms: int) -> Bound:
    if not isinstance(raw, Mapping) or len(raw) != 1:
        raise FieldError(field, _BOUND)
    ((kind, value),) = raw.items()
    if kind == "offsets":
        return Bound(kind, offsets=read_offsets(f"{field}.offsets", value))
    if kind == "timestamp":
        return Bound(kind, time_ms=read_time(f"{field}.timestamp", value))
    if kind == "relative" and value == "now":
        return Bound("now")
    if kind == "relative":
        before_ms = _relative(f"{field}.relative", value)
        return Bound("timestamp", time_ms=max(0, now_ms - before_ms))
    if kind in ("snapshot", "group"):
        limit = LONGEST_NAME if kind == "snapshot" else _GROUP_BYTES
        return Bound(kind, name=read_text(f"{field}.{kind}", value, limit))
    raise FieldError(field, _BOUND)


def read_offsets(field: str, raw: object) -> dict[int, int]:
    """Read `{"0": 5}`, an offset for each partition. Raises FieldError."""
    if not isinstance(raw, Mapping) or not raw or len(raw) > MAX_PARTITIONS:
        raise FieldError(field, 'an offset for each partition, such as {"0": 5, "1": 0}')
    return {
        partition_number(field, partition): read_number(
            f"{field}.{partition}", offset, minimum=0, maximum=2**62
        )
        for partition, offset in raw.items()
    }


def partition_number(field: str, raw: object) -> int:
    """Read a partition number from a field's name. Raises FieldError."""
    if not re.fullmatch(r"0|[1-9]\d{0,4}", str(raw), re.ASCII):
        raise FieldError(field, f"{brief(str(raw))} is no partition number")
    return int(str(raw))


def read_time(field: str, raw: object) -> int:
    """Read ms since 1970, or ISO 8601 with a zone. Raises FieldError."""
    if not isinstance(raw, str):
        return read_number(field, raw, minimum=0, maximum=10**15)
    try:
        moment = datetime.fromisoformat(raw)
        ms = int(moment.timestamp() * 1000) if moment.tzinfo is not None else -1
    except (ValueError, OverflowError):
        ms = -1
    if ms < 0:
        raise FieldError(field, "ISO 8601 with a zone (2026-01-31T12:00:00Z), or ms since 1970")
    return ms


def moment(ms: Any) -> str | None:
    """Format ms since 1970 as ISO 8601 in UTC. A time beyond the calendar becomes its end."""
    return shown_time(ms) if isinstance(ms, int) else None


def _relative(field: str, raw: object) -> int:
    match = _RELATIVE.fullmatch(raw) if isinstance(raw, str) else None
    if match is None:
        raise FieldError(field, "a time before now: -90s, -30m, -2h or -7d; or now")
    return int(match[1]) * _UNIT_MS[match[2]]


def _deliver(raw: object) -> Deliver:
    given = read_object("deliver", raw, {"mode", "group", "ttl_s"}, "mode")
    if given["mode"] not in [*ReplayMode]:
        raise FieldError("deliver.mode", "seek, topic or group")
    mode, ttl_s = ReplayMode(str(given["mode"])), given.get("ttl_s")
    if ttl_s is not None:
        ttl_s = read_number("deliver.ttl_s", ttl_s, minimum=1, maximum=_MAX_TTL_S)
    if mode is not ReplayMode.GROUP:
        if "group" in given:
            raise FieldError("deliver.group", f"mode {mode} commits nothing: leave it out")
        return Deliver(mode, "", ttl_s)
    if "group" not in given:
        raise FieldError("deliver.group", "the group whose offsets are committed is missing")
    return Deliver(mode, read_text("deliver.group", given["group"], limit=_GROUP_BYTES), ttl_s)


def _rate(raw: object) -> Rate:
    if raw is None:
        return Rate()
    given = read_object("rate", raw, {"records_per_s", "bytes_per_s"})
    limits = {
        name: read_number(f"rate.{name}", value, minimum=1, maximum=2**53)
        for name, value in given.items()
    }
    return Rate(**limits)


def _flag(name: str, given: Mapping[str, object]) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise FieldError(name, "true or false")
    return value
