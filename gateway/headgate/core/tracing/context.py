"""W3C trace context: what a request's `traceparent` says, and how ours is written."""

import re
from typing import Final, NamedTuple

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"

_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_UNUSED_VERSION: Final = b"ff"
_SAMPLED: Final = 0x01
_RANDOM: Final = 0x02  # the trace id's last 7 bytes are random; passed on as it came


class Parent(NamedTuple):
    """The span that a request continues. Ids in hexadecimal. flags: those that are known here."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Whether the caller records the trace."""
        return bool(self.flags & _SAMPLED)


def read_parent(value: bytes | None) -> Parent | None:
    """None where there is none, or none that may be used: then the trace begins here."""
    found = None if value is None else _FORM.fullmatch(value)
    if found is None:
        return None
    version, trace_id, span_id, flags, rest = found.groups()
    if version == _UNUSED_VERSION or (version == b"00" and rest is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return Parent(trace_id.decode(), span_id.decode(), int(flags, 16) & (_SAMPLED | _RANDOM))


def traceparent(trace_id: str, span_id: str, flags: int = 0) -> bytes:
    """Of a sampled span. flags: of its parent."""
    return f"00-{trace_id}-{span_id}-{flags | _SAMPLED:02x}".encode()
