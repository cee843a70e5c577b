"""Conversion of CloudEvents 1.0 over HTTP to Kafka records.

Sources: CloudEvents 1.0.2 JSON format, HTTP protocol binding (percent-encoded `ce-` headers) and
Kafka protocol binding (`ce_` headers, `content-type`, the data as the value). In addition to
the binding, an event without data becomes a zero-length value: a tombstone needs an explicit
request.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote_to_bytes

import msgspec

from headgate.formats.json_text import elements, members
from headgate.model.content import is_json
from headgate.model.outcome import Failure, Reason, Refused, brief, malformed
from headgate.model.publish import RawEvent
from headgate.model.request import HeaderCount

_REQUIRED = ("id", "source", "specversion", "type")
_STRUCTURED = b"application/cloudevents+json"
_JSON = b"application/json"
_TEXT = msgspec.json.Decoder(str)
_LONGEST_TIME = 64  # characters; no clock measures a fraction with more digits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-9]{2}:)([0-9]{2})"
    r"(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)


def from_headers(body: bytes, headers: Mapping[bytes, bytes], structured: bool) -> RawEvent:
    """Read an event in HTTP binary mode: attributes in `ce-` headers, data in the body.

    Args:
        body: The data.
        headers: The headers of the request, names in lower case.
        structured: Whether the record's value is the whole CloudEvent as JSON.

    Raises:
        Refused: The event is malformed.
    """
    attributes: dict[str, str] = {}
    for name, value in headers.items():
        if name.startswith(b"ce-"):
            attributes[_name(name[3:].decode("ascii", "replace"))] = _percent_decoded(value)
    content_type = headers.get(b"content-type")
    if content_type is not None:
        attributes["datacontenttype"] = content_type.decode("latin-1")
    _check(attributes)
    if structured:
        return _structured_from(body, attributes)
    return _binary(body, attributes)


def from_json(text: bytes, structured: bool, count: HeaderCount | None = None) -> RawEvent:
    """Read an event in structured mode: one CloudEvent as a JSON object.

    A member that is null counts as absent. A null `data` counts as absent only next to
    `data_base64`; alone it is the document `null`.

    Args:
        text: The JSON object.
        structured: Whether the record's value is the whole CloudEvent as JSON.
        count: The counter for the attributes of all events of the request.

    Raises:
        Refused: The event is malformed.
    """
    attributes: dict[str, str] = {}
    data: bytes | None = None
    encoded: str | None = None
    fields = members(text)
    (count or HeaderCount()).take(len(fields))
    for name, value in fields.items():
        if name == "data":
            data = value
        elif value == b"null":
            continue
        elif name == "data_base64":
            encoded = _string(name, value)
        else:
            attributes[_name(name)] = _attribute(name, value)
    if data == b"null" and encoded is not None:
        data = None
    if data is not None and encoded is not None:
        raise Refused(malformed("a CloudEvent has either data or data_base64, not both"))
    _check(attributes)
    content = _content(data, encoded, attributes)
    if not structured:
        return _binary(content, attributes)
    return _binary(content, attributes)._replace(value=text, content_type=_STRUCTURED, headers=())


def batch(text: bytes, structured: bool) -> list[RawEvent | Failure]:
    """Read a JSON array of CloudEvents; a Failure replaces each invalid event."""
    events: list[RawEvent | Failure] = []
    count = HeaderCount()
    for element in elements(text):
        try:
            events.append(from_json(element, structured, count))
        except Refused as refused:
            events.append(refused.failure)
    return events


def time_ms(time: str) -> int:
    """Convert an RFC 3339 time to milliseconds since 1970. Raises Refused."""
    wrong = Refused(malformed(f"the CloudEvents time {brief(time)} is not RFC 3339"))
    match = _TIME.fullmatch(time.upper()) if len(time) <= _LONGEST_TIME else None
    if match is None:
        raise wrong
    minute, second, fraction, zone = match.groups(default="")
    second = "59" if second == "60" else second  # Unix time has no leap seconds
    try:
        moment = datetime.fromisoformat(minute + second + fraction + zone)
    except ValueError:
        raise wrong from None
    return (moment - _EPOCH) // _MS


def _binary(content: bytes, attributes: Mapping[str, str]) -> RawEvent:
    key = attributes.get("partitionkey") or attributes.get("subject")
    if attributes.get("partitionkey") == "":  # otherwise the subject would be the key
        detail = "the CloudEvents attribute 'partitionkey' is empty"
        raise Refused(Failure(Reason.MISSING_KEY, detail))
    content_type = attributes.get("datacontenttype")
    time = attributes.get("time")
    document = content if content and _is_json(content_type) else None
    if document is not None:
        _check_utf8(document)
    return RawEvent(
        value=content,
        document=document,
        key=key.encode() if key else None,
        event_id=attributes["id"],
        timestamp_ms=time_ms(time) if time else None,
        content_type=content_type.encode() if content_type else _JSON if content else None,
        headers=tuple(
            (f"ce_{name}", value.encode())
            for name, value in attributes.items()
            if name != "datacontenttype"
        ),
        source=attributes["source"],
    )


def _check_utf8(document: bytes) -> None:
    """Raise Refused if a document is not UTF-8, which the rest of the gateway assumes."""
    try:
        document.decode()
    except UnicodeDecodeError as error:
        raise Refused(malformed(f"invalid UTF-8 at byte {error.start} of the data")) from None


def _structured_from(body: bytes, attributes: dict[str, str]) -> RawEvent:
    """Convert an event from binary to structured mode; its value is new JSON."""
    plain = _binary(body, attributes)
    fields: dict[str, object] = dict(attributes)
    if plain.document is not None:
        fields["data"] = msgspec.Raw(body)
    elif body:
        fields["data_base64"] = base64.b64encode(body).decode()
    return plain._replace(value=msgspec.json.encode(fields), content_type=_STRUCTURED, headers=())


def _content(data: bytes | None, encoded: str | None, attributes: Mapping[str, str]) -> bytes:
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise Refused(malformed("data_base64 is not base64")) from None
    if data is None:
        return b""
    if data[:1] == b'"' and not _is_json(attributes.get("datacontenttype")):
        return _string("data", data).encode()
    return data


def _is_json(content_type: str | None) -> bool:
    return content_type is None or is_json(content_type)


def _check(attributes: Mapping[str, str]) -> None:
    for name in _REQUIRED:
        if not attributes.get(name):
            raise Refused(malformed(f"the CloudEvents attribute {brief(name)} is missing or empty"))
    if attributes["specversion"] != "1.0":
        detail = f"CloudEvents specversion {brief(attributes['specversion'])}: only 1.0 is known"
        raise Refused(malformed(detail))


def _name(name: str) -> str:
    if not (name.isascii() and name.isalnum() and name == name.lower()):
        detail = f"the CloudEvents attribute name {brief(name)} has more than a-z and 0-9"
        raise Refused(malformed(detail))
    return name


def _string(name: str, value: bytes) -> str:
    try:
        return _TEXT.decode(value)
    except msgspec.DecodeError:
        raise Refused(malformed(f"the CloudEvents member {brief(name)} is not a string")) from None


def _attribute(name: str, value: bytes) -> str:
    """Return an attribute's canonical text: a string, an integer or a boolean."""
    if value[:1] == b'"':
        return _string(name, value)
    is_word = value in (b"true", b"false")
    if not is_word and not value.removeprefix(b"-").isdigit():
        raise Refused(
            malformed(f"the CloudEvents attribute {brief(name)} is no string, integer or boolean")
        )
    return value.decode()


def _percent_decoded(value: bytes) -> str:
    # Earlier versions of the binding quoted instead of percent-encoding (1.0.2, section 3.1.3.2).
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        value = _ESCAPE.sub(rb"\1", quoted[1])
    try:
        return unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        failure = Failure(Reason.MALFORMED, "a ce- header is not UTF-8 after percent-decoding")
        raise Refused(failure) from None
