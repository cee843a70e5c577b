# Not compiled: only sampled requests have a trace.
"""W3C trace context, and the state of a sampled request on its way through the stages.

A request that is not sampled has None in place of its `Trace`, so that each stage pays for one
comparison. `tracing.spans` begins traces and turns them into spans.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Final, NamedTuple

from headgate.model.outcome import Outcome

TRACEPARENT: Final = b"traceparent"
TRACESTATE: Final = b"tracestate"

_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_UNUSED_VERSION: Final = b"ff"
_SAMPLED: Final = 0x01
_RANDOM: Final = 0x02  # the trace id's last 7 bytes are random; the flag is passed on unchanged

_MEMBER: Final = re.compile(
    rb"([a-z0-9][a-z0-9_*/@-]{0,255})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)
_STATE_MEMBERS: Final = 32
_STATE_BYTES: Final = 512  # the size that every participant must be able to pass on
_LONG_MEMBER: Final = 128  # longer members are dropped first if the state is too long


class Parent(NamedTuple):
    """The parent span of a request, with ids in hexadecimal; `flags` has only known flags."""

    trace_id: str
    span_id: str
    flags: int

    @property
    def is_sampled(self) -> bool:
        """Return whether the caller records the trace."""
        return bool(self.flags & _SAMPLED)


def read_parent(value: bytes | None) -> Parent | None:
    """Parse `traceparent`; None if it is absent or invalid, so that a new trace begins."""
    match = None if value is None else _FORM.fullmatch(value)
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == _UNUSED_VERSION or (version == b"00" and rest is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return Parent(trace_id.decode(), span_id.decode(), int(flags, 16) & (_SAMPLED | _RANDOM))


def read_state(value: bytes) -> bytes:
    """Return the part of a `tracestate` to pass on: complete members, the newest first.

    Members that do not fit are dropped. The result is empty if the state is malformed, because its
    members cannot be attributed then.
    """
    by_key = dict[bytes, bytes]()
    for text in value.split(b","):
        member = text.strip(b" \t")
        if not member:
            continue
        parts = _MEMBER.fullmatch(member)
        if parts is None or parts[1] in by_key:
            return b""
        by_key[parts[1]] = member
    members = list(by_key.values())[:_STATE_MEMBERS]
    if len(b",".join(members)) > _STATE_BYTES:
        members = [each for each in members if len(each) <= _LONG_MEMBER]
    while len(state := b",".join(members)) > _STATE_BYTES:
        members.pop()
    return state


def traceparent(trace_id: str, span_id: str, flags: int = 0) -> bytes:
    """Return the `traceparent` of a sampled span; `flags` are those of its parent."""
    return f"00-{trace_id}-{span_id}-{flags | _SAMPLED:02x}".encode()


# ---- a sampled request; times are in nanoseconds since 1970


class Reserving:
    """The time in suppression. `ended_ns`: time of the latest reply, or 0 before the first."""

    __slots__ = ("began_ns", "ended_ns", "events", "topic", "unchanged", "unreserved")

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.events = self.unchanged = self.unreserved = 0


class Producing:
    """The time in lanes and in Kafka.

    Attributes:
        open: The records that have not ended.
        position: Partition and offset of the last record.
    """

    def __init__(self, topic: str, now_ns: int) -> None:
        self.topic = topic
        self.began_ns = now_ns
        self.ended_ns = self.handed_ns = self.records = 0
        self.open = set[Hashable]()
        self.error = ""
        self.position = (-1, -1)


class Trace:
    """A sampled request. Ids are hexadecimal.

    Args:
        parent: The caller's span; its id is empty if the trace begins here.
        state: The caller's `tracestate`.
        ids: 32 random hexadecimal digits, for the ids of the request and produce spans.
        clock_ns: Wall clock, in nanoseconds since 1970.

    Attributes:
        parent_id: Id of the caller's span; empty if the trace begins here.
        state: The caller's `tracestate`.
        method: HTTP method of the request.
        path: Path of the request.
        route: Template of the path, once it is known.
        answer: Producer, topic and outcomes of the events; of a stream, of its last part.
        reason: Reason for which the request was refused as a whole; else empty.
    """

    def __init__(self, parent: Parent, state: str, ids: str, clock_ns: Callable[[], int]) -> None:
        self.trace_id, self.parent_id, self.flags = parent
        self.state = state
        self.span_id, self.produce_id = ids[:16], ids[16:]
        self._clock_ns: Final = clock_ns
        self.began_ns = clock_ns()
        self.method = "POST"
        self.path = self.route = self.request_id = self.reason = ""
        self.reserving: Reserving | None = None
        self.producing: Producing | None = None
        self.answer: tuple[str, str, Sequence[Outcome]] | None = None

    @property
    def context(self) -> bytes:
        """Return the records' `traceparent`; their consumers continue the produce span."""
        return traceparent(self.trace_id, self.produce_id, self.flags)

    def reserve(self, topic: str) -> None:
        """Note an event that suppression compares."""
        if self.reserving is None:
            self.reserving = Reserving(topic, self._clock_ns())
        self.reserving.events += 1

    def decided(self, *, unchanged: int = 0, unreserved: int = 0) -> None:
        """Note a verdict of suppression.

        Args:
            unchanged: 1 if the event is unchanged.
            unreserved: The records that go on without a reservation.
        """
        if self.reserving is not None:
            self.reserving.ended_ns = self._clock_ns()
            self.reserving.unchanged += unchanged
            self.reserving.unreserved += unreserved

    def put(self, record: Hashable, topic: str) -> None:
        """Note a record that goes to its lane."""
        if self.producing is None:
            self.producing = Producing(topic, self._clock_ns())
        if record not in self.producing.open:
            self.producing.open.add(record)
            self.producing.records += 1

    def handed_over(self) -> None:
        """Note that the producer has a record."""
        if self.producing is not None and not self.producing.handed_ns:
            self.producing.handed_ns = self._clock_ns()

    def ended(
        self, record: Hashable, *, position: tuple[int, int] | None = None, error: str = ""
    ) -> None:
        """Note the end of a record; ignore it if the record did not go to a lane.

        Args:
            record: The record, as in `put`.
            position: Partition and offset; None if Kafka did not acknowledge it.
            error: Cause of the failure; empty if there is none.
        """
        producing = self.producing
        if producing is not None and record in producing.open:
            producing.open.discard(record)
            producing.ended_ns = self._clock_ns()
            producing.position = position or producing.position
            producing.error = error or producing.error
