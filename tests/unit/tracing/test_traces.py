"""Which requests are sampled, and how their spans hang together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason, rejected
from headgate.model.trace import Producing, Reserving, Trace
from headgate.tracing.spans import MAX_OPEN, Span, SpanKind, Traces

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01".encode()
UNSAMPLED = SAMPLED[:-2] + b"00"


class World:
    """Traces with a clock that a test sets. draw: what chance says."""

    def __init__(self, one_in: int = 0, draw: Callable[[], float] = lambda: 0.5) -> None:
        self.now_ns, self.left_out = 1000, 0
        self.spans: list[Span] = []
        numbers = count(1)
        self.traces = Traces(
            one_in,
            draw,
            lambda digits: f"{next(numbers):0{digits}x}",
            lambda: self.now_ns,
            self.spans.extend,
            self._leave_out,
        )

    def _leave_out(self) -> None:
        self.left_out += 1


@pytest.mark.parametrize(
    ("one_in", "draw", "header", "is_sampled"),
    [
        (0, 0.0, None, False), (0, 0.0, SAMPLED, True), (0, 0.0, UNSAMPLED, False),
        (1, 0.999, None, True), (1, 0.0, UNSAMPLED, False), (1, 0.999, SAMPLED, True),
        (4, 0.24, None, True), (4, 0.25, None, False), (4, 0.24, b"00-1", True),
        (4, 0.25, b"00-1", False), (0, 0.0, b"00-1", False),
    ],
)  # fmt: skip
def test_the_caller_decides_and_else_chance(
    one_in: int, draw: float, header: bytes | None, is_sampled: bool
) -> None:
    headers = {} if header is None else {b"traceparent": header}
    found = World(one_in, lambda: draw).traces.begin(headers)
    assert (found is not None) is is_sampled


def begun(world: World, **headers: bytes) -> Trace:
    trace = world.traces.begin({name.encode(): value for name, value in headers.items()})
    assert trace is not None
    return trace


def test_a_trace_goes_on_and_its_records_continue_it() -> None:
    world = World()
    trace = begun(world, traceparent=SAMPLED, tracestate=b"vendor=1")
    trace.reserving, trace.producing = Reserving("deals", 1001), Producing("deals", 1002)
    trace.reserving.ended_ns, trace.producing.ended_ns = 1002, 1005
    world.now_ns = 1007
    world.traces.end(trace, 201)
    request, reserve, produce = world.spans
    assert {(one.trace_id, one.state) for one in world.spans} == {(TRACE, "vendor=1")}
    assert [one.parent_id for one in world.spans] == [SPAN, request.span_id, request.span_id]
    assert len({one.span_id for one in world.spans} | {SPAN}) == 4
    assert trace.context == f"00-{TRACE}-{produce.span_id}-01".encode()
    times = [(one.began_ns, one.ended_ns) for one in world.spans]
    assert times == [(1000, 1007), (1001, 1002), (1002, 1005)]
    kinds = [SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER]
    assert [one.kind for one in world.spans] == kinds
    assert [one.name for one in (reserve, produce)] == ["reserve deals", "produce deals"]
    assert not any(one.error for one in world.spans)


def test_a_trace_may_begin_here() -> None:
    world = World(one_in=1)
    trace = begun(world, tracestate=b"of=nobody")
    world.traces.end(trace, 200)
    (span,) = world.spans
    assert (span.parent_id, span.state) == ("", "")
    assert span.trace_id != TRACE
    assert len(span.trace_id) == 32


def test_second_end_of_a_trace_is_ignored() -> None:
    world = World(one_in=1)
    trace = begun(world)
    world.traces.end(trace, 200)
    world.traces.end(trace, 500)
    assert len(world.spans) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(201, ""), (404, ""), (429, ""), (503, "503"), (0, "the client left")]
)
def test_what_is_an_error_of_the_gateway(status: int, error: str) -> None:
    world = World(one_in=1)
    world.traces.end(begun(world), status)
    (span,) = world.spans
    assert span.error == error
    assert span.attributes.get("http.response.status_code", 0) == status


def test_what_goes_to_disk_without_a_lane_has_the_span_that_its_records_name() -> None:
    world = World(one_in=1)
    trace = begun(world)
    failed = rejected(Failure(Reason.MALFORMED, ""))
    trace.answer = (
        "shop",
        "orders",
        [Outcome(OutcomeName.SPOOLED), Outcome(OutcomeName.SPOOLED), failed],
    )
    world.traces.end(trace, 207)
    request, spool = world.spans
    assert (spool.name, spool.parent_id) == ("spool orders", request.span_id)
    assert trace.context == f"00-{spool.trace_id}-{spool.span_id}-01".encode()
    assert spool.attributes["messaging.batch.message_count"] == 2


def test_what_went_to_disk_before_the_producer_had_it_has_that_span_too() -> None:
    world = World(one_in=1)
    trace = begun(world)
    trace.put("a record", "orders")
    trace.ended("a record", error="spooled")
    trace.answer = ("shop", "orders", [Outcome(OutcomeName.SPOOLED)])
    world.traces.end(trace, 202)
    assert [one.name for one in world.spans] == ["POST", "spool orders"]


def test_what_the_producer_had_before_it_went_to_disk_has_a_failed_produce_span() -> None:
    world = World(one_in=1)
    trace = begun(world)
    trace.put("a record", "orders")
    trace.handed_over()
    trace.ended("a record", error="unknown")
    trace.ended("a record", error="spooled")
    trace.answer = ("shop", "orders", [Outcome(OutcomeName.SPOOLED)])
    world.traces.end(trace, 202)
    assert [(one.name, one.error) for one in world.spans[1:]] == [("produce orders", "unknown")]


def test_an_event_that_went_to_no_lane_does_not_end_the_produce_span() -> None:
    world = World(one_in=1)
    trace = begun(world)
    trace.put("a record", "orders")
    trace.ended("another", error="too_large")
    assert trace.producing is not None
    assert (trace.producing.open, trace.producing.error) == ({"a record"}, "")


def test_what_is_not_acknowledged_in_time_says_so() -> None:
    world = World(one_in=1)
    trace = begun(world)
    world.now_ns = 1001
    trace.put("a record", "orders")
    world.now_ns = 2000
    world.traces.end(trace, 504)
    produce = world.spans[1]
    assert (produce.ended_ns, produce.error) == (
        2000, "not acknowledged when the request was answered"
    )  # fmt: skip
    assert produce.attributes["error.type"] == produce.error


def test_the_clock_may_go_back() -> None:
    world = World(one_in=1)
    trace = begun(world)
    trace.producing = Producing("orders", 1001)
    trace.producing.ended_ns = world.now_ns = 900
    world.traces.end(trace, 201)
    assert all(one.ended_ns >= one.began_ns for one in world.spans)


def test_the_outcomes_are_counted() -> None:
    world = World(one_in=1)
    trace = begun(world)
    failed = [rejected(Failure(reason, "")) for reason in (Reason.MISSING_KEY, Reason.MALFORMED)]
    trace.answer = (
        "shop", "orders", [Outcome(OutcomeName.PUBLISHED), Outcome(OutcomeName.UNCHANGED), *failed],
    )  # fmt: skip
    world.traces.end(trace, 207)
    found = world.spans[0].attributes
    assert (found["headgate.producer"], found["messaging.destination.name"]) == ("shop", "orders")
    assert (found["headgate.published"], found["headgate.unchanged"]) == (1, 1)
    assert (found["headgate.rejected"], found["headgate.reasons"]) == (2, "malformed,missing_key")


def test_so_many_are_under_way_at_most() -> None:
    world = World(one_in=1)
    traces = [begun(world) for _ in range(MAX_OPEN)]
    assert world.traces.begin({}) is None
    assert world.left_out == 1
    world.traces.end(traces[0], 201)
    assert world.traces.begin({}) is not None
