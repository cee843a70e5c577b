"""Options from the headers of a request, and hints for unknown paths."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote_to_bytes

from headgate.model.outcome import SHOWN, Failure, Reason, Refused, malformed
from headgate.model.record import CONTENT_TYPE, DATAREF, RESERVED_PREFIX
from headgate.model.text import closest, did_you_mean
from headgate.model.trace import read_state

# ---- record headers from clients: bounded, without names that the gateway itself writes
#
# Readers trust the headers that the gateway writes. With a second header of the same name, a
# producer could forge one, because readers use the first or the last header of a name.


MAX_HEADERS: Final = 1000  # of one event
MAX_HEADERS_TOGETHER: Final = 100_000  # of a request's events

# Names without the reserved prefix. The trace context of a record is that of its request. The
# `dataref` of a CloudEvent gives way to a claim check (`model.oversize`).
_WRITTEN: Final = frozenset((CONTENT_TYPE, DATAREF, "traceparent", "tracestate"))


def is_own(name: str) -> bool:
    """Return whether only the gateway writes headers of this name, in upper or lower case."""
    lower = name.lower()
    return lower in _WRITTEN or lower.startswith(RESERVED_PREFIX)


class HeaderCount:
    """Counter of the headers of a request's events, because each header costs work."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = 0

    def take(self, headers: int) -> None:
        """Count one event's headers. Raises Refused (malformed) if there are too many."""
        if headers > MAX_HEADERS:
            raise Refused(malformed(f"an event has at most {MAX_HEADERS} headers or attributes"))
        self._total += headers
        if self._total > MAX_HEADERS_TOGETHER:
            detail = f"the events of a request have at most {MAX_HEADERS_TOGETHER} headers together"
            raise Refused(malformed(f"{detail}: send fewer events at a time"))


_RECORD_HEADER = b"headgate-header-"
_ATTRIBUTE = "ce_"  # prefix of the headers of CloudEvents' attributes
_KEY_STAR = b"headgate-key*"
_UTF8 = b"UTF-8''"
_EXTENDED = re.compile(rb"(?:%[0-9A-Fa-f]{2}|[^%'])*")
_FLAGS = {b"true": True, b"1": True, b"false": False, b"0": False}
_EVENT_ID = b"headgate-event-id"
_SINGLE = (
    b"headgate-key",
    b"headgate-key*",
    _EVENT_ID,
    b"headgate-timestamp",
    b"headgate-tombstone",
)
_EVENT_ID_MAX = 256
_BURST_MAX = 128
_SHOWN_BYTES = 40  # bytes of a refused value to show
_NAMES = frozenset(
    (*_SINGLE, b"headgate-force", b"headgate-batch", b"headgate-burst", b"headgate-producer")
)
_OUR_PREFIX: Final = "Headgate-"
_KEY_OF_REQUEST = b"idempotency-key"  # `idempotency` reads it; here, only misspellings matter
# The first nine bytes of names like it, with a letter left out, or swapped with the next one.
_LIKE_IT = frozenset(
    (_KEY_OF_REQUEST[:at] + _KEY_OF_REQUEST[at + 1 : at + 2] + rest)[:9]
    for at in range(9)
    for rest in (
        _KEY_OF_REQUEST[at + 2 :],
        _KEY_OF_REQUEST[at : at + 1] + _KEY_OF_REQUEST[at + 2 :],
    )
) | {_KEY_OF_REQUEST[:9], b"x-idempot"}
# The first nine bytes of the names to look at.
_OURS = _LIKE_IT | {b"headgate-", b"prefer", b"tracepare", b"tracestat"}


class RequestOptions(NamedTuple):
    """Parsed and validated request headers.

    Attributes:
        key: The key of the event.
        event_id: The id of the event.
        timestamp_ms: The timestamp of the event, in milliseconds since 1970.
        tombstone: Whether the event is a tombstone.
        force: Whether to publish unchanged events, too.
        minimal: Whether the client prefers a minimal response.
        single_event_header: The name of a header that applies to a single event, if present.
        record_headers: Record headers for every event, without the gateway's own.
        burst: The burst of the events, used only by topics that coalesce.
        is_plain: Whether no header sets an attribute of a single event except its id.
    """

    key: bytes | None = None
    event_id: str | None = None
    timestamp_ms: int | None = None
    tombstone: bool = False
    force: bool = False
    minimal: bool = False
    single_event_header: str | None = None
    record_headers: tuple[tuple[str, bytes], ...] = ()
    burst: bytes | None = None
    is_plain: bool = True


NO_OPTIONS = RequestOptions()


def read_options(headers: Mapping[bytes, bytes]) -> RequestOptions:
    """Parse the headers. Raises Refused (malformed, missing_key) naming the header."""
    ours = {
        name: headers[name] for name in headers if name[:9] in _OURS and name != _KEY_OF_REQUEST
    }
    if not ours:
        return NO_OPTIONS
    for name in ours:
        is_unknown = name not in _NAMES and name[:16] != _RECORD_HEADER
        if is_unknown and (name[:9] == b"headgate-" or name[:9] in _LIKE_IT):
            raise Refused(malformed(_unknown_header(name)))
    single = next((name for name in _SINGLE if name in ours), None)
    is_array_one_event(ours)  # refuses an invalid value for any body
    return RequestOptions(
        key=_any_key(ours),
        event_id=_event_id(ours.get(_EVENT_ID)),
        timestamp_ms=_timestamp(ours.get(b"headgate-timestamp")),
        tombstone=is_tombstone(ours),
        force=_flag(ours, b"headgate-force", False),
        minimal=_prefers_minimal(ours.get(b"prefer", b"")),
        single_event_header=single.decode().title() if single else None,
        record_headers=_record_headers(ours, _is_cloudevent(headers)),
        burst=read_burst(ours.get(b"headgate-burst")),
        is_plain=all(name == _EVENT_ID for name in _SINGLE if name in ours),
    )


def _unknown_header(name: bytes) -> str:
    shown = name[:_SHOWN_BYTES].decode("ascii", "replace").title()
    if not shown.startswith(_OUR_PREFIX):
        return f"there is no header {shown}. {did_you_mean(_KEY_OF_REQUEST.decode().title())}"
    ends = sorted(own.decode().title().removeprefix(_OUR_PREFIX) for own in _NAMES)
    hint = closest(shown.removeprefix(_OUR_PREFIX), ends, _OUR_PREFIX)
    return f"there is no header {shown}. {hint or 'Record headers are Headgate-Header-*.'}"


def _prefers_minimal(prefer: bytes) -> bool:
    """Return whether a Prefer header (RFC 7240) asks for a minimal response, in any case."""
    tokens = prefer.lower().replace(b" ", b"").replace(b'"', b"").replace(b";", b",").split(b",")
    return b"return=minimal" in tokens


def _is_cloudevent(headers: Mapping[bytes, bytes]) -> bool:
    content_type = headers.get(b"content-type", b"").lstrip().lower()
    return b"ce-specversion" in headers or content_type.startswith(b"application/cloudevents")


def read_burst(value: bytes | None) -> bytes | None:
    """Return the id of a burst. Raises Refused (malformed) if it is invalid."""
    if value is None:
        return None
    if not 0 < len(value) <= _BURST_MAX or not value.isascii():
        raise Refused(malformed(f"a burst's id has 1 to {_BURST_MAX} ASCII characters"))
    return value


def is_tombstone(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether the request asks for a tombstone. Raises Refused (malformed)."""
    return _flag(headers, b"headgate-tombstone", False)


def is_array_one_event(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a JSON array is one event and no batch. Raises Refused (malformed)."""
    return not _flag(headers, b"headgate-batch", True)


def read_flag(name: str, value: bytes) -> bool:
    """Parse a boolean header or query parameter. Raises Refused (malformed) naming it.

    Other values are not guessed: a client that sends `yes` does not mean `false`.
    """
    flag = _FLAGS.get(value.lower())
    if flag is None:
        shown = value[:_SHOWN_BYTES].decode("utf-8", "replace")
        raise Refused(malformed(f"{name} is true, 1, false or 0, not {shown!r}"))
    return flag


def _flag(headers: Mapping[bytes, bytes], name: bytes, absent: bool) -> bool:
    value = headers.get(name)
    return absent if value is None else read_flag(name.decode().title(), value)


def with_query_key(headers: dict[bytes, bytes], query: str) -> dict[bytes, bytes]:
    """Return the headers with the key of `?key=` added as `Headgate-Key*`.

    Other parameters are ignored: senders such as webhooks add their own.

    Args:
        headers: The headers of the request.
        query: The query as it was sent.

    Raises:
        Refused: The query is malformed, has several keys, or a parameter that is almost `key`.
    """
    keys = read_query(query, "key", others=True)
    if not keys:
        return headers
    if len(keys) > 1 or _KEY_STAR in headers:
        raise Refused(malformed("?key=: an event has one key"))
    return {**headers, _KEY_STAR: _UTF8 + quote(keys[0], safe="").encode()}


def read_query(query: str, parameter: str, others: bool = False) -> list[str]:
    """Return the values of one parameter.

    Args:
        query: The query as it was sent.
        parameter: The name of the parameter.
        others: Accept other parameters, unless their name is almost this one.

    Raises:
        Refused: The query is malformed, or has another parameter.
    """
    if not query:
        return []
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:  # UnicodeDecodeError is one
        raise Refused(malformed("the query is not UTF-8, or has too many parameters")) from None
    check_parameters((name for name, _ in pairs), [parameter], others)
    return [value for name, value in pairs if name == parameter]


def check_parameters(given: Iterable[str], known: Sequence[str], others: bool = False) -> None:
    """Raise Refused (malformed) for a parameter that is unknown, or with `others` misspelled."""
    for name in given:
        if name not in known:
            shown = name[:_SHOWN_BYTES]
            hint = closest(shown.lower(), known)
            if not (hint or others):
                hint = f"It may have {', '.join(known)}."
            if hint:
                raise Refused(malformed(f'the query has no parameter "{shown}". {hint}'))


def _any_key(ours: Mapping[bytes, bytes]) -> bytes | None:
    """Return the key of the header, or of its extended form (RFC 8187) for Latin-1 clients."""
    encoded = ours.get(_KEY_STAR)
    if encoded is None:
        return _key(ours.get(b"headgate-key"))
    if b"headgate-key" in ours:
        raise Refused(malformed("Headgate-Key came twice, also as Headgate-Key* or ?key="))
    if not encoded.upper().startswith(b"UTF-8'") or encoded.count(b"'") < 2:
        raise Refused(malformed("Headgate-Key* begins with UTF-8'' (RFC 8187)"))
    text = encoded.split(b"'", 2)[2]
    if _EXTENDED.fullmatch(text) is None:
        raise Refused(malformed("Headgate-Key* is percent-encoded (RFC 8187)"))
    return _key(unquote_to_bytes(text))


def _key(value: bytes | None) -> bytes | None:
    if value is None:
        return None
    if not value:
        raise Refused(Failure(Reason.MISSING_KEY, "Headgate-Key is empty"))
    _text("Headgate-Key", value)
    return value


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Refused(malformed(f"{name} is not UTF-8")) from None


def _event_id(value: bytes | None) -> str | None:
    if value is None:
        return None
    if not 0 < len(value) <= _EVENT_ID_MAX:
        raise Refused(malformed(f"Headgate-Event-Id has 1 to {_EVENT_ID_MAX} bytes"))
    return _text("Headgate-Event-Id", value)


def _timestamp(value: bytes | None) -> int | None:
    if value is None:
        return None
    if not (value.isdigit() and len(value) <= 15):
        raise Refused(malformed("Headgate-Timestamp is a whole number of milliseconds since 1970"))
    return int(value)


def _record_headers(
    ours: Mapping[bytes, bytes], is_cloudevent: bool
) -> tuple[tuple[str, bytes], ...]:
    """Return the record headers, without `ce_` headers if the body is a CloudEvent.

    Args:
        ours: The request headers with a known prefix.
        is_cloudevent: Whether the events themselves contain their attributes.
    """
    headers: list[tuple[str, bytes]] = []
    if b"traceparent" in ours:
        headers.append(("traceparent", ours[b"traceparent"]))
        # meaningful only with traceparent
        if b"tracestate" in ours and (state := read_state(ours[b"tracestate"])):
            headers.append(("tracestate", state))
    for name, value in ours.items():
        if name.startswith(_RECORD_HEADER):
            shown = name[len(_RECORD_HEADER) :].decode("ascii", "replace")
            is_attribute = is_cloudevent and shown.startswith(_ATTRIBUTE)
            if shown and not is_own(shown) and not is_attribute:
                headers.append((shown, value))
    return tuple(headers)


# ---- hints for unknown paths

_EVENTS = re.compile(r"/v1/topics/[^/]+/events")
_NEARLY = re.compile(
    r"(?:/v1)?/topics?/(?P<topic>[^/]+)(?:/(?:events?|messages?|records?))?/?"
    r"|/v1/(?P<bare>[^/]+)/events?/?"
    r"|/(?P<only>(?!(?:live|ready|metrics|console|problems|docs|openapi\.json|topics|consumers"
    r"|brokers|v[0-9]+)/?$)[^/]+)/?"
)
_MANAGEMENT = re.compile(
    r"/metrics|/console(?:/.*)?"
    r"|/v1/(?:producers|topics|suppression|groups|pauses|changes|audits|replays|offsets|coverage"
    r"|snapshots)(?:/.*)?"
)


def of_data_port(method: str, path: str) -> str:
    """Return a hint for an unknown path of the data port; empty if there is none."""
    hint = of_one_port(method, path)
    if not hint and _MANAGEMENT.fullmatch(path):
        return ": this page is on the management port (http.management_port)"
    return hint


def of_management_port(method: str, path: str, data_port: int | None = None) -> str:
    """Return a hint for an unknown path or method of the management port.

    Args:
        method: The method of the request.
        path: The path of the request.
        data_port: The number of the data port; None: the hint has no number.
    """
    shown = "(http.port)" if data_port is None else f"(http.port = {data_port})"
    hint = of_one_port(method, path)
    if hint:
        return f"{hint} of the data port {shown}; this is another port"
    return f": this path is on the data port {shown}" if _EVENTS.fullmatch(path) else ""


def of_one_port(method: str, path: str) -> str:
    """Return a hint for an unknown path if one port serves everything."""
    match = _NEARLY.fullmatch(path) if method == "POST" else None
    if match is None:
        return ""
    topic = (match["topic"] or match["bare"] or match["only"])[:SHOWN]
    return f": events are posted to /v1/topics/{topic}/events"
