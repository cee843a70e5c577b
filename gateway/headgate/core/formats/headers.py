"""The record headers that a client gives with an event: bounded, and none of the gateway's own.

What the gateway writes on a record says what the gateway knows. With a second header of such a name
a producer could speak for it: readers take the first or the last.
"""

from typing import Final

from headgate.core.record import CONTENT_TYPE, DATAREF, RESERVED_PREFIX
from headgate.core.refusal import Refused, malformed

MAX_HEADERS: Final = 1000  # of one event
MAX_HEADERS_TOGETHER: Final = 100_000  # of a request's events

# Beside the reserved prefix. The trace context of a record is that of its request. A CloudEvent's
# `dataref` is its own attribute, and gives way to a claim check (`core.oversize.strategies`).
_WRITTEN: Final = frozenset((CONTENT_TYPE, DATAREF, "traceparent", "tracestate"))


def is_own(name: str) -> bool:
    """Whether only the gateway writes record headers of this name, in any spelling."""
    lower = name.lower()
    return lower in _WRITTEN or lower.startswith(RESERVED_PREFIX)


class HeaderCount:
    """Counts the headers of one request's events: each costs work before the event is looked at."""

    __slots__ = ("_total",)

    def __init__(self) -> None:
        self._total = 0

    def take(self, headers: int) -> None:
        """Count one event's headers. Raises Refused (malformed): they are too many."""
        if headers > MAX_HEADERS:
            raise Refused(malformed(f"an event has at most {MAX_HEADERS} headers or attributes"))
        self._total += headers
        if self._total > MAX_HEADERS_TOGETHER:
            detail = f"the events of a request have at most {MAX_HEADERS_TOGETHER} headers together"
            raise Refused(malformed(f"{detail}: send fewer events at a time"))
