"""Confluent REST v3, produce part: the JSON of a record, and the report of its outcome.

Source: confluentinc/kafka-rest, `api/v3/openapi.yaml` (ProduceRequest, ProduceResponse) and
`controllers/NoSchemaRecordSerializer.java`.
"""

from typing import Annotated, NamedTuple

import msgspec

from headgate.formats.cloudevents import time_ms
from headgate.formats.confluent import (
    base64_bytes,
    check_key_text,
    codes_of,
    json_key,
    partition_of,
    record_headers,
    string_bytes,
    unfit,
)
from headgate.formats.structs import ABSENT, StructReader
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import Failure, Outcome, Refused, brief, malformed
from headgate.model.policy import CompatJsonKeys
from headgate.model.publish import RawEvent
from headgate.model.reply import json_text
from headgate.model.request import HeaderCount
from headgate.model.times import shown_time

TYPE = "application/json"
_JSON = b"application/json"
_NULL = b"null"
_WITH_SCHEMA = (None, "AVRO", "JSONSCHEMA", "PROTOBUF")  # None: the type of the newest schema
_SCHEMA_MEMBERS = ("subject", "subject_name_strategy", "schema_id", "schema_version", "schema")


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: str | None = None


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    partition_id: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    headers: list[_Header] | None = None
    key: msgspec.Raw = ABSENT
    value: msgspec.Raw = ABSENT
    timestamp: str | None = None


class _Datum(msgspec.Struct, forbid_unknown_fields=True):
    type: str | None = None
    data: msgspec.Raw = ABSENT
    subject: msgspec.Raw = ABSENT
    subject_name_strategy: msgspec.Raw = ABSENT
    schema_id: msgspec.Raw = ABSENT
    schema_version: msgspec.Raw = ABSENT
    schema: msgspec.Raw = ABSENT


_record = StructReader(_Record, "Bad Request: the record")
_readers = {
    "key": StructReader(_Datum, "Bad Request: the record's key"),
    "value": StructReader(_Datum, "Bad Request: the record's value"),
}


class Sent(NamedTuple):
    """Type and size of a record's key and value as sent, for its report."""

    key: tuple[str, int] | None
    value: tuple[str, int] | None


def read_record(
    text: bytes,
    keys: CompatJsonKeys,
    key_max_bytes: int = KEY_MAX_BYTES,
    count: HeaderCount | None = None,
) -> tuple[RawEvent, Sent]:
    """Parse a record of a request.

    Args:
        text: The JSON text of the record.
        keys: The form of JSON keys.
        key_max_bytes: The maximum size of a key, in bytes.
        count: The counter for the headers of all records of the request.

    Raises:
        Refused: The record is malformed.
    """
    record = _record.read(text)
    key_type, key = _datum("key", record.key, keys, key_max_bytes)
    value_type, value = _datum("value", record.value, keys)
    is_document = value_type == "JSON" and value is not None
    given = [(header.name, header.value) for header in record.headers or ()]
    own_type, headers = record_headers(given, count or HeaderCount())
    event = RawEvent(
        value=value,
        document=value if is_document else None,
        key=key,
        timestamp_ms=_time(record.timestamp),
        content_type=own_type or (_JSON if is_document else None),
        headers=headers,
        partition=partition_of(record.partition_id),
    )
    return event, Sent(_size(key_type, key), _size(value_type, value))


def _size(kind: str, data: bytes | None) -> tuple[str, int] | None:
    return None if data is None else (kind, len(data))


def _datum(
    name: str, text: msgspec.Raw, keys: CompatJsonKeys, max_bytes: int | None = None
) -> tuple[str, bytes | None]:
    """Return the type and the bytes of a key or value; None if absent.

    Args:
        name: `key` or `value`.
        text: The JSON text.
        keys: The form of JSON keys.
        max_bytes: The maximum size of a key.
    """
    raw = bytes(text) or _NULL
    if raw == _NULL:
        return "BINARY", None
    datum = _readers[name].read(raw)
    data = bytes(datum.data) or _NULL
    has_schema = any(
        bytes(getattr(datum, schema_member)) not in (b"", _NULL)
        for schema_member in _SCHEMA_MEMBERS
    )
    if datum.type in _WITH_SCHEMA:
        detail = (
            f"Payload error. The record's {name} needs a schema registry, which this gateway has "
            "not; send the type BINARY, JSON or STRING, without a schema"
        )
        raise unfit(detail)
    if datum.type not in ("BINARY", "JSON", "STRING") or has_schema:
        detail = f"Bad Request: the record's {name}: use the type BINARY, JSON or STRING, no schema"
        raise Refused(malformed(detail))
    if data == _NULL:
        return datum.type, None
    if max_bytes is not None:
        check_key_text(data, max_bytes)
    if datum.type == "JSON":
        return datum.type, data if name == "value" else json_key(data, keys)
    if datum.type == "STRING":
        encoded = string_bytes(data)
        if encoded is None:
            raise Refused(malformed(f"Bad Request: data of the record's {name} is not a string"))
        return datum.type, encoded
    return datum.type, base64_bytes(data, f"Bad Request: data of the record's {name}")


def _time(given: str | None) -> int | None:
    if given is None:
        return None
    try:
        return time_ms(given)
    except Refused:
        raise Refused(malformed(f"Bad Request: timestamp {brief(given)} is not RFC 3339")) from None


def report(cluster_id: str, topic: str, outcome: Outcome, sent: Sent | None) -> bytes:
    """Return a record's report as JSON. The time of an equal older record is not known."""
    if outcome.failure is not None:
        return failure_report(outcome.failure)
    page: dict[str, object] = {
        "error_code": 200,
        "cluster_id": cluster_id,
        "topic_name": topic,
        "partition_id": outcome.partition,
        "offset": outcome.offset,
        "timestamp": None if outcome.timestamp_ms < 0 else shown_time(outcome.timestamp_ms),
    }
    for name, datum in sent._asdict().items() if sent is not None else ():
        if datum is not None:
            page[name] = {"type": datum[0], "size": datum[1]}
    return json_text(page).encode()


def failure_report(failure: Failure) -> bytes:
    """Return the report of a record that was not published."""
    page = {"error_code": codes_of(failure)[1], "message": failure.detail}
    return json_text(page).encode()
