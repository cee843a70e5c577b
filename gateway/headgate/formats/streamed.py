"""Events above the body limit, whose value goes to the blob store while it arrives."""

from typing import NamedTuple

from headgate.formats import cloudevents
from headgate.formats.decode import JSON, BodyKind, Headers, kind_of
from headgate.formats.json_stream import JsonStream
from headgate.model.content import Digester
from headgate.model.outcome import Failure, Reason, Refused, long_key, malformed
from headgate.model.policy import fingerprint
from headgate.model.publish import RawEvent
from headgate.model.request import is_array_one_event, is_tombstone, read_options
from headgate.model.route import Route, batch_too_large

_BOM = b"\xef\xbb\xbf"


class Announced(NamedTuple):
    """An event whose body has not been read yet.

    Attributes:
        event: The event without its value.
        is_json: Whether the body must be JSON.
        may_be_batch: Whether the body would be a batch if it were an array.
    """

    event: RawEvent
    is_json: bool = False
    may_be_batch: bool = False


def takes_streams(route: Route) -> bool:
    """Return whether the topic stores events of any size in the blob store.

    A schema needs the document in memory. With `notify` before `claim-check`, no blob is needed.
    """
    strategies = route.strategies
    if "claim-check" not in strategies or route.policy.schema is not None:
        return False
    return "notify" not in strategies[: strategies.index("claim-check")]


def announced(headers: Headers, route: Route) -> Announced | None:
    """Return the event that the headers describe; None if the body must be read first.

    Raises:
        Refused: The headers are malformed, or the key is missing or too long.
    """
    if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
        return None
    event = _announced(headers, route)
    if event is None:
        return None
    key = read_options(headers).key or event.event.key
    if key is None:
        _refuse_keyless(route, event)
    elif len(key) > route.key_max_bytes:
        raise Refused(long_key(route.key_max_bytes))
    return event


def _announced(headers: Headers, route: Route) -> Announced | None:
    if is_tombstone(headers):
        return None
    content_type = headers.get(b"content-type", b"application/octet-stream")
    if b"ce-specversion" in headers:
        if route.policy.cloudevents == "structured":
            return None
        # a sample body, because an event without a body has no document
        sample = cloudevents.from_headers(b"0", headers, False)
        is_json = sample.document is not None
        return Announced(sample._replace(value=b"", document=None), is_json)
    kind = kind_of(content_type)
    if kind is BodyKind.OPAQUE:
        return Announced(RawEvent(b"", None, content_type=content_type))
    if kind is BodyKind.JSON_ONE:
        return Announced(RawEvent(b"", None, content_type=content_type), True)
    if kind is BodyKind.JSON:
        may_be_batch = not is_array_one_event(headers)
        return Announced(RawEvent(b"", None, content_type=JSON), True, may_be_batch)
    return None


def _refuse_keyless(route: Route, announcement: Announced) -> None:
    if announcement.is_json and route.policy.key:
        detail = (
            "the body is larger than http.body_max_bytes and goes straight to the blob store, so "
            "its key cannot be read from it: send Headgate-Key"
        )
    elif route.policy.keyless != "spread":
        detail = "the event has no key, and the body is not searched for one: send Headgate-Key"
    else:
        return
    raise Refused(Failure(Reason.MISSING_KEY, detail))


class BodyInspector:
    """Validation and digest of a body that arrives in pieces."""

    def __init__(self, announcement: Announced, route: Route, json_max_depth: int) -> None:
        self._announcement = announcement
        self._is_first = True
        self._text = JsonStream(json_max_depth) if announcement.is_json else None
        self._digest = None
        if route.digest is not None:
            rules = bytes.fromhex(fingerprint(route.policy))
            self._digest = Digester(rules).begin(announcement.event.content_type)

    def take(self, piece: bytes) -> None:
        """Inspect the next piece. Raises Refused (malformed)."""
        if self._is_first:
            self._is_first = False
            self._begin(piece)
        if self._text is not None:
            self._text.feed(piece)
        if self._digest is not None:
            self._digest.update(piece)

    def end(self) -> bytes | None:
        """Return the digest, if the topic suppresses. Raises Refused (malformed)."""
        if self._text is not None:
            self._text.end()
        return None if self._digest is None else self._digest.digest()

    def _begin(self, piece: bytes) -> None:
        if self._announcement.is_json and piece.startswith(_BOM):
            raise Refused(malformed("the body begins with a byte order mark"))
        if not self._announcement.may_be_batch:
            return
        opening = piece.lstrip(b" \t\r\n")[:1]
        if opening == b"[":
            raise Refused(batch_too_large())
        if not opening:
            raise Refused(malformed("the body begins with too much white space"))
