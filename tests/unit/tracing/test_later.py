"""Spans of what becomes of a record after its request was answered."""

from __future__ import annotations

import pytest

from headgate.tracing.spans import LaterSpans, Span, SpanKind, carried

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = f"00-{TRACE}-{SPAN}-01".encode()


@pytest.mark.parametrize("value", [None, b"00-1", SAMPLED[:-2] + b"00"])
def test_a_record_of_a_request_that_is_not_sampled_has_none(value: bytes | None) -> None:
    given = [] if value is None else [("traceparent", value)]
    assert carried([("hg-producer", b"p"), *given]) is None


def test_a_state_that_is_none_is_left_out() -> None:
    """A record that a client of Kafka wrote may have anything there."""
    of = carried([("traceparent", SAMPLED), ("tracestate", b"\xff\n")])
    assert of is not None
    assert of.state == ""


def test_a_span_continues_the_one_that_the_record_names() -> None:
    spans = list[Span]()
    later = LaterSpans(lambda digits: "e" * digits, lambda: 900, spans.extend)
    of = carried([("tracestate", b"v=1"), ("hg-producer", b"p"), ("traceparent", SAMPLED)])
    assert of is not None
    later.end(of, "drain orders", 700, {"headgate.events": 1})
    later.end(of, "drain orders", 1000, {}, "too_large")  # the clock went back
    well, failed = spans
    assert (well.trace_id, well.parent_id, well.state) == (TRACE, SPAN, "v=1")
    assert (well.span_id, well.kind, well.name) == ("e" * 16, SpanKind.CONSUMER, "drain orders")
    assert (well.began_ns, well.ended_ns, well.error) == (700, 900, "")
    assert (failed.began_ns, failed.ended_ns) == (1000, 1000)
    assert failed.error == failed.attributes["error.type"] == "too_large"
