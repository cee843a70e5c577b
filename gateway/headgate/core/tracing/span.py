"""A span that has ended, as it goes to the collector."""

from enum import IntEnum
from typing import NamedTuple

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
