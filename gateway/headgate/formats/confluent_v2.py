"""Confluent REST v2, produce part: a request's records, and the response with their offsets.

Source: confluentinc/kafka-rest, `resources/v2/ProduceToTopicAction.java` and
`entities/v2/ProduceResponse.java`. A record's `headers` and `timestamp` and the format
text come from the Strimzi Kafka Bridge (`src/main/resources/openapi.json`), which uses the same
paths and types.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Annotated

import msgspec

from headgate.formats.confluent import (
    base64_bytes,
    check_key_text,
    json_key,
    partition_of,
    record_code_of,
    record_headers,
    string_bytes,
    unfit,
)
from headgate.formats.json_text import elements, is_crowd
from headgate.formats.structs import ABSENT, StructReader
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import Failure, Outcome, Reason, Refused, malformed
from headgate.model.policy import CompatJsonKeys
from headgate.model.publish import RawEvent
from headgate.model.reply import Reply, json_text, retry_after
from headgate.model.request import HeaderCount

TYPE = "application/vnd.kafka.v2+json"
_JSON = b"application/json"
_NOTHING = (b"", b"null")
_EMPTY = "the request: `records` must not be empty"


class Format(Enum):
    """Encoding of keys and values in the request's JSON."""

    JSON = "application/vnd.kafka.json.v2+json"
    BINARY = "application/vnd.kafka.binary.v2+json"
    TEXT = "application/vnd.kafka.text.v2+json"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    key: str
    value: str | None = None


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    key: msgspec.Raw = ABSENT
    value: msgspec.Raw = ABSENT
    partition: Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)] | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, lt=10**15)] | None = None
    headers: list[_Header] | None = None


class _Request(msgspec.Struct, forbid_unknown_fields=True):
    records: msgspec.Raw = ABSENT
    key_schema: msgspec.Raw = ABSENT
    key_schema_id: msgspec.Raw = ABSENT
    value_schema: msgspec.Raw = ABSENT
    value_schema_id: msgspec.Raw = ABSENT


_request = StructReader(_Request, "the request", Reason.SCHEMA_VIOLATION)
_record = StructReader(_Record, "a record", Reason.SCHEMA_VIOLATION)


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
    records = bytes(_request.read(body).records)
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
        _event(_record.read(text), form, keys, partition, key_max_bytes, count) for text in texts
    ]


def _event(
    record: _Record,
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
        value=value if is_document else _bytes(value, form, "value"),
        document=value if is_document else None,
        key=json_key(key, keys) if form is Format.JSON else _bytes(key, form, "key"),
        timestamp_ms=record.timestamp,
        content_type=own_type or (_JSON if is_document else None),
        headers=headers,
        partition=own,
    )


def _bytes(text: bytes, form: Format, name: str) -> bytes | None:
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
    entries = [_entry(outcome) for outcome in outcomes]
    page = {"offsets": entries, "key_schema_id": None, "value_schema_id": None}
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    return Reply(200, TYPE, retry_after(failures), json_text(page).encode())


def _entry(outcome: Outcome) -> dict[str, int | str | None]:
    failure = outcome.failure
    if failure is None:
        position = {"partition": outcome.partition, "offset": outcome.offset}
        return {**position, "error_code": None, "error": None}
    code = record_code_of(failure)
    return {"partition": None, "offset": None, "error_code": code, "error": failure.detail}
