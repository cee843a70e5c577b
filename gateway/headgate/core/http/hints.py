"""What a client probably meant, where what it sent was refused. Asked for refusals alone."""

import re
from collections.abc import Mapping

from headgate.core.formats.decode import BodyKind, kind_of
from headgate.core.outcome import Failure, Reason

_HINTED = frozenset((Reason.MALFORMED, Reason.MISSING_KEY, Reason.INVALID_KEY))
_HEAD_BYTES = 4096
_SHOWN_BYTES = 60
_ENVELOPE = re.compile(rb'\s*\{\s*"events"\s*:\s*\[')
_CLOUDEVENT = re.compile(rb'\s*\{[^\[{]*"specversion"\s*:')
_LINES = re.compile(rb"\s*\{[^\n]*\}[ \t\r]*\n\s*\{")
_JSON_LIKE = re.compile(rb'\s*[\[{"]')


def with_hint(failure: Failure, headers: Mapping[bytes, bytes], body: bytes) -> Failure:
    """The failure, and what the body seems to be."""
    if failure.reason not in _HINTED or b"ce-specversion" in headers:
        return failure
    hint = _hint(headers.get(b"content-type"), body[:_HEAD_BYTES])
    return failure if hint is None else failure._replace(detail=f"{failure.detail}. {hint}")


def _hint(content_type: bytes | None, head: bytes) -> str | None:
    kind = BodyKind.OPAQUE if content_type is None else kind_of(content_type)
    wanted = _wanted(kind, head)
    if kind is BodyKind.OPAQUE:
        return f"{_received(content_type)}: send Content-Type: {wanted or 'application/json'}"
    if wanted is None:
        return None
    return f"The body looks like another type: send Content-Type: {wanted}"


def _received(content_type: bytes | None) -> str:
    if content_type is None:
        return "Without a Content-Type the body is opaque bytes, and no key is looked for in it"
    shown = content_type[:_SHOWN_BYTES].decode("ascii", "replace")
    return f"A body of Content-Type {shown!r} is opaque bytes, and no key is looked for in it"


def _wanted(kind: BodyKind, head: bytes) -> str | None:
    """The Content-Type for what the body looks like, if it is another one."""
    if kind is not BodyKind.ENVELOPE and _ENVELOPE.match(head):
        return "application/vnd.headgate.batch+json"
    if kind not in (BodyKind.CLOUDEVENT, BodyKind.CLOUDEVENTS) and _CLOUDEVENT.match(head):
        return "application/cloudevents+json"
    if kind is not BodyKind.NDJSON and _LINES.match(head):
        return "application/x-ndjson"
    if kind is BodyKind.NDJSON and head.lstrip()[:1] == b"[":
        return "application/json"
    return "application/json" if kind is BodyKind.OPAQUE and _JSON_LIKE.match(head) else None
