"""The sampled requests that are under way, and how a stage finds the one of an event.

A trace travels where it has to arrive anyway: the front of a sampled request puts the produce
span's context in the place of the `traceparent` that came, and every record of the request gets
that header. So no object that all events pass along knows of tracing, and a request that is not
sampled is treated as if there were none.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headgate.core.publish import Publish
from headgate.core.tracing.context import TRACEPARENT, TRACESTATE, read_parent, read_state
from headgate.core.tracing.span import Span
from headgate.core.tracing.trace import Trace

MAX_OPEN: Final = 10_000  # of a worker, some kB each; more are left out
_HEADER: Final = TRACEPARENT.decode()


class Sampling:
    """Which requests are sampled. A caller's decision holds; without one, one in so many is, by
    chance (0: none). draw: random numbers in [0, 1)."""

    def __init__(self, one_in: int, draw: Callable[[], float]) -> None:
        self._share: Final = 1 / one_in if one_in else 0.0
        self._draw: Final = draw

    def takes_root(self) -> bool:
        """Whether one is that comes without a parent."""
        return self._draw() < self._share


class Traces:
    """See the module.

    digits: so many random hexadecimal digits.  clock_ns: nanoseconds since 1970.
    take: gets the spans of a request that was answered.  left_out: called for a request that
    should be sampled while too many are under way.
    """

    def __init__(
        self,
        sampling: Sampling,
        digits: Callable[[int], str],
        clock_ns: Callable[[], int],
        take: Callable[[list[Span]], None],
        left_out: Callable[[], None],
    ) -> None:
        self._sampling: Final = sampling
        self._digits: Final = digits
        self.clock_ns: Final = clock_ns
        self._take: Final = take
        self._left_out: Final = left_out
        self._open: dict[bytes, Trace] = {}

    def begin(self, headers: Mapping[bytes, bytes]) -> Trace | None:
        """The trace of a request, if it is sampled. headers: names in lower case."""
        parent = read_parent(headers.get(TRACEPARENT))
        if not (self._sampling.takes_root() if parent is None else parent.is_sampled):
            return None
        if len(self._open) >= MAX_OPEN:
            self._left_out()
            return None
        ids, now_ns = self._digits(32), self.clock_ns()
        if parent is None:
            trace = Trace(self._digits(32), "", 0, "", ids, now_ns)
        else:
            state = read_state(headers.get(TRACESTATE, b"")).decode("ascii")
            trace = Trace(parent.trace_id, parent.span_id, parent.flags, state, ids, now_ns)
        self._open[trace.context] = trace
        return trace

    @property
    def is_idle(self) -> bool:
        """Whether no sampled request is under way: then no event is of one."""
        return not self._open

    def of(self, publish: Publish) -> Trace | None:
        """The trace of an event's request, while that is not answered."""
        if not self._open or publish.common is None:
            return None
        for name, value in publish.common.headers:
            if name == _HEADER:
                return self._open.get(value or b"")
        return None

    def end(self, trace: Trace, status: int) -> None:
        """Its request was answered. status: of HTTP; 0: the client left."""
        if self._open.pop(trace.context, None) is not None:
            self._take(trace.spans(status, self._digits(16), self.clock_ns()))
