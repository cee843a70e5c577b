"""Stages that turn a request's events into records and validate them.

`BuildRecords` sets key, partition, timestamp and lane, and checks the size limits. It is the last
stage that handles a request as a whole: later stages handle single events.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence, Sized
from typing import Final

from headgate.backends.base import Lanes
from headgate.formats.decode import Decoded
from headgate.ingest.turn import InOrder
from headgate.model.cache import BoundedCache
from headgate.model.content import (
    CheckResult,
    Content,
    ContentCheck,
    Fallback,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.model.keys import choose_partition
from headgate.model.outcome import (
    Failure,
    Reason,
    Refused,
    brief,
    long_key,
    malformed,
    rejected,
)
from headgate.model.oversize import Large
from headgate.model.publish import (
    SPREAD,
    Common,
    Event,
    Publish,
    RawEvent,
    Record,
    Streamed,
    Ticket,
    content_type_of,
)
from headgate.model.record import (
    BURST,
    CONTENT_TYPE,
    EVENT_ID,
    FORCED,
    HEADER_OVERHEAD,
    PRODUCER,
    RECEIVED_AT,
    WANTED_TIMESTAMP,
    Header,
    size_of,
)
from headgate.model.request import RequestOptions
from headgate.model.route import PLAIN_BYTES, PLAIN_HEADERS, Route, event_too_large
from headgate.native.chosen import is_too_deep
from headgate.offload.helper_process import HelperProcess

# Names come from clients: the memory for them must be bounded.
_PRODUCERS_REMEMBERED: Final = 10_000
_UNASKED: Final = Failure(Reason.INTERNAL, "")  # the partition's lane was not checked yet
_SOME_EVENT_ID: Final = 36  # bytes of an event id that the gateway generates
_EVENT_ID_BYTES: Final = HEADER_OVERHEAD + len(EVENT_ID) + _SOME_EVENT_ID
_TOO_LARGE: Final = Large()
_CACHED_KEY_BYTES: Final = 256
_KEYLESS: Final = Failure(
    Reason.MISSING_KEY,
    "the event has no key, and this topic has no key rule that applies to it: send Headgate-Key",
)
_NO_TIMESTAMPS: Final = (
    'this topic\'s records get the time of their arrival (compat_timestamps = "refuse"): '
    "leave out timestamp"
)


class _Request:
    """State that the events of one request share while their records are built.

    Attributes:
        shared_bytes: Size of the headers that each record gets, in bytes.
        refusals: By partition, the reason for which its lane accepts nothing now, or None.
    """

    def __init__(self, ticket: Ticket, common: Common, shared_bytes: int) -> None:
        self.ticket = ticket
        self.common = common
        self.shared_bytes = shared_bytes
        self.refusals: dict[int, Failure | None] = {}


class BuildRecords:
    """Stage that builds a request's records.

    Args:
        lanes: Lanes of the producer; each may refuse new records.
        clock_ms: Wall clock, in milliseconds since 1970.
    """

    def __init__(self, lanes: Lanes, clock_ms: Callable[[], int]) -> None:
        self._lanes = lanes
        self._clock_ms = clock_ms
        self._producer_headers = BoundedCache[str, Header](_PRODUCERS_REMEMBERED)
        self._received_at: Header = (RECEIVED_AT, None)  # the header of `_received_ms`
        self._received_ms = -1

    def build(
        self,
        ticket: Ticket,
        route: Route,
        options: RequestOptions,
        decoded: Decoded,
    ) -> None:
        """Start the publishes of a ticket, in order. All other events get their outcome here."""
        request = self._request(ticket, route, options)
        if decoded.is_plain:
            self._from_columns(request, route, options.event_id, decoded)
        else:
            self._from_events(request, route, options.event_id, decoded)
        streamed = ticket.streamed
        if streamed is not None:
            ticket.sizes[0] = streamed.stored.size
            for publish in ticket.publishes:
                _refer_to(streamed, publish, route)
        ticket.open_publishes = len(ticket.publishes)

    def _request(self, ticket: Ticket, route: Route, options: RequestOptions) -> _Request:
        now_ms = self._clock_ms()
        if now_ms != self._received_ms:
            self._received_ms, self._received_at = now_ms, (RECEIVED_AT, b"%d" % now_ms)
        route.requests += 1
        name = ticket.producer
        headers: list[Header] = [
            self._producer_headers.get(name)
            or self._producer_headers.put(name, (PRODUCER, name.encode())),
            self._received_at,
            *options.record_headers,
        ]
        if route.held is not None:  # headers carry the options to the coalescer
            if options.burst is not None:
                headers.append((BURST, options.burst))
            if options.force:
                headers.append((FORCED, b"1"))
        common = Common(
            route,
            options.key,
            options.timestamp_ms,
            options.tombstone,
            route.requests,
            headers,
            now_ms,
            options.force,
            ticket.trace,
        )
        shared_bytes = route.schema_bytes + _EVENT_ID_BYTES
        if options.event_id is not None:
            shared_bytes += len(options.event_id.encode()) - _SOME_EVENT_ID
        for name, content in headers:
            shared_bytes += HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
        return _Request(ticket, common, shared_bytes)

    def _from_events(
        self, request: _Request, route: Route, event_id: str | None, decoded: Decoded
    ) -> None:
        """Start the publishes of decoded events.

        Args:
            request: Shared state of the request.
            route: Route of the topic.
            event_id: Event id in the request's headers; such a request has one event.
            decoded: Events of the request.
        """
        ticket, common, shared_bytes = request.ticket, request.common, request.shared_bytes
        sizes = ticket.sizes
        known = ticket.attempt.known if ticket.attempt is not None else None
        for index, event in enumerate(decoded.events):
            if known and index in known:  # an earlier attempt completed it
                sizes[index] = _size(event)
                ticket.put(index, known[index])
                continue
            if isinstance(event, Failure):
                ticket.put(index, rejected(event))
                continue
            try:
                record = build_record(route, event, common)
            except Refused as refused:
                sizes[index] = _size(event)
                ticket.put(index, rejected(refused.failure, None, event_id))
                continue
            key, value = record.key, record.value
            length = sizes[index] = len(value) if value else 0
            if type(event) is bytes:
                size = shared_bytes + PLAIN_BYTES + length + (len(key) if key else 0)
                publish = Publish(record, size, ticket, index, event_id)
            else:
                size = shared_bytes + size_of(key, value, record.headers)
                publish = Publish(record, size, ticket, index, event_id)
                _take_own_id(publish, event)
            self._start(request, route, publish, length)

    def _from_columns(
        self, request: _Request, route: Route, event_id: str | None, decoded: Decoded
    ) -> None:
        """Start the publishes of plain documents.

        The scanner has already found their keys, partitions and digests.
        """
        ticket = request.ticket
        topic, now_ms = route.topic, request.common.now_ms
        keys, partitions, digests = decoded.keys, decoded.partitions, decoded.digests
        sizes, plain_bytes = ticket.sizes, request.shared_bytes + PLAIN_BYTES
        key, partition = None, partition_of(route, None, request.common.request_number)
        for index, value in enumerate(decoded.events):
            assert isinstance(value, bytes)
            length = sizes[index] = len(value)
            size = plain_bytes + length
            if keys is not None and partitions is not None:
                key, partition = keys[index], partitions[index]
                size += len(key)
            record = Record(topic, partition, key, value, PLAIN_HEADERS, now_ms)
            publish = Publish(record, size, ticket, index, event_id)
            if digests is not None:
                publish.digest = digests[index]
            self._start(request, route, publish, length)

    def _start(self, request: _Request, route: Route, publish: Publish, length: int) -> None:
        """Start a publish, or refuse it if it is too large or its lane accepts nothing.

        Args:
            request: Shared state of the request.
            route: Route of the topic.
            publish: The publish to start.
            length: Length of its value, in bytes.
        """
        publish.common = request.common
        if not fits(route, length, publish.size):
            if not route.strategies:
                failure = event_too_large(route, length, publish.size)
                _refuse(publish, failure)
                if publish.record.value is not None:
                    request.ticket.weigh(publish.index, publish.record.value)
                return
            publish.large = _TOO_LARGE
        partition = publish.record.partition
        failure_now = request.refusals.get(partition, _UNASKED)
        if failure_now is _UNASKED:
            failure_now = self._lanes.refusal(route.lane, partition)
            request.refusals[partition] = failure_now
        if failure_now is None:
            request.ticket.publishes.append(publish)
        else:
            _refuse(publish, failure_now)


def _size(event: Event) -> int:
    """Return the size of an event's value, in bytes."""
    if isinstance(event, Failure):
        return 0
    value = event if isinstance(event, bytes) else event.value
    return len(value or b"")


def fits(route: Route, value_bytes: int, record_bytes: int) -> bool:
    """Return whether an event is within both limits of its topic.

    Kafka's limit applies to a batch after compression, so a record that fits uncompressed passes.

    Args:
        route: The route of the topic.
        value_bytes: The size of the value.
        record_bytes: The size of the record, as `record.size_of` bounds it.
    """
    return value_bytes <= route.max_value_bytes and record_bytes <= route.max_record_bytes


def _refuse(publish: Publish, failure: Failure) -> None:
    """Reject an event that was not started."""
    assert publish.ticket is not None
    outcome = rejected(failure, publish.record.key, publish.event_id)
    publish.ticket.put(publish.index, outcome)


def _take_own_id(publish: Publish, event: bytes | RawEvent) -> None:
    if not isinstance(event, RawEvent):
        return
    if event.partition is not None and event.partition != SPREAD:
        publish.is_client_placed = True
    if event.event_id is not None:
        if publish.event_id is None:
            publish.event_id, publish.source = event.event_id, event.source
        publish.size += len(publish.event_id.encode())


def _refer_to(streamed: Streamed, publish: Publish, route: Route) -> None:
    """Set the publish's blob reference and digest; its value is in the blob store."""
    publish.large = Large(streamed.stored)
    # The configuration may have been reloaded since the first byte. Then no digest was computed.
    if route.digest is not None:
        publish.digest = streamed.digest or b""


# ---- the record of one event


def build_record(route: Route, event: bytes | RawEvent, common: Common) -> Record:
    """Return the record of an event, with only the event's own headers.

    `ingest.turn` adds the other headers.

    Raises:
        Refused: The event cannot be published.
    """
    if type(event) is bytes:
        document: bytes | None = event
        value: bytes | None = event
        given = common.key
        headers = PLAIN_HEADERS
        timestamp = _timestamp(route, None, common) if route.takes_timestamps else common.now_ms
    else:
        assert isinstance(event, RawEvent)
        document, value = event.document, event.value
        if event.partition is not None:
            return _placed(route, event, event.partition, common)
        given = event.key if common.key is None else common.key
        headers = _own_headers(event)
        timestamp = _timestamp(route, event.timestamp_ms, common)
    key = given if document is None else key_of(route, document, given)
    if key is None and route.policy.keyless != "spread":
        raise Refused(_KEYLESS)
    if key is not None and len(key) > route.key_max_bytes:
        raise Refused(long_key(route.key_max_bytes))
    partition = partition_of(route, key, common.request_number)
    if common.tombstone:
        value = None
    if timestamp != common.now_ms and route.held is not None:
        # Retention counts from the arrival; the coalescer restores the event's own time.
        headers = [*headers, (WANTED_TIMESTAMP, b"%d" % timestamp)]
        timestamp = common.now_ms
    return Record(route.topic, partition, key, value, headers, timestamp)


def _placed(route: Route, event: RawEvent, partition: int, common: Common) -> Record:
    """Return the record of an event whose client may choose the partition and omit the key.

    Such clients also choose the timestamp, whatever the topic's option `timestamp` is.
    """
    if not SPREAD <= partition < route.state.partitions:
        detail = f"topic {brief(route.topic)} has no partition {partition}"
        raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))
    timestamp = common.now_ms
    if event.timestamp_ms is not None:
        if route.policy.compat_timestamps == "refuse":
            raise Refused(Failure(Reason.TIMESTAMP_OUT_OF_RANGE, _NO_TIMESTAMPS))
        timestamp = _within(route, event.timestamp_ms, common.now_ms)
    key = event.key
    if event.document is not None:
        key = key_of(route, event.document, key, may_lack=True)
    if key is not None and len(key) > route.key_max_bytes:
        raise Refused(long_key(route.key_max_bytes))
    if partition == SPREAD:
        partition = partition_of(route, key, common.request_number)
    value = None if common.tombstone else event.value
    return Record(route.topic, partition, key, value, _own_headers(event), timestamp)


def partition_of(route: Route, key: bytes | None, request_number: int = 0) -> int:
    """Return the partition of an event, as `choose_partition` does.

    Keys repeat, and the hash of a key costs 2 to 8 us in Python. Long keys are not cached, because
    they rarely repeat and would fill the cache.
    """
    if key is None:
        return choose_partition(None, request_number, route.lane.partitions)
    partition = route.partitions.get(key)
    if partition is None:
        partition = choose_partition(key, request_number, route.lane.partitions)
        if len(key) <= _CACHED_KEY_BYTES:
            route.partitions.put(key, partition)
    return partition


def key_of(
    route: Route, document: bytes, given: bytes | None, *, may_lack: bool = False
) -> bytes | None:
    """Return the key of a document, or the given key, which comes first.

    Raises:
        Refused: The document is malformed, or has no key although the topic needs one.
    """
    depth = route.depth
    if document.count(b"{") + document.count(b"[") > depth and is_too_deep(document, depth):
        raise Refused(malformed(f"the JSON nests deeper than {depth}"))
    try:
        key = route.read_key(document)
    except Refused as refused:
        if refused.failure.reason is Reason.MALFORMED:
            raise
        if given is None and not (
            refused.failure.reason is Reason.MISSING_KEY
            and (may_lack or route.policy.keyless == "spread")
        ):
            raise  # a pointer without a match is accepted only if order does not matter
        return given
    return key if given is None else given


def _timestamp(route: Route, own_ms: int | None, common: Common) -> int:
    if not route.takes_timestamps:
        return common.now_ms
    given = common.timestamp_ms if common.timestamp_ms is not None else own_ms
    return common.now_ms if given is None else _within(route, given, common.now_ms)


def _within(route: Route, given: int, now_ms: int) -> int:
    """Return the timestamp if the topic keeps it. Raises Refused if not."""
    oldest = max(0, now_ms - route.before_ms)
    # Differences are compared, because sums exceed an int64 if the topic has no limits.
    if given < oldest or given - now_ms > route.after_ms:
        newest = min(now_ms + route.after_ms, sys.maxsize)
        figures = {"oldest_ms": oldest, "newest_ms": newest}
        kept = f"{oldest} to {newest} ms"
        detail = f"timestamp {given} ms lies outside what the topic keeps: {kept}"
        raise Refused(Failure(Reason.TIMESTAMP_OUT_OF_RANGE, detail, figures))
    return given


def _own_headers(event: RawEvent) -> list[Header]:
    if event.content_type is None:
        return [*event.headers]
    return [(CONTENT_TYPE, event.content_type), *event.headers]


# ---- validation: schema checks and canonical forms
#
# Small events are examined at once, large ones in the helper process. The events of a key keep
# their order.


class Validate:
    """Stage that validates events and computes digests of canonical forms.

    Args:
        go_on: Takes an event at the next stage; the events of a key in order.
        refuse: Callback for each event that does not go on.
        helper: Process that examines large events.
        count: Callback with topic and reason, for each event whose bytes are compared instead of
            its canonical form.

    Attributes:
        waiting: Keys with an event that waits here; later events of the key must not overtake it.
    """

    def __init__(
        self,
        go_on: Callable[[Publish], None],
        refuse: Callable[[Publish, Failure], None],
        helper: HelperProcess,
        count: Callable[[str, Fallback], None],
    ) -> None:
        self._refuse = refuse
        self._helper = helper
        self._count = count
        self._order = InOrder(go_on)
        self.waiting: Sized = self._order.lines

    def take(self, started: list[Publish], events: Sequence[Event]) -> None:
        """Validate events of one request, in order.

        No event overtakes an event of its key that waits here, even if a reload has changed the
        topic's policy. If digests are of canonical forms, the scanner made those already set.

        Args:
            started: Publishes of the request that were started.
            events: All events of the request.
        """
        common = started[0].common
        assert common is not None
        route = common.route
        check = route.check
        if check is None:  # since a reload; older events may still wait here
            for publish in started:
                self._order.enter(publish, False)
            return
        for publish in started:
            if publish.large is not None and publish.large.stored is not None:
                self._order.enter(publish, False)  # it was examined while it was stored
                continue
            if publish.digest is not None and check.schema is None:
                self._order.enter(publish, False)
                continue
            record = publish.record
            if route.digest is not None and (record.value is None or check.comparison is None):
                publish.digest = route.digest(record.value, content_type_of(record.headers))
            if record.value is not None:
                record.headers = [*record.headers, *route.schema_headers]
            self.event(publish, check, events[publish.index])

    def event(self, publish: Publish, check: ContentCheck, event: Event) -> None:
        """Examine an event's value. A tombstone has no value, but keeps its position."""
        value = publish.record.value
        if value is None:
            self._order.enter(publish, False)
            return
        assert not isinstance(event, Failure)  # a failed event is never started
        document = event if isinstance(event, bytes) else event.document
        self.content(
            publish, check, Content(value, content_type_of(publish.record.headers), document)
        )

    def content(self, publish: Publish, check: ContentCheck, content: Content) -> None:
        """Examine one event. The event may go on or be refused before this returns."""
        examination = None if is_long(check, content) else examine_here(check, content)
        if examination is not None:
            if self._note(publish, examination):
                self._order.enter(publish, False)
            return
        self._order.enter(publish, True)
        answer = self._helper.ask(examine, check, content)

        def answered(examined: "asyncio.Future[CheckResult | None]") -> None:
            if not publish.dropped:
                self._end(publish, examined.result() or examine_in_need(check, content))

        answer.add_done_callback(answered)

    def drop(self, publish: Publish) -> bool:
        """Drop an event that its client no longer waits for; events behind it go on.

        Returns:
            False if the event was not here.
        """
        return self._order.drop(publish)

    def _end(self, publish: Publish, examination: CheckResult) -> None:
        if self._note(publish, examination):
            self._order.ready(publish)
        else:
            self._order.drop(publish)

    def _note(self, publish: Publish, examination: CheckResult) -> bool:
        """Apply the result of an examination. Return False if it refuses the event."""
        failure, digest, fallback = examination
        if failure is not None:
            self._refuse(publish, failure)
            return False
        if digest is not None:
            publish.digest = digest
        if fallback is not None:
            self._count(publish.record.topic, fallback)
        return True
