"""W3C trace context: reading `traceparent` and `tracestate`, and writing `traceparent`."""

import re
from typing import Final, NamedTuple

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"

_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_UNUSED_VERSION: Final = b"ff"
_SAMPLED: Final = 0x01
_RANDOM: Final = 0x02  # the trace id's last 7 bytes are random; the flag is passed on unchanged

_MEMBER: Final = re.compile(
    rb"([a-z0-9][a-z0-9_*/@-]{0,255})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)
_STATE_MEMBERS: Final = 32
_STATE_BYTES: Final = 512  # the size that every participant must be able to pass on
_LONG_MEMBER: Final = 128  # longer members are dropped first if the state is too long


class Parent(NamedTuple):
    """The parent span of a request, with ids in hexadecimal; `flags` has only known flags."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Return whether the caller records the trace."""
        return bool(self.flags & _SAMPLED)


def read_parent(value: bytes | None) -> Parent | None:
    """Parse `traceparent`; None if it is absent or invalid, so that a new trace begins."""
    match = None if value is None else _FORM.fullmatch(value)
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == _UNUSED_VERSION or (version == b"00" and rest is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return Parent(trace_id.decode(), span_id.decode(), int(flags, 16) & (_SAMPLED | _RANDOM))


def read_state(value: bytes) -> bytes:
    """Return the part of a `tracestate` to pass on: complete members, the newest first.

    Members that do not fit are dropped. The result is empty if the state is malformed, because its
    members cannot be attributed then.
    """
    by_key = dict[bytes, bytes]()
    for text in value.split(b","):
        member = text.strip(b" \t")
        if not member:
            continue
        parts = _MEMBER.fullmatch(member)
        if parts is None or parts[1] in by_key:
            return b""
        by_key[parts[1]] = member
    members = list(by_key.values())[:_STATE_MEMBERS]
    if len(b",".join(members)) > _STATE_BYTES:
        members = [each for each in members if len(each) <= _LONG_MEMBER]
    while len(state := b",".join(members)) > _STATE_BYTES:
        members.pop()
    return state


def traceparent(trace_id: str, span_id: str, flags: int = 0) -> bytes:
    """Return the `traceparent` of a sampled span; `flags` are those of its parent."""
    return f"00-{trace_id}-{span_id}-{flags | _SAMPLED:02x}".encode()
