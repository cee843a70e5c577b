"""Sampled requests and their spans. Pure: the clock and random digits are arguments.

    request                     from its head to its answer
    ├── reserve                 from the first question to Redis to the last answer
    └── produce                 from the first record's lane to the last acknowledgement, or
        spool                   if the records went to disk without any lane

However many events a request has, it has one span of each kind. Consumers continue the trace: the
front of a sampled request replaces `traceparent` by the produce span's context, and each record of
the request gets that header.
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
    """The numbers of OTLP."""

    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class Moment(NamedTuple):
    """Something that happened within a span. at_ns: nanoseconds since 1970."""

    name: str
    at_ns: int


class Span(NamedTuple):
    """Ids in hexadecimal; parent_id is empty where the trace begins here.

    state: the `tracestate` that came with the parent.  began_ns, ended_ns: nanoseconds since 1970.
    error: why it failed, else empty.
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
    """The reserve span. ended_ns: of the last answer so far, 0 before the first one."""

    __slots__ = ("began_ns", "ended_ns", "events", "topic", "unchanged", "unreserved")

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.events = self.unchanged = self.unreserved = 0

    def attributes(self) -> Attributes:
        """What is known of it in the end."""
        return {
            "db.system.name": "redis",
            "messaging.destination.name": self.topic,
            "headgate.events": self.events,
            "headgate.unchanged": self.unchanged,
            "headgate.unreserved": self.unreserved,
        }


class Producing:
    """The produce span. open: records without an end.  place: partition and offset of the last."""

    __slots__ = ("began_ns", "ended_ns", "error", "handed_ns", "open", "place", "records", "topic")

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.handed_ns = self.open = self.records = 0
        self.error = ""
        self.place = (-1, -1)

    def attributes(self) -> Attributes:
        """What is known of it in the end."""
        found: Attributes = {
            "messaging.system": "kafka",
            "messaging.operation.type": "send",
            "messaging.operation.name": "produce",
            "messaging.destination.name": self.topic,
        }
        partition, offset = self.place
        if self.records > 1:
            found["messaging.batch.message_count"] = self.records
        elif offset >= 0:
            found["messaging.destination.partition.id"] = str(partition)
            found["messaging.kafka.offset"] = offset
        if self.error:
            found["error.type"] = self.error
        return found


class Trace:
    """See the module. Ids in hexadecimal; times are nanoseconds since 1970.

    parent_id: empty where the trace begins here.  state: the caller's `tracestate`.
    method, path: of the request.  route: the path's template, once it is known.
    ticket: of its events, or the last one's of a stream.  reason: why it was refused as a whole.
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
        """ids: 32 random hexadecimal digits, for the spans that have their ids in advance."""
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
        """The records' `traceparent`: whoever consumes them continues the produce span."""
        return traceparent(self.trace_id, self.produce_id, self.flags)

    def spans(self, status: int, reserve_id: str, now_ns: int) -> list[Span]:
        """All of them, now that it is answered. status: of HTTP; 0: the client left."""
        found = [self._request(status, now_ns)]
        reserving, producing = self.reserving, self.producing
        if reserving is not None:
            found.append(
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
            found.append(
                self._below(
                    f"produce {producing.topic}", SpanKind.PRODUCER, self.produce_id,
                    producing.began_ns, producing.ended_ns, producing.attributes(),
                    producing.error, moments,
                )
            )  # fmt: skip
        elif (spooled := self._spooled()) is not None:  # the records name it, so it must be there
            found.append(
                self._below(
                    f"spool {spooled['messaging.destination.name']}", SpanKind.PRODUCER,
                    self.produce_id, self.began_ns, now_ns, spooled,
                )
            )  # fmt: skip
        return found

    def _spooled(self) -> Attributes | None:
        if self.ticket is None:
            return None
        outcomes = [one for one in self.ticket.answered() if one.name is Name.SPOOLED]
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
        """A span within the request's. The clock may have been set back: none ends before it
        begins."""
        ended_ns = max(ended_ns, began_ns)
        return Span(
            name, kind, self.trace_id, span_id, self.span_id, self.state, began_ns, ended_ns,
            attributes, error, moments,
        )  # fmt: skip


def _outcomes(ticket: Ticket) -> Attributes:
    found: Attributes = {
        "messaging.destination.name": ticket.topic,
        "headgate.producer": ticket.producer,
    }
    outcomes = ticket.answered()
    found |= {f"headgate.{name}": count for name, count in Counter(
        str(outcome.name) for outcome in outcomes).items()}  # fmt: skip
    reasons = {str(outcome.failure.reason) for outcome in outcomes if outcome.failure is not None}
    if reasons:
        found["headgate.reasons"] = ",".join(sorted(reasons))
    return found


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


# ---- Spans of a record after its request was answered

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
    """Spans of a record after its request was answered: in the coalescer and the spool.

    By then only the `traceparent` in the record is left of the request: through the held topic, the
    spool, a restart, or another process. So these spans need no memory of the request.

    digits: so many random hexadecimal digits.  clock_ns: nanoseconds since 1970.
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
