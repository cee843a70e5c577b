"""Record headers from clients: bounded, and without names that the gateway itself writes.

Readers trust the headers that the gateway writes. With a second header of the same name, a producer
could forge one, because readers use the first or the last header of a name.
"""

from typing import Final

from headgate.core.record import CONTENT_TYPE, DATAREF, RESERVED_PREFIX
from headgate.core.refusal import Refused, malformed

MAX_HEADERS: Final = 1000  # of one event
MAX_HEADERS_TOGETHER: Final = 100_000  # of a request's events

# Names without the reserved prefix. The trace context of a record is that of its request. The
# `dataref` of a CloudEvent gives way to a claim check (`core.oversize.strategies`).
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
