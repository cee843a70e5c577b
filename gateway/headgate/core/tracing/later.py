"""Spans of what becomes of a record after its request was answered.

All that is left of the request then is the `traceparent` that its record carries: through the held
topic, the spool, a restart, or another process. So these spans need nobody to remember the request.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from headgate.core.tracing.context import TRACEPARENT, TRACESTATE, Parent, read_parent, read_state
from headgate.core.tracing.span import Attributes, Span, SpanKind

_PARENT: Final = TRACEPARENT.decode()
_STATE: Final = TRACESTATE.decode()


class Carried(NamedTuple):
    """What a record of a sampled request carries. parent: the span that its request had for it."""

    parent: Parent
    state: str


def carried(headers: Iterable[tuple[str, bytes | None]]) -> Carried | None:
    """None: the record is not of a sampled request."""
    found: bytes | None = None
    state = b""
    for name, value in headers:
        if name == _PARENT:
            found = value
        elif name == _STATE:
            state = value or b""
    parent = read_parent(found)
    if parent is None or not parent.is_sampled:
        return None
    return Carried(parent, read_state(state).decode("ascii"))


class LaterSpans:
    """digits: so many random hexadecimal digits.  clock_ns: nanoseconds since 1970.
    take: gets each span once it has ended."""

    def __init__(
        self,
        digits: Callable[[int], str],
        clock_ns: Callable[[], int],
        take: Callable[[list[Span]], None],
    ) -> None:
        self._digits: Final = digits
        self.clock_ns: Final = clock_ns
        self._take: Final = take

    def end(
        self, of: Carried, name: str, began_ns: int, attributes: Attributes, error: str = ""
    ) -> None:
        """One has ended now."""
        ended_ns = max(self.clock_ns(), began_ns)
        if error:
            attributes = {**attributes, "error.type": error}
        parent = of.parent
        span = Span(
            name, SpanKind.CONSUMER, parent.trace_id, self._digits(16), parent.span_id, of.state,
            began_ns, ended_ns, attributes, error,
        )  # fmt: skip
        self._take([span])
