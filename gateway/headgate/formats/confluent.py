"""Shared parts of Confluent's REST v2 and v3: JSON keys and values, error codes, errors.

Source: confluentinc/kafka-rest (`Errors.java`, `resources/v2/AbstractProduceAction.java`,
`api/v3/openapi.yaml`). The codes are Confluent's. If there is none for a failure, the nearest
one with the same meaning for a retry is used.
"""

import base64
import binascii
import re
from collections.abc import Sequence

import msgspec

from headgate.model.outcome import TRAITS, Failure, Reason, Refused, brief, long_key, malformed
from headgate.model.policy import CompatJsonKeys
from headgate.model.publish import SPREAD
from headgate.model.record import CONTENT_TYPE, Header
from headgate.model.reply import Reply, advice_headers, json_text
from headgate.model.request import HeaderCount, is_own

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
