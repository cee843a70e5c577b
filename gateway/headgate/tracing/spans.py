"""Sampled requests and their spans. Pure: the clock and random digits are arguments.

    request                     from its head to its response
    ├── reserve                 from the first request to Redis to the last reply
    └── produce                 from the first record's lane to the last acknowledgement, or
        spool                   if the records went to disk without any lane

A request has one span of each kind, whatever its number of events. Consumers continue the trace:
the front of a sampled request replaces `traceparent` by the produce span's context, and each record
of the request gets that header.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.core.outcome import Name
from headgate.core.publish import Publish, Ticket
from headgate.core.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    Parent,
    read_parent,
    read_state,
    traceparent,
)

Attributes = dict[str, str | int]


class SpanKind(IntEnum):
    """Kinds of spans, with their numbers in OTLP."""

    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Moment(NamedTuple):
    """An event within a span. `at_ns` is in nanoseconds since 1970."""

    name: str
    at_ns: int


class Span(NamedTuple):
    """A finished span. Ids are hexadecimal.

    Attributes:
        name: Name of the span.
        kind: Kind of the span.
        trace_id: Id of the trace.
        span_id: Id of the span.
        parent_id: Id of the parent span; empty if the trace begins here.
        state: The `tracestate` that came with the parent.
        began_ns: Start, in nanoseconds since 1970.
        ended_ns: End, in nanoseconds since 1970.
        attributes: Attributes of the span.
        error: Cause of the failure; empty if the span succeeded.
        moments: Events within the span.
    """

    name: str
    kind: SpanKind
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    began_ns: int
    ended_ns: int
    attributes: Attributes
    error: str = ""
    moments: tuple[Moment, ...] = ()


_SERVER_ERROR = 500
_LATE = "not acknowledged when the request was answered"


class Reserving:
    """The reserve span. `ended_ns` is the time of the latest reply, or 0 before the first."""

    __slots__ = ("began_ns", "ended_ns", "events", "topic", "unchanged", "unreserved")

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.events = self.unchanged = self.unreserved = 0

    def attributes(self) -> Attributes:
        """Return the span's attributes at its end."""
        return {
            "db.system.name": "redis",
            "messaging.destination.name": self.topic,
            "headgate.events": self.events,
            "headgate.unchanged": self.unchanged,
            "headgate.unreserved": self.unreserved,
        }


class Producing:
    """The produce span.

    Attributes:
        open: Number of records that have not ended.
        place: Partition and offset of the last record.
    """

    __slots__ = ("began_ns", "ended_ns", "error", "handed_ns", "open", "place", "records", "topic")

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.handed_ns = self.open = self.records = 0
        self.error = ""
        self.place = (-1, -1)

    def attributes(self) -> Attributes:
        """Return the span's attributes at its end."""
        attributes: Attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "produce",
            "messaging.destination.name": self.topic,
        }
        partition, offset = self.place
        if self.records > 1:
            attributes["messaging.batch.message_count"] = self.records
        elif offset >= 0:
            attributes["messaging.destination.partition.id"] = str(partition)
            attributes["messaging.kafka.offset"] = offset
        if self.error:
            attributes["error.type"] = self.error
        return attributes


class Trace:
    """State of a sampled request. Ids are hexadecimal; times are nanoseconds since 1970.

    Attributes:
        parent_id: Id of the caller's span; empty if the trace begins here.
        state: The caller's `tracestate`.
        method: HTTP method of the request.
        path: Path of the request.
        route: Template of the path, once it is known.
        ticket: Ticket of the request's events; of a stream, the last event's ticket.
        reason: Reason for which the request was refused as a whole; else empty.
    """

    __slots__ = (
        "began_ns",
        "flags",
        "method",
        "parent_id",
        "path",
        "produce_id",
        "producing",
        "reason",
        "request_id",
        "reserving",
        "route",
        "span_id",
        "state",
        "ticket",
        "trace_id",
    )

    def __init__(
        self, trace_id: str, parent_id: str, flags: int, state: str, ids: str, now_ns: int
    ) -> None:
        """Begin a trace.

        Args:
            trace_id: Id of the trace.
            parent_id: Id of the caller's span; empty if the trace begins here.
            flags: Flags of the caller's `traceparent`.
            state: The caller's `tracestate`.
            ids: 32 random hexadecimal digits, for the ids of the request and produce spans.
            now_ns: Current time, in nanoseconds since 1970.
        """
        self.trace_id = trace_id
        self.parent_id = parent_id
        self.flags = flags
        self.state = state
        self.span_id, self.produce_id = ids[:16], ids[16:]
        self.began_ns = now_ns
        self.method = "POST"
        self.path = self.route = self.request_id = self.reason = ""
        self.reserving: Reserving | None = None
        self.producing: Producing | None = None
        self.ticket: Ticket | None = None

    @property
    def context(self) -> bytes:
        """Return the records' `traceparent`; their consumers continue the produce span."""
        return traceparent(self.trace_id, self.produce_id, self.flags)

    def spans(self, status: int, reserve_id: str, now_ns: int) -> list[Span]:
        """Return all spans of a request that was answered.

        Args:
            status: HTTP status of the response; 0 if the client disconnected.
            reserve_id: Id of the reserve span.
            now_ns: Current time, in nanoseconds since 1970.
        """
        spans = [self._request(status, now_ns)]
        reserving, producing = self.reserving, self.producing
        if reserving is not None:
            spans.append(
                self._below(
                    f"reserve {reserving.topic}", SpanKind.CLIENT, reserve_id,
                    reserving.began_ns, reserving.ended_ns or now_ns, reserving.attributes(),
                )
            )  # fmt: skip
        if producing is not None:
            if producing.open:
                producing.ended_ns, producing.error = now_ns, producing.error or _LATE
            handed_ns = producing.handed_ns
            moments = (Moment("handed over to the producer", handed_ns),) if handed_ns else ()
            spans.append(
                self._below(
                    f"produce {producing.topic}", SpanKind.PRODUCER, self.produce_id,
                    producing.began_ns, producing.ended_ns, producing.attributes(),
                    producing.error, moments,
                )
            )  # fmt: skip
        elif (spooled := self._spooled()) is not None:  # the records refer to this span
            spans.append(
                self._below(
                    f"spool {spooled['messaging.destination.name']}", SpanKind.PRODUCER,
                    self.produce_id, self.began_ns, now_ns, spooled,
                )
            )  # fmt: skip
        return spans

    def _spooled(self) -> Attributes | None:
        if self.ticket is None:
            return None
        outcomes = [outcome for outcome in self.ticket.answered() if outcome.name is Name.SPOOLED]
        if not outcomes:
            return None
        return {
            "messaging.destination.name": self.ticket.topic,
            "messaging.batch.message_count": len(outcomes),
        }

    def _request(self, status: int, now_ns: int) -> Span:
        attributes: Attributes = {"http.request.method": self.method, "url.path": self.path}
        for name, text in (("http.route", self.route), ("headgate.request_id", self.request_id)):
            if text:
                attributes[name] = text
        if status:
            attributes["http.response.status_code"] = status
        error = ""
        if not status:
            error = "the client left"
        elif status >= _SERVER_ERROR:
            error = attributes["error.type"] = str(status)
        if self.ticket is not None:
            attributes |= _outcomes(self.ticket)
        elif self.reason:
            attributes["headgate.reasons"] = self.reason
        return Span(
            f"{self.method} {self.route}".rstrip(), SpanKind.SERVER, self.trace_id, self.span_id,
            self.parent_id, self.state, self.began_ns, max(now_ns, self.began_ns), attributes,
            error,
        )  # fmt: skip

    def _below(
        self,
        name: str,
        kind: SpanKind,
        span_id: str,
        began_ns: int,
        ended_ns: int,
        attributes: Attributes,
        error: str = "",
        moments: tuple[Moment, ...] = (),
    ) -> Span:
        """Return a child of the request's span.

        The clock may have been set back, so an earlier end is moved to the start.
        """
        ended_ns = max(ended_ns, began_ns)
        return Span(
            name, kind, self.trace_id, span_id, self.span_id, self.state, began_ns, ended_ns,
            attributes, error, moments,
        )  # fmt: skip


def _outcomes(ticket: Ticket) -> Attributes:
    attributes: Attributes = {
        "messaging.destination.name": ticket.topic,
        "headgate.producer": ticket.producer,
    }
    outcomes = ticket.answered()
    attributes |= {f"headgate.{name}": count for name, count in Counter(
        str(outcome.name) for outcome in outcomes).items()}  # fmt: skip
    reasons = {str(outcome.failure.reason) for outcome in outcomes if outcome.failure is not None}
    if reasons:
        attributes["headgate.reasons"] = ",".join(sorted(reasons))
    return attributes


MAX_OPEN: Final = 10_000  # of a worker, some kB each; more are left out
_HEADER: Final = TRACEPARENT.decode()


class Sampling:
    """Sampling of requests. The caller's decision takes precedence.

    Args:
        one_in: One in this many requests without a parent is sampled at random; 0: none.
        draw: Returns random numbers in [0, 1).
    """

    def __init__(self, one_in: int, draw: Callable[[], float]) -> None:
        self._share: Final = 1 / one_in if one_in else 0.0
        self._draw: Final = draw

    def takes_root(self) -> bool:
        """Return whether to sample a request that has no parent."""
        return self._draw() < self._share


class Traces:
    """Sampled requests that are not answered yet.

    Args:
        sampling: Decides which requests are sampled.
        digits: Returns the given number of random hexadecimal digits.
        clock_ns: Wall clock, in nanoseconds since 1970.
        take: Takes the spans of a request that was answered.
        left_out: Called for each request that is not traced because too many traces are open.
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
        """Begin the trace of a request, if it is sampled.

        Args:
            headers: Headers of the request; names in lower case.
        """
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
        """Return whether no sampled request is in flight."""
        return not self._open

    def of(self, publish: Publish) -> Trace | None:
        """Return the trace of an event's request, unless the request was answered."""
        if not self._open or publish.common is None:
            return None
        for name, value in publish.common.headers:
            if name == _HEADER:
                return self._open.get(value or b"")
        return None

    def end(self, trace: Trace, status: int) -> None:
        """End the trace of a request that was answered.

        Args:
            trace: The trace.
            status: HTTP status of the response; 0 if the client disconnected.
        """
        if self._open.pop(trace.context, None) is not None:
            self._take(trace.spans(status, self._digits(16), self.clock_ns()))


# ---- Spans of a record after its request was answered

_PARENT: Final = TRACEPARENT.decode()
_STATE: Final = TRACESTATE.decode()


class Carried(NamedTuple):
    """Trace context in a record of a sampled request. `parent` is the request's produce span."""

    parent: Parent
    state: str


def carried(headers: Iterable[tuple[str, bytes | None]]) -> Carried | None:
    """Return the trace context in a record's headers; None if its request was not sampled."""
    header: bytes | None = None
    state = b""
    for name, value in headers:
        if name == _PARENT:
            header = value
        elif name == _STATE:
            state = value or b""
    parent = read_parent(header)
    if parent is None or not parent.is_sampled:
        return None
    return Carried(parent, read_state(state).decode("ascii"))


class LaterSpans:
    """Spans of a record after its request was answered: in the coalescer and the spool.

    The `traceparent` in the record is the only link to the request. It survives the held topic, the
    spool, restarts and other processes, so these spans need no state of the request.

    Args:
        digits: Returns the given number of random hexadecimal digits.
        clock_ns: Wall clock, in nanoseconds since 1970.
        take: Takes each span once it has ended.
    """

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
        """Record a span that ends now.

        Args:
            of: Trace context of the record.
            name: Name of the span.
            began_ns: Start, in nanoseconds since 1970.
            attributes: Attributes of the span.
            error: Cause of the failure; empty if the span succeeded.
        """
        ended_ns = max(self.clock_ns(), began_ns)
        if error:
            attributes = {**attributes, "error.type": error}
        parent = of.parent
        span = Span(
            name, SpanKind.CONSUMER, parent.trace_id, self._digits(16), parent.span_id, of.state,
            began_ns, ended_ns, attributes, error,
        )  # fmt: skip
        self._take([span])
