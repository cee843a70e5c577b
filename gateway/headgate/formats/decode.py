"""Decoding of a request's body into events by content type, independent of topics."""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from itertools import permutations
from typing import Final

from headgate.formats import cloudevents, envelope
from headgate.formats.json_text import NO_KEY_AT, elements, is_crowd
from headgate.model.content import INLINE_BYTES, Comparison, Digester, Pointer
from headgate.model.keys import KEY_MAX_BYTES, KeyRule
from headgate.model.outcome import Failure, Reason, Refused, malformed
from headgate.model.policy import TopicPolicy
from headgate.model.publish import Event, RawEvent
from headgate.model.request import is_array_one_event, is_tombstone
from headgate.model.route import Scanner
from headgate.model.topics import TopicState
from headgate.native import chosen

Headers = Mapping[bytes, bytes]  # a request's headers, names in lower case

JSON = b"application/json"
_MAX_EVENTS = 1_000_000  # the largest http.batch_max_events
_LINE = re.compile(rb"\S[^\n]*")  # from a line's first character to its end
_BOM: Final = b"\xef\xbb\xbf"


class Decoded:
    """Events of a request, in their order.

    Args:
        events: A Failure replaces an event that could not be decoded. Bytes are a JSON document
            without further attributes, the case that must be cheap.
        is_batch: Whether the response is a batch response.
        is_plain: Whether the scanner read all events as plain documents (the fast path below).
        keys: The keys that the scanner found; None if the topic has no key rule.
        partitions: The partitions of these keys.
        digests: The digests; None if the topic does not suppress or has no keys. A digest is None
            if the slow path must make the canonical form.
    """

    __slots__ = ("digests", "events", "is_batch", "is_plain", "keys", "partitions")

    def __init__(
        self,
        events: Sequence[Event],
        is_batch: bool,
        *,
        is_plain: bool = False,
        keys: list[bytes] | None = None,
        partitions: list[int] | None = None,
        digests: list[bytes | None] | None = None,
    ) -> None:
        self.events = events
        self.is_batch: Final = is_batch
        self.is_plain: Final = is_plain
        self.keys: Final = keys
        self.partitions: Final = partitions
        self.digests: Final = digests


class BodyKind(Enum):
    """Format of a body, which decides its division into events."""

    JSON = "json"
    JSON_ONE = "json_one"  # any other +json: always one event
    NDJSON = "ndjson"
    CLOUDEVENT = "cloudevent"
    CLOUDEVENTS = "cloudevents"
    ENVELOPE = "envelope"
    OPAQUE = "opaque"


_KINDS: Final = {
    b"application/json": BodyKind.JSON,
    b"text/json": BodyKind.JSON,
    b"application/x-ndjson": BodyKind.NDJSON,
    b"application/ndjson": BodyKind.NDJSON,
    b"application/cloudevents+json": BodyKind.CLOUDEVENT,
    b"application/cloudevents-batch+json": BodyKind.CLOUDEVENTS,
    envelope.TYPE: BodyKind.ENVELOPE,
}


def kind_of(content_type: bytes) -> BodyKind:
    """Return the format that a Content-Type names; parameters such as charset are ignored."""
    kind = _KINDS.get(content_type)  # the usual spelling
    if kind is not None:
        return kind
    media_type = content_type.partition(b";")[0].strip().lower()
    kind = _KINDS.get(media_type)
    if kind is not None:
        return kind
    return BodyKind.JSON_ONE if media_type.endswith(b"+json") else BodyKind.OPAQUE


def is_plain_json(content_type: bytes) -> bool:
    """Return whether data of this type is JSON without an event format (CloudEvents, envelope).

    `model.content.is_json` accepts those, too.
    """
    return kind_of(content_type) in (BodyKind.JSON, BodyKind.JSON_ONE)


def decode(
    body: bytes, headers: Headers, structured: bool = False, limit: int = _MAX_EVENTS
) -> Decoded:
    """Cut a body into events, each value the exact slice that the producer sent.

    JSON documents are cut but not validated: the topic's KeyReader validates them when it reads the
    key.

    Args:
        body: The body of the request.
        headers: The headers of the request, names in lower case.
        structured: Whether to keep CloudEvents as JSON instead of Kafka's binary mode.
        limit: Maximum number of events. A body with many more is refused before it is cut,
            because each slice costs about 100 bytes and may be only two bytes long.

    Raises:
        Refused: The request as a whole is malformed.
    """
    content_type = headers.get(b"content-type", b"application/octet-stream")
    if b"headgate-tombstone" in headers and is_tombstone(headers):
        return Decoded([_tombstone(body, headers)], False)
    if b"ce-specversion" in headers:
        return Decoded([cloudevents.from_headers(body, headers, structured)], False)
    kind = kind_of(content_type)
    if kind is BodyKind.OPAQUE:
        return Decoded([RawEvent(body, None, content_type=content_type)], False)
    _refuse_unreadable(body)
    if kind is BodyKind.JSON:
        return _json(body, headers, limit)
    return _DECODERS[kind](body, content_type, structured, limit)


def _refuse_unreadable(body: bytes) -> None:
    if not body:
        raise Refused(malformed("the body is empty"))
    if body.startswith(_BOM):
        raise Refused(malformed("the body begins with a byte order mark"))


# ---- decoders of the formats: body, content type, `structured` and limit of events


def _json(body: bytes, headers: Headers, limit: int) -> Decoded:
    """Decode a document, or an array of events unless a header calls it one event."""
    may_be_batch = b"headgate-batch" not in headers or not is_array_one_event(headers)
    if may_be_batch and body.lstrip(b" \t\r\n").startswith(b"["):
        return Decoded(_elements(body, limit), True)
    return Decoded([_utf8(body)], False)


def _json_one(body: bytes, content_type: bytes, _structured: bool, _limit: int) -> Decoded:
    return Decoded([RawEvent(_utf8(body), body, content_type=content_type)], False)


def _ndjson(body: bytes, _content_type: bytes, _structured: bool, limit: int) -> Decoded:
    return Decoded(_lines(body, limit), True)


def _cloudevent(body: bytes, _content_type: bytes, structured: bool, _limit: int) -> Decoded:
    return Decoded([cloudevents.from_json(_utf8(body), structured)], False)


def _cloudevents(body: bytes, _content_type: bytes, structured: bool, limit: int) -> Decoded:
    _refuse_crowd(body, limit)
    return Decoded([*cloudevents.batch(_utf8(body), structured)], True)


def _envelope(body: bytes, _content_type: bytes, _structured: bool, limit: int) -> Decoded:
    return Decoded([*envelope.read_envelope(body, limit)], True)


_DECODERS: Final[dict[BodyKind, Callable[[bytes, bytes, bool, int], Decoded]]] = {
    BodyKind.JSON_ONE: _json_one,
    BodyKind.NDJSON: _ndjson,
    BodyKind.CLOUDEVENT: _cloudevent,
    BodyKind.CLOUDEVENTS: _cloudevents,
    BodyKind.ENVELOPE: _envelope,
}


def _tombstone(body: bytes, headers: Headers) -> RawEvent:
    if body:
        raise Refused(malformed("a tombstone must have an empty body: this body would be lost"))
    if b"ce-specversion" in headers:
        return cloudevents.from_headers(body, headers, False)._replace(value=None)
    return RawEvent(None, None, content_type=headers.get(b"content-type"))


def _utf8(text: bytes) -> bytes:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise Refused(malformed(f"invalid UTF-8 at byte {error.start}")) from None
    return text


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lines(body: bytes, limit: int) -> list[bytes | RawEvent | Failure]:
    texts = body.split(b"\n", limit + 1)
    if len(texts) > limit + 1:
        texts = _few_lines(body, limit)
    else:
        texts = [line for line in texts if line and not line.isspace()]
    if b"\r" in body:
        texts = [line.removesuffix(b"\r") for line in texts]
    return _documents(texts, _is_utf8(body))


def _few_lines(body: bytes, limit: int) -> list[bytes]:
    """Return the lines that are not blank, without a slice for blank ones. Raises Refused."""
    texts: list[bytes] = []
    for line in _LINE.finditer(body):
        if len(texts) == limit:
            raise _too_many(limit)
        texts.append(body[body.rfind(b"\n", 0, line.start()) + 1 : line.end()])
    return texts


def _refuse_crowd(body: bytes, limit: int) -> None:
    if is_crowd(body, limit):
        raise _too_many(limit)


def _too_many(limit: int) -> Refused:
    detail = f"more than http.batch_max_events = {limit} events in one request"
    return Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": limit}))


def _elements(body: bytes, limit: int) -> list[bytes | RawEvent | Failure]:
    _refuse_crowd(body, limit)
    return _documents(elements(body), _is_utf8(body))


def _documents(texts: list[bytes], checked: bool) -> list[bytes | RawEvent | Failure]:
    """Return documents, and failures for those that are not UTF-8.

    Args:
        texts: The slices of the body.
        checked: Whether the whole body is UTF-8; then its slices at ASCII characters are, too.
    """
    if checked:
        return [*texts]
    documents: list[bytes | RawEvent | Failure] = []
    for text in texts:
        try:
            documents.append(_utf8(text))
        except Refused as refused:
            documents.append(refused.failure)
    return documents


# ---- hints for refused bodies

_HINTED = frozenset((Reason.MALFORMED, Reason.MISSING_KEY, Reason.INVALID_KEY))
_HEAD_BYTES = 4096
_TYPE_SHOWN_BYTES = 60
_ENVELOPE = re.compile(rb'\s*\{\s*"events"\s*:\s*\[')
_CLOUDEVENT = re.compile(rb'\s*\{[^\[{]*"specversion"\s*:')
_LINES = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_RECORDS = re.compile(rb'\s*\{\s*"records"\s*:\s*\[')
_JOINED = re.compile(rb"\}[ \t]*\{")  # documents without a line end between them
_JSON_LIKE = re.compile(rb'\s*[\[{"]')


def with_hint(failure: Failure, headers: Mapping[bytes, bytes], body: bytes) -> Failure:
    """Return the failure with a hint about the likely format of the body."""
    if failure.reason not in _HINTED or b"ce-specversion" in headers:
        return failure
    is_tombstone = not body and b"headgate-tombstone" in headers
    if is_tombstone and failure.reason is Reason.MALFORMED:
        return failure  # there is no body whose format could be wrong
    head, content_type = body[:_HEAD_BYTES], headers.get(b"content-type")
    kind = BodyKind.OPAQUE if content_type is None else kind_of(content_type)
    if failure.reason is Reason.MISSING_KEY and is_tombstone:
        fix = "" if "Headgate-Key" in failure.detail else ": send the header Headgate-Key"
        hint: str | None = f"A tombstone has no value with a key{fix}"
    elif failure.reason is Reason.MISSING_KEY and _RECORDS.match(head):
        hint = "This is a body for Confluent's REST Proxy: post it to /topics/TOPIC"
    elif kind in (BodyKind.JSON, BodyKind.NDJSON) and _is_joined(failure, head):
        hint = "The line ends are missing: with curl, send NDJSON with --data-binary, not -d"
    else:
        hint = _hint(content_type, head)
    if hint is None and failure.detail.startswith(NO_KEY_AT):
        hint = _hint_for_key(kind, head)
    return failure if hint is None else failure._replace(detail=f"{failure.detail}. {hint}")


def _is_joined(failure: Failure, head: bytes) -> bool:
    """Return whether JSON documents follow each other in one line."""
    is_line = failure.reason is Reason.MALFORMED and b"\n" not in head.strip()
    return is_line and _JOINED.search(head) is not None


def _hint(content_type: bytes | None, head: bytes) -> str | None:
    kind = BodyKind.OPAQUE if content_type is None else kind_of(content_type)
    wanted = _wanted(kind, head)
    if kind is BodyKind.OPAQUE:
        return f"{_received(content_type)}: send Content-Type: {wanted or 'application/json'}"
    if wanted is None:
        return None
    return f"The body looks like another type: send Content-Type: {wanted}"


def _hint_for_key(kind: BodyKind, head: bytes) -> str | None:
    """Return a hint for a JSON document without the key."""
    if kind not in (BodyKind.JSON, BodyKind.JSON_ONE, BodyKind.NDJSON):
        return None
    first = head.lstrip()
    is_array = kind is BodyKind.JSON and first[:1] == b"["
    if is_array:
        first = first[1:].lstrip()
    if first[:1] == b'"':
        return "The event is a JSON string, not an object: is it encoded twice?"
    if first[:1] == b"{" and not is_array and kind is not BodyKind.NDJSON:
        return "The header Headgate-Key can also give the key"
    return None


def _received(content_type: bytes | None) -> str:
    if content_type is None:
        return "Without a Content-Type the body is opaque bytes, and no key is looked for in it"
    shown = content_type[:_TYPE_SHOWN_BYTES].decode("ascii", "replace")
    return f"A body of Content-Type {shown!r} is opaque bytes, and no key is looked for in it"


def _wanted(kind: BodyKind, head: bytes) -> str | None:
    """Return the Content-Type of the body's likely format, if it differs."""
    if kind is not BodyKind.ENVELOPE and _ENVELOPE.match(head):
        return "application/vnd.headgate.batch+json"
    if kind not in (BodyKind.CLOUDEVENT, BodyKind.CLOUDEVENTS) and _CLOUDEVENT.match(head):
        return "application/cloudevents+json"
    if kind is not BodyKind.NDJSON and _LINES.match(head):
        return "application/x-ndjson"
    if kind is BodyKind.NDJSON and head.lstrip()[:1] == b"[":
        return "application/json"
    return "application/json" if kind is BodyKind.OPAQUE and _JSON_LIKE.match(head) else None


# ---- fast path for plain bodies: one pass in C reads values, keys, partitions and digests
#
# Only the compiled build has `_scanner` (setup.py). Its results equal those of `decode`,
# `ingest.records.build_record` and the topic's digest, which read every body that the scanner does
# not accept.


# Looking a member up in an Enum class costs 0.1 us in Python 3.11.
_JSON: Final = BodyKind.JSON
_NDJSON: Final = BodyKind.NDJSON
_MAX_PARTS: Final = 4  # parts of a key
_MAX_NAMES: Final = 16  # names in the pointers to them, as in native/_json_strings.h


# The key of the hash, its input before each value, the pointers that canonical forms ignore (None:
# no canonical forms), and the maximum size of a document with a canonical form.
_Digests = tuple[bytes | None, bytes, tuple[tuple[bytes, ...], ...] | None, int]
_NO_DIGESTS: Final[_Digests] = (None, b"", None, 0)


def scanner_for(
    policy: TopicPolicy,
    lane: TopicState,
    json_max_depth: int,
    compared: Digester | Comparison | None,
    key_max_bytes: int = KEY_MAX_BYTES,
) -> Scanner | None:
    """Return a scanner for the topic, or None if a scanner cannot read its plain documents.

    Args:
        policy: The policy of the topic.
        lane: The topic that its events are written to.
        json_max_depth: Maximum depth of nested arrays and objects.
        compared: Computes the digests; None if the topic does not suppress, or if its events get
            their digests later.
        key_max_bytes: Maximum size of a key, in bytes.
    """
    pointers = KeyRule.parse(policy.key).pointers
    if chosen.Scanner is None or not _is_readable(pointers, _MAX_PARTS):
        return None
    if not pointers and policy.keyless != "spread":
        return None  # the key of each event must come from its request
    limit = lane.batch_limit_bytes if policy.max_bytes is None else policy.max_bytes
    # Events without a key are not compared. With a digest, suppression would settle them anyway.
    digests = _digests(compared) if pointers else _NO_DIGESTS
    scanner: Scanner = chosen.Scanner(
        _encoded(pointers), lane.partitions, json_max_depth, limit, *digests, key_max_bytes
    )
    return scanner


def _digests(compared: Digester | Comparison | None) -> _Digests:
    if compared is None:
        return _NO_DIGESTS
    if isinstance(compared, Digester):
        return (*compared.of_documents, None, 0)
    ignore = _shortest(compared.ignore)
    if not _is_readable(ignore, _MAX_NAMES):
        return _NO_DIGESTS
    max_bytes = min(compared.max_bytes, INLINE_BYTES)
    return (*compared.forms.of_documents, _encoded(ignore), max_bytes)


def _shortest(pointers: Sequence[Pointer]) -> tuple[Pointer, ...]:
    """Drop pointers into a value that another pointer already ignores."""
    given = dict.fromkeys(pointers)
    return tuple(
        pointer
        for pointer in given
        if all(pointer[:depth] not in given for depth in range(len(pointer)))
    )


def _encoded(pointers: Sequence[Pointer]) -> tuple[tuple[bytes, ...], ...]:
    return tuple(tuple(name.encode() for name in pointer) for pointer in pointers)


def _is_readable(pointers: Sequence[Pointer], limit: int) -> bool:
    """Return whether the scanner supports the pointers: few, and none inside another one."""
    names = {pointer[:depth] for pointer in pointers for depth in range(1, len(pointer) + 1)}
    is_apart = all(outer != inner[: len(outer)] for outer, inner in permutations(pointers, 2))
    return is_apart and () not in pointers and len(pointers) <= limit and len(names) <= _MAX_NAMES


def scan(
    scanner: Scanner, body: bytes, headers: Mapping[bytes, bytes], limit: int
) -> Decoded | None:
    """Decode a body with the scanner; None if `decode` must read it.

    Only for requests whose headers set nothing but the id of a single event
    (`RequestOptions.is_plain`).

    Args:
        scanner: The scanner of the topic.
        body: The body of the request.
        headers: The headers of the request, names in lower case.
        limit: Maximum number of events.
    """
    if b"ce-specversion" in headers or b"headgate-batch" in headers:
        return None
    kind, is_batch = kind_of(headers.get(b"content-type", b"")), True
    if kind is _NDJSON:
        scanned = scanner.lines(body, limit)
    elif kind is not _JSON:
        return None
    elif body[:1] == b"{":
        scanned, is_batch = scanner.one(body), False
    else:
        scanned = scanner.elements(body, limit)
    if scanned is None:
        return None
    values, keys, partitions, digests = scanned
    return Decoded(
        values, is_batch, is_plain=True, keys=keys, partitions=partitions, digests=digests
    )
