"""Sampled requests and their spans. Pure: the clock and random digits are arguments.

    request                     from its head to its response
    ├── reserve                 from the first request to Redis to the last reply
    └── produce                 from the first record's lane to the last acknowledgement, or
        spool                   if the records went to disk and the producer had none of them

A request has one span of each kind, whatever its number of events. Consumers continue the trace:
the front of a sampled request replaces `traceparent` by the produce span's context, and each record
of the request gets that header.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.model.outcome import Outcome, OutcomeName
from headgate.model.publish import Publish
from headgate.model.trace import (
    TRACEPARENT,
    TRACESTATE,
    Parent,
    Producing,
    Reserving,
    Trace,
    read_parent,
    read_state,
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


def spans_of(trace: Trace, status: int, reserve_id: str, now_ns: int) -> list[Span]:
    """Return all spans of a request that was answered.

    Args:
        trace: The request.
        status: HTTP status of the response; 0 if the client disconnected.
        reserve_id: Id of the reserve span.
        now_ns: Current time, in nanoseconds since 1970.
    """
    spans = [_request(trace, status, now_ns)]
    reserving, producing, spooled = trace.reserving, trace.producing, _spooled(trace)
    if reserving is not None:
        spans.append(
            _below(
                trace,
                f"reserve {reserving.topic}",
                SpanKind.CLIENT,
                reserve_id,
                reserving.began_ns,
                reserving.ended_ns or now_ns,
                _compared(reserving),
            )
        )
    if spooled and (producing is None or not producing.handed_ns):  # the records refer to this span
        topic = spooled["messaging.destination.name"]
        spans.append(
            _below(
                trace,
                f"spool {topic}",
                SpanKind.PRODUCER,
                trace.produce_id,
                trace.began_ns,
                now_ns,
                spooled,
            )
        )
    elif producing is not None:
        if producing.open:
            producing.ended_ns, producing.error = now_ns, producing.error or _LATE
        handed_ns = producing.handed_ns
        moments = (Moment("handed over to the producer", handed_ns),) if handed_ns else ()
        spans.append(
            _below(
                trace,
                f"produce {producing.topic}",
                SpanKind.PRODUCER,
                trace.produce_id,
                producing.began_ns,
                producing.ended_ns,
                _produced(producing),
                producing.error,
                moments,
            )
        )
    return spans


def _request(trace: Trace, status: int, now_ns: int) -> Span:
    attributes: Attributes = {"http.request.method": trace.method, "url.path": trace.path}
    for name, text in (("http.route", trace.route), ("headgate.request_id", trace.request_id)):
        if text:
            attributes[name] = text
    if status:
        attributes["http.response.status_code"] = status
    error = ""
    if not status:
        error = "the client left"
    elif status >= _SERVER_ERROR:
        error = attributes["error.type"] = str(status)
    if trace.answer is not None:
        attributes |= _answered(*trace.answer)
    elif trace.reason:
        attributes["headgate.reasons"] = trace.reason
    return Span(
        name=f"{trace.method} {trace.route}".rstrip(),
        kind=SpanKind.SERVER,
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=trace.parent_id,
        state=trace.state,
        began_ns=trace.began_ns,
        ended_ns=max(now_ns, trace.began_ns),
        attributes=attributes,
        error=error,
    )


def _below(
    trace: Trace,
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
        name=name,
        kind=kind,
        trace_id=trace.trace_id,
        span_id=span_id,
        parent_id=trace.span_id,
        state=trace.state,
        began_ns=began_ns,
        ended_ns=ended_ns,
        attributes=attributes,
        error=error,
        moments=moments,
    )


def _compared(reserving: Reserving) -> Attributes:
    return {
        "db.system.name": "redis",
        "messaging.destination.name": reserving.topic,
        "headgate.events": reserving.events,
        "headgate.unchanged": reserving.unchanged,
        "headgate.unreserved": reserving.unreserved,
    }


def _produced(producing: Producing) -> Attributes:
    attributes: Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.type": "send",
        "messaging.operation.name": "produce",
        "messaging.destination.name": producing.topic,
    }
    add_position(attributes, producing.records, producing.position)
    if producing.error:
        attributes["error.type"] = producing.error
    return attributes


def add_position(attributes: Attributes, records: int, position: tuple[int, int]) -> None:
    """Add the number of records, or of a single one its position in Kafka's log.

    Args:
        attributes: Attributes of a span.
        records: Number of its records.
        position: Partition and offset of the last record; an offset of -1 if it is unknown.
    """
    partition, offset = position
    if records > 1:
        attributes["messaging.batch.message_count"] = records
    elif offset >= 0:
        attributes["messaging.destination.partition.id"] = str(partition)
        attributes["messaging.kafka.offset"] = offset


def _spooled(trace: Trace) -> Attributes | None:
    if trace.answer is None:
        return None
    _, topic, outcomes = trace.answer
    count = sum(outcome.name is OutcomeName.SPOOLED for outcome in outcomes)
    if not count:
        return None
    return {"messaging.destination.name": topic, "messaging.batch.message_count": count}


def _answered(producer: str, topic: str, outcomes: Sequence[Outcome]) -> Attributes:
    attributes: Attributes = {"messaging.destination.name": topic, "headgate.producer": producer}
    attributes |= {
        f"headgate.{name}": count
        for name, count in Counter(str(outcome.name) for outcome in outcomes).items()
    }
    reasons = {str(outcome.failure.reason) for outcome in outcomes if outcome.failure is not None}
    if reasons:
        attributes["headgate.reasons"] = ",".join(sorted(reasons))
    return attributes


MAX_OPEN: Final = 10_000  # of a worker, some kB each; more are left out


class Traces:
    """Sampled requests that are not answered yet.

    Args:
        one_in: One in this many requests without a parent is sampled at random; 0: none. The
            caller's decision takes precedence.
        draw: Returns random numbers in [0, 1).
        digits: Returns the given number of random hexadecimal digits.
        clock_ns: Wall clock, in nanoseconds since 1970.
        take: Takes the spans of a request that was answered.
        left_out: Called for each request that is not traced because too many traces are open.
    """

    def __init__(
        self,
        one_in: int,
        draw: Callable[[], float],
        digits: Callable[[int], str],
        clock_ns: Callable[[], int],
        take: Callable[[list[Span]], None],
        left_out: Callable[[], None],
    ) -> None:
        self._share: Final = 1 / one_in if one_in else 0.0
        self._draw: Final = draw
        self._digits: Final = digits
        self.clock_ns: Final = clock_ns
        self._take: Final = take
        self._left_out: Final = left_out
        self._open: set[Trace] = set()

    def begin(self, headers: Mapping[bytes, bytes]) -> Trace | None:
        """Begin the trace of a request, if it is sampled.

        Args:
            headers: Headers of the request; names in lower case.
        """
        parent = read_parent(headers.get(TRACEPARENT))
        if not (self._draw() < self._share if parent is None else parent.is_sampled):
            return None
        if len(self._open) >= MAX_OPEN:
            self._left_out()
            return None
        ids, state = self._digits(32), b""
        if parent is None:
            parent = Parent(self._digits(32), "", 0)
        else:
            state = read_state(headers.get(TRACESTATE, b""))
        trace = Trace(parent, state.decode("ascii"), ids, self.clock_ns)
        self._open.add(trace)
        return trace

    @property
    def is_idle(self) -> bool:
        """Return whether no sampled request is in flight; then no batch is searched."""
        return not self._open

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Note a batch that the producer has."""
        for _, trace in self._sampled(batch):
            trace.handed_over()

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Note a batch that Kafka acknowledged; its first offset is -1 if it is not known."""
        for index, trace in self._sampled(batch):
            offset = base_offset + index if base_offset >= 0 else -1
            trace.ended(batch[index], position=(batch[index].record.partition, offset))

    def failed(self, batch: Sequence[Publish], error: str) -> None:
        """Note a batch that Kafka did not acknowledge."""
        for index, trace in self._sampled(batch):
            trace.ended(batch[index], error=error)

    def _sampled(self, batch: Sequence[Publish]) -> Iterator[tuple[int, Trace]]:
        """Yield the index in the batch and the trace of each event of a sampled request."""
        if self._open:
            for index, publish in enumerate(batch):
                if publish.common is not None and publish.common.trace is not None:
                    yield index, publish.common.trace

    def end(self, trace: Trace, status: int) -> None:
        """End the trace of a request that was answered.

        Args:
            trace: The trace.
            status: HTTP status of the response; 0 if the client disconnected.
        """
        if trace in self._open:
            self._open.discard(trace)
            self._take(spans_of(trace, status, self._digits(16), self.clock_ns()))


# ---- spans of a record after its request was answered

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
            name=name,
            kind=SpanKind.CONSUMER,
            trace_id=parent.trace_id,
            span_id=self._digits(16),
            parent_id=parent.span_id,
            state=of.state,
            began_ns=began_ns,
            ended_ns=ended_ns,
            attributes=attributes,
            error=error,
        )
        self._take([span])
