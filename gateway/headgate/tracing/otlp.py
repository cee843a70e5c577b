"""Spans as OTLP/HTTP takes them, in its JSON form (opentelemetry.io/docs/specs/otlp)."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from headgate import __version__
from headgate.core.tracing.span import Span, SpanKind

PATH: Final = "/v1/traces"
CONTENT_TYPE: Final = "application/json"

_ERROR: Final = {"code": 2}
_SAMPLED: Final = 0x01
_REMOTE: Final = 0x300  # the parent came with a request or a record
_LOCAL: Final = 0x100
_CONTINUING: Final = (SpanKind.SERVER, SpanKind.CONSUMER)

Json = dict[str, Any]


def request(resource: Mapping[str, str | int], spans: Iterable[Span]) -> bytes:
    """An ExportTraceServiceRequest. resource: who made the spans, as attributes."""
    scope = {"name": "headgate", "version": __version__}
    scoped = {"scope": scope, "spans": [_span(span) for span in spans]}
    whole = {"resource": {"attributes": _attributes(resource)}, "scopeSpans": [scoped]}
    return orjson.dumps({"resourceSpans": [whole]})


def rejected(answer: bytes, sent: int) -> int:
    """How many spans a collector refused of a request with so many that it took, whatever number
    it says."""
    try:
        refused = int(orjson.loads(answer)["partialSuccess"].get("rejectedSpans", 0))
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return 0  # most answers say nothing of it, or are empty
    return max(0, min(refused, sent))


def _span(span: Span) -> Json:
    is_remote = span.kind in _CONTINUING
    found: Json = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "flags": _SAMPLED | (_REMOTE if is_remote and span.parent_id else _LOCAL),
        "startTimeUnixNano": str(span.began_ns),
        "endTimeUnixNano": str(span.ended_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.parent_id:
        found["parentSpanId"] = span.parent_id
    if span.state:
        found["traceState"] = span.state
    if span.error:
        found["status"] = {**_ERROR, "message": span.error}
    if span.moments:
        found["events"] = [
            {"name": one.name, "timeUnixNano": str(one.at_ns)} for one in span.moments
        ]
    return found


def _attributes(given: Mapping[str, str | int]) -> list[Json]:
    # 64-bit integers are texts in Protobuf's JSON, so that JavaScript reads them.
    return [
        {"key": key, "value": {"stringValue": one} if type(one) is str else {"intValue": str(one)}}
        for key, one in given.items()
    ]
