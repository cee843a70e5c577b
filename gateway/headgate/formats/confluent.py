"""Confluent's REST v2 and v3, produce part: records of requests, and the responses.

Sources: confluentinc/kafka-rest (`Errors.java`, `resources/v2/AbstractProduceAction.java`,
`resources/v2/ProduceToTopicAction.java`, `entities/v2/ProduceResponse.java`, `api/v3/openapi.yaml`:
ProduceRequest and ProduceResponse, `controllers/NoSchemaRecordSerializer.java`). In v2, a record's
`headers` and `timestamp` and the format text come from the Strimzi Kafka Bridge
(`src/main/resources/openapi.json`), which uses the same paths and types.

The error codes are Confluent's. If there is none for a failure, the nearest one with the same
meaning for a retry is used.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, NamedTuple

import msgspec

from headgate.formats.cloudevents import time_ms
from headgate.formats.json_text import ABSENT, StructReader, elements, is_crowd
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import (
    TRAITS,
    Failure,
    Outcome,
    Reason,
    Refused,
    brief,
    long_key,
    malformed,
)
from headgate.model.policy import CompatJsonKeys
from headgate.model.publish import SPREAD, RawEvent
from headgate.model.record import CONTENT_TYPE, Header
from headgate.model.reply import Reply, advice_headers, json_text, retry_after
from headgate.model.request import HeaderCount, is_own
from headgate.model.times import shown_time

_JSON = b"application/json"
_NULL = b"null"
_TEXT = msgspec.json.Decoder(str)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ESCAPED_BYTES = 6  # maximum JSON text for one byte of a key: \u0000
_UNKNOWN_TOPIC, _UNKNOWN_PARTITION, _UNFIT = 40401, 40402, 42206
_KAFKA, _KAFKA_RETRIABLE, _BROKER_AWAY = 50002, 50003, 50302
NO_RECORDS = 42206  # for a v3 request without records
NOT_ON_THE_CLUSTER = 40403  # for a topic lookup; 40401 is for producing
# HTTP status and error code of a request that fails as a whole for this reason.
_CODES = {
    Reason.UNAUTHENTICATED: (401, 40101),
    Reason.FORBIDDEN: (403, 40301),
    Reason.UNKNOWN_TOPIC: (404, _UNKNOWN_TOPIC),
    Reason.UNKNOWN_PARTITION: (404, _UNKNOWN_PARTITION),
    Reason.SCHEMA_VIOLATION: (422, 422),  # also for a malformed request
    Reason.OVERLOADED: (503, _BROKER_AWAY),
    Reason.DRAINING: (503, _BROKER_AWAY),
    Reason.KAFKA_UNAVAILABLE: (503, _BROKER_AWAY),
    Reason.REDIS_UNAVAILABLE: (503, _BROKER_AWAY),
    Reason.BROKER_REFUSED: (502, _KAFKA),
    Reason.UNKNOWN: (504, _KAFKA_RETRIABLE),
    Reason.INTERNAL: (500, _KAFKA_RETRIABLE),
}


def codes_of(failure: Failure) -> tuple[int, int]:
    """Return the HTTP status and the error code of a failure."""
    codes = _CODES.get(failure.reason)
    if codes is not None:
        return codes
    status = TRAITS[failure.reason].status
    return status, _UNFIT if status == 422 else status


def record_code_of(failure: Failure) -> int:
    """Return the error code of one of several records.

    The code of every retryable failure is `retriable Kafka error`, which producers know.
    """
    status, code = codes_of(failure)
    if status >= 500:
        return _KAFKA_RETRIABLE if TRAITS[failure.reason].retryable else _KAFKA
    return code


def failed(failure: Failure, content_type: str) -> Reply:
    """Return the response to a request that fails as a whole."""
    status, code = codes_of(failure)
    return error(status, code, failure.detail, content_type, advice_headers(failure))


def error(
    status: int,
    code: int,
    message: str,
    content_type: str,
    headers: Sequence[tuple[str, str]] = (),
) -> Reply:
    """Return a response in Confluent's error format."""
    body = json_text({"error_code": code, "message": message}).encode()
    return Reply(status, content_type, tuple(headers), body)


def unfit(detail: str) -> Refused:
    """Return the refusal of well-formed JSON with the wrong structure."""
    return Refused(Failure(Reason.SCHEMA_VIOLATION, detail))


def partition_of(given: int | None) -> int:
    """Return the partition that a record names, or SPREAD. Raises Refused."""
    if given is None:
        return SPREAD
    if given < 0:
        raise Refused(Failure(Reason.UNKNOWN_PARTITION, f"no topic has a partition {given}"))
    return given


# ---- keys, values, headers


def json_key(text: bytes, keys: CompatJsonKeys) -> bytes | None:
    """Return the record key of a JSON key; None for null.

    Args:
        text: The JSON text.
        keys: quoted: the JSON text without blanks, as Confluent writes it. plain: a string's own
            text, an integer's digits or a boolean, as the native API writes the key.

    Raises:
        Refused: The key is invalid.
    """
    if text == b"null":
        return None
    if text[:1] == b'"':
        if keys == "quoted":
            return msgspec.json.encode(_text(text).decode())
        return _text(text)
    if keys == "quoted":
        return _compact(text)
    if text[:1] in (b"{", b"[") or not (text in (b"true", b"false") or _is_integer(text)):
        detail = 'the key is no string, integer or boolean (compat_json_keys = "plain")'
        raise Refused(Failure(Reason.INVALID_KEY, detail))
    return text


def _text(text: bytes) -> bytes:
    decoded = string_bytes(text)
    if decoded is None:
        raise Refused(malformed("the key is no valid JSON string"))
    return decoded


def _compact(text: bytes) -> bytes:
    try:
        return msgspec.json.format(text, indent=-1)
    except (msgspec.DecodeError, RecursionError):
        raise Refused(malformed("the key is no valid JSON, or has a lone surrogate")) from None


def _is_integer(text: bytes) -> bool:
    return text.removeprefix(b"-").isdigit()


def string_bytes(text: bytes) -> bytes | None:
    """Return the UTF-8 of a JSON string; None for other JSON and for a lone surrogate."""
    try:
        return _TEXT.decode(text).encode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def base64_bytes(text: bytes, what: str) -> bytes | None:
    """Return the bytes of a base64 string in JSON; None for null. Raises Refused."""
    if text == b"null":
        return None
    try:
        return _from_base64(_TEXT.decode(text))
    except (msgspec.DecodeError, binascii.Error, ValueError, UnicodeDecodeError):
        raise Refused(malformed(f"{what} is not a base64 string")) from None


def _from_base64(text: str) -> bytes:
    """Decode base64; padding is optional, as in kafka-rest. Raises ValueError."""
    bare = text.rstrip("=")
    return base64.b64decode(bare + "=" * (-len(bare) % 4), validate=True)


def record_headers(
    given: Sequence[tuple[str, str | None]], count: HeaderCount
) -> tuple[bytes | None, tuple[Header, ...]]:
    """Return the content type, if there is one, and the other record headers.

    The gateway's own names are dropped.

    Args:
        given: Names and base64 values; a value may be null.
        count: The counter for the headers of all records of the request.

    Raises:
        Refused: A header is invalid, or there are too many.
    """
    count.take(len(given))
    content_type: bytes | None = None
    others: list[Header] = []
    for name, encoded in given:
        if not 0 < len(name) <= 256 or _CONTROL.search(name) is not None:
            detail = "1 to 256 characters, no control characters"
            raise Refused(malformed(f"header name {brief(name)}: {detail}"))
        try:
            value = None if encoded is None else _from_base64(encoded)
        except ValueError:  # binascii.Error is one
            raise Refused(malformed(f"header {brief(name)} is not a base64 string")) from None
        if name.lower() == CONTENT_TYPE:
            content_type = value
        elif not is_own(name):
            others.append((name, value))
    return content_type, tuple(others)


def check_key_text(text: bytes, max_bytes: int) -> None:
    """Raise Refused if the JSON text is too long for any key, before it is decoded."""
    if len(text) > max_bytes * _ESCAPED_BYTES + 2:
        raise Refused(long_key(max_bytes))


# ---- v2: a request's records, and the response with their offsets


V2_TYPE = "application/vnd.kafka.v2+json"
_NOTHING = (b"", b"null")
_EMPTY = "the request: `records` must not be empty"


class Format(Enum):
    """Encoding of keys and values in the request's JSON."""

    JSON = "application/vnd.kafka.json.v2+json"
    BINARY = "application/vnd.kafka.binary.v2+json"
    TEXT = "application/vnd.kafka.text.v2+json"


class _V2Header(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    value: str | None = None


class _V2Record(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw = ABSENT
    value: msgspec.Raw = ABSENT
    partition: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, lt=10**15)] | None = None
    headers: list[_V2Header] | None = None


class _V2Request(msgspec.Struct, forbid_unknown_fields=True):
    records: msgspec.Raw = ABSENT
    key_schema: msgspec.Raw = ABSENT
    key_schema_id: msgspec.Raw = ABSENT
    value_schema: msgspec.Raw = ABSENT
    value_schema_id: msgspec.Raw = ABSENT


_v2_request = StructReader(_V2Request, "the request", Reason.SCHEMA_VIOLATION)
_v2_record = StructReader(_V2Record, "a record", Reason.SCHEMA_VIOLATION)


def format_of(content_type: bytes) -> Format | None:
    """Return the format of a Content-Type; None for any other type."""
    media_type = content_type.partition(b";")[0].strip().lower().decode("latin-1")
    return next((form for form in Format if form.value == media_type), None)


def read_records(
    body: bytes,
    form: Format,
    keys: CompatJsonKeys,
    partition: int | None,
    limit: int,
    key_max_bytes: int = KEY_MAX_BYTES,
) -> list[RawEvent | Failure]:
    """Return the records of a request.

    An invalid record refuses the request, as in Confluent's API. Only an impossible partition or a
    key that is too long refuses just the record.

    Args:
        body: The body of the request.
        form: The encoding of keys and values.
        keys: The form of JSON keys.
        partition: The partition from the path; a record's own partition takes precedence.
        limit: Maximum number of records.
        key_max_bytes: Maximum size of a key.

    Raises:
        Refused: The request is invalid.
    """
    if body.strip() in _NOTHING:
        raise unfit("the request: null or empty; data is required")
    records = bytes(_v2_request.read(body).records)
    if records in _NOTHING:
        raise unfit(_EMPTY)
    if records[:1] != b"[":
        raise Refused(malformed("the request: `records` is not an array"))
    if is_crowd(records, limit):
        detail = f"more than http.batch_max_events = {limit} records in one request"
        raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))
    texts = elements(records)
    if not texts:
        raise unfit(_EMPTY)
    count = HeaderCount()
    return [
        _v2_event(_v2_record.read(text), form, keys, partition, key_max_bytes, count)
        for text in texts
    ]


def _v2_event(
    record: _V2Record,
    form: Format,
    keys: CompatJsonKeys,
    partition: int | None,
    key_max_bytes: int,
    count: HeaderCount,
) -> RawEvent | Failure:
    key, value = bytes(record.key) or b"null", bytes(record.value) or b"null"
    try:
        own = partition_of(partition if record.partition is None else record.partition)
        check_key_text(key, key_max_bytes)
    except Refused as refused:
        return refused.failure
    given = [(header.key, header.value) for header in record.headers or ()]
    own_type, headers = record_headers(given, count)
    is_document = form is Format.JSON and value != b"null"
    return RawEvent(
        value=value if is_document else _v2_bytes(value, form, "value"),
        document=value if is_document else None,
        key=json_key(key, keys) if form is Format.JSON else _v2_bytes(key, form, "key"),
        timestamp_ms=record.timestamp,
        content_type=own_type or (_JSON if is_document else None),
        headers=headers,
        partition=own,
    )


def _v2_bytes(text: bytes, form: Format, name: str) -> bytes | None:
    if text == b"null":
        return None
    if form is not Format.TEXT:
        return base64_bytes(text, f"a record's {name}")
    encoded = string_bytes(text)
    if encoded is None:
        raise unfit(f"a record's {name}: the format is text, so it must be a string")
    return encoded


def produced(outcomes: Sequence[Outcome]) -> Reply:
    """Return the response: 200 and an entry for each record, also for failed records."""
    entries = [_v2_entry(outcome) for outcome in outcomes]
    page = {"offsets": entries, "key_schema_id": None, "value_schema_id": None}
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    return Reply(200, V2_TYPE, retry_after(failures), json_text(page).encode())


def _v2_entry(outcome: Outcome) -> dict[str, int | str | None]:
    failure = outcome.failure
    if failure is None:
        position = {"partition": outcome.partition, "offset": outcome.offset}
        return {**position, "error_code": None, "error": None}
    code = record_code_of(failure)
    return {"partition": None, "offset": None, "error_code": code, "error": failure.detail}


# ---- v3: a record of a stream, and the report of its outcome


V3_TYPE = "application/json"
_WITH_SCHEMA = (None, "AVRO", "JSONSCHEMA", "PROTOBUF")  # None: the type of the newest schema
_SCHEMA_MEMBERS = ("subject", "subject_name_strategy", "schema_id", "schema_version", "schema")


class _V3Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: str | None = None


class _V3Record(msgspec.Struct, forbid_unknown_fields=True):
    partition_id: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    headers: list[_V3Header] | None = None
    key: msgspec.Raw = ABSENT
    value: msgspec.Raw = ABSENT
    timestamp: str | None = None


class _V3Datum(msgspec.Struct, forbid_unknown_fields=True):
    type: str | None = None
    data: msgspec.Raw = ABSENT
    subject: msgspec.Raw = ABSENT
    subject_name_strategy: msgspec.Raw = ABSENT
    schema_id: msgspec.Raw = ABSENT
    schema_version: msgspec.Raw = ABSENT
    schema: msgspec.Raw = ABSENT


_v3_record = StructReader(_V3Record, "Bad Request: the record")
_v3_readers = {
    "key": StructReader(_V3Datum, "Bad Request: the record's key"),
    "value": StructReader(_V3Datum, "Bad Request: the record's value"),
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
    record = _v3_record.read(text)
    key_type, key = _v3_datum("key", record.key, keys, key_max_bytes)
    value_type, value = _v3_datum("value", record.value, keys)
    is_document = value_type == "JSON" and value is not None
    given = [(header.name, header.value) for header in record.headers or ()]
    own_type, headers = record_headers(given, count or HeaderCount())
    event = RawEvent(
        value=value,
        document=value if is_document else None,
        key=key,
        timestamp_ms=_v3_time(record.timestamp),
        content_type=own_type or (_JSON if is_document else None),
        headers=headers,
        partition=partition_of(record.partition_id),
    )
    return event, Sent(_v3_size(key_type, key), _v3_size(value_type, value))


def _v3_size(kind: str, data: bytes | None) -> tuple[str, int] | None:
    return None if data is None else (kind, len(data))


def _v3_datum(
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
    datum = _v3_readers[name].read(raw)
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


def _v3_time(given: str | None) -> int | None:
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
