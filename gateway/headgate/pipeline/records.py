"""A request's events become records: key, partition, timestamp, size against the limits, lane.

The last stage that looks at a request as a whole; what is fit goes on event by event.
"""

import asyncio
from collections.abc import Callable, Sequence, Sized
from typing import Final, Protocol

from headgate.backends.base import Lanes
from headgate.core.content import (
    Content,
    Examination,
    Orders,
    examine,
    examine_here,
    examine_in_need,
    is_long,
)
from headgate.core.event import SPREAD, Decoded, Event, RawEvent
from headgate.core.formats.canonical import Fallback
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.oversize.chunks import Streamed
from headgate.core.oversize.limits import exceeded, stored_in_vain
from headgate.core.oversize.strategies import Large
from headgate.core.publish import Publish, Ticket
from headgate.core.record import (
    BURST,
    EVENT_ID,
    FORCED,
    HEADER_OVERHEAD,
    PRODUCER,
    RECEIVED_AT,
    Header,
    Record,
    content_type_of,
    size_of,
)
from headgate.core.refusal import Refused
from headgate.core.request import RequestOptions
from headgate.core.topics.route import PLAIN_BYTES, PLAIN_HEADERS, Common, Route
from headgate.offload.helper_process import HelperProcess
from headgate.pipeline.turn import InOrder

# Names come from clients: the memory for them must be bounded.
_PRODUCERS_REMEMBERED: Final = 10_000
_UNASKED: Final = Failure(Reason.INTERNAL, "")  # its lane was not asked yet
_SOME_EVENT_ID: Final = 36  # bytes of the one that a written record gets
_EVENT_ID_BYTES: Final = HEADER_OVERHEAD + len(EVENT_ID) + _SOME_EVENT_ID
_TOO_LARGE: Final = Large()


class _Request:
    """What the events of one request share while their records are made.

    shared_bytes: of the headers that each of their records gets.  refusals: by partition, why its
    lane takes nothing now.  started: those that go on.
    """

    __slots__ = ("common", "refusals", "shared_bytes", "started", "ticket")

    def __init__(self, ticket: Ticket, common: Common, shared_bytes: int) -> None:
        self.ticket = ticket
        self.common = common
        self.shared_bytes = shared_bytes
        self.refusals: dict[int, Failure | None] = {}
        self.started: list[Publish] = []


class BuildRecords:
    """clock_ms: milliseconds since 1970."""

    def __init__(self, lanes: Lanes, clock_ms: Callable[[], int]) -> None:
        self._lanes = lanes
        self._clock_ms = clock_ms
        self._producer_headers: dict[str, tuple[str, bytes]] = {}

    def build(
        self,
        ticket: Ticket,
        route: Route,
        options: RequestOptions,
        decoded: Decoded,
        streamed: Streamed | None,
    ) -> list[Publish]:
        """Those that are fit to go on, in order; the others have their outcome.

        Raises Refused: the body is in the blob store, and the topic has no strategies by now.
        """
        if streamed is not None and not route.strategies:
            raise Refused(stored_in_vain(route))
        request = self._request(ticket, route, options)
        if decoded.is_plain:
            self._from_columns(request, route, options.event_id, decoded)
        else:
            self._from_events(request, route, options.event_id, decoded)
        if streamed is not None:
            ticket.sizes[0] = streamed.stored.size
            for publish in request.started:
                _refer_to(streamed, publish, route)
        return request.started

    def _request(self, ticket: Ticket, route: Route, options: RequestOptions) -> _Request:
        now_ms = self._clock_ms()
        route.turn += 1
        headers: list[Header] = [
            self._producer_header(ticket.producer),
            (RECEIVED_AT, b"%d" % now_ms),
            *options.record_headers,
        ]
        if route.held is not None:  # what the coalescer must know travels in headers
            if options.burst is not None:
                headers.append((BURST, options.burst))
            if options.force:
                headers.append((FORCED, b"1"))
        common = Common(
            route,
            options.key,
            options.timestamp_ms,
            options.tombstone,
            route.turn,
            headers,
            now_ms,
            options.force,
        )
        shared_bytes = route.schema_bytes + _EVENT_ID_BYTES
        if options.event_id is not None:
            shared_bytes += len(options.event_id.encode()) - _SOME_EVENT_ID
        for name, content in headers:
            shared_bytes += HEADER_OVERHEAD + len(name) + (len(content) if content else 0)
        return _Request(ticket, common, shared_bytes)

    def _producer_header(self, producer: str) -> tuple[str, bytes]:
        known = self._producer_headers.get(producer)
        if known is None:
            if len(self._producer_headers) >= _PRODUCERS_REMEMBERED:
                self._producer_headers.clear()
            known = self._producer_headers[producer] = (PRODUCER, producer.encode())
        return known

    def _from_events(
        self, request: _Request, route: Route, event_id: str | None, decoded: Decoded
    ) -> None:
        """event_id: of the request, which then has one event."""
        ticket, common, shared_bytes = request.ticket, request.common, request.shared_bytes
        sizes = ticket.sizes
        for index, event in enumerate(decoded.events):
            if isinstance(event, Failure):
                ticket.put(index, rejected(event))
                continue
            try:
                record = route.record(event, common)
            except Refused as refused:
                value = event if isinstance(event, bytes) else event.value
                sizes[index] = len(value) if value else 0
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
        """Of plain documents whose keys, partitions and digests are known. event_id: as above."""
        ticket = request.ticket
        topic, now_ms = route.topic, request.common.now_ms
        keys, partitions, digests = decoded.keys, decoded.partitions, decoded.digests
        sizes, plain_bytes = ticket.sizes, request.shared_bytes + PLAIN_BYTES
        key, partition = None, request.common.sticky % route.lane.partitions
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
        """Note an event that may go on. length: of its value, in bytes."""
        publish.common = request.common
        if length > route.max_value_bytes or publish.size > route.max_record_bytes:
            if not route.strategies:
                failure = exceeded(route, length, publish.size)
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
            request.started.append(publish)
        else:
            _refuse(publish, failure_now)


def _refuse(publish: Publish, failure: Failure) -> None:
    """It never starts."""
    assert publish.ticket is not None
    outcome = rejected(failure, publish.record.key, publish.event_id)
    publish.ticket.put(publish.index, outcome)


def _take_own_id(publish: Publish, event: bytes | RawEvent) -> None:
    if not isinstance(event, RawEvent):
        return
    if event.partition is not None and event.partition != SPREAD:
        publish.placed = True
    if event.event_id is not None:
        if publish.event_id is None:
            publish.event_id, publish.source = event.event_id, event.source
        publish.size += len(publish.event_id.encode())


def _refer_to(streamed: Streamed, publish: Publish, route: Route) -> None:
    """Its value is in the blob store: what the record refers to, and what is compared."""
    publish.large = Large(streamed.stored)
    # A reload may have come since its first byte: perhaps nothing is compared any more,
    # and a content that nobody digested equals none (an empty digest clears the key's).
    if route.digest is not None:
        publish.digest = streamed.digest or b""
        if streamed.digest is None:
            publish.placed = True


# Events are checked against their topic's schema and brought into canonical form, where it asks.
#
# Small ones at once, large ones in the helper process; each key's events go on in their order.


class Fitting(Protocol):
    """Who takes those that go on (`reserve.Reserve`)."""

    def take(self, started: list[Publish]) -> None: ...

    def one(self, publish: Publish) -> None:
        """Each once, in the order in which a key's events came."""
        ...


class Validate:
    """refuse: told of each event that does not go on.  count: told topic and reason of each event
    whose bytes are compared instead of its canonical form.

    waiting: keys of which an event waits here that later ones must not overtake.
    """

    def __init__(
        self,
        fitting: Fitting,
        refuse: Callable[[Publish, Failure], None],
        helper: HelperProcess,
        count: Callable[[str, Fallback], None],
    ) -> None:
        self._fitting = fitting
        self._refuse = refuse
        self._helper = helper
        self._count = count
        self._order = InOrder(fitting.one)
        self.waiting: Sized = self._order.lines

    def take(self, started: list[Publish], events: Sequence[Event]) -> None:
        """Events of one request, in order. events: all that it came with.

        None of them overtakes what waits here, whatever its topic asks for by now. Where digests
        are of canonical forms, one that has its digest came through the scanner.
        """
        common = started[0].common
        assert common is not None
        route = common.route
        orders = route.orders
        if orders is None:  # since a reload; what came before it may wait here
            for publish in started:
                self._order.enter(publish, False)
            return
        for publish in started:
            if publish.large is not None and publish.large.stored is not None:
                self._order.enter(publish, False)  # seen while it was stored
                continue
            if publish.digest is not None and orders.schema is None:
                self._order.enter(publish, False)
                continue
            record = publish.record
            if route.digest is not None and (record.value is None or orders.comparison is None):
                publish.digest = route.digest(record.value, content_type_of(record))
            if record.value is not None:
                record.headers = [*record.headers, *route.schema_headers]
            self.event(publish, orders, events[publish.index])

    def event(self, publish: Publish, orders: Orders, event: Event) -> None:
        """Examine what an event says; a tombstone says nothing, but keeps its place."""
        value = publish.record.value
        if value is None:
            self._order.enter(publish, False)
            return
        assert not isinstance(event, Failure)  # such a one never started
        document = event if isinstance(event, bytes) else event.document
        self.content(publish, orders, Content(value, content_type_of(publish.record), document))

    def content(self, publish: Publish, orders: Orders, content: Content) -> None:
        """Examine one event; its end may come before this returns."""
        examination = None if is_long(orders, content) else examine_here(orders, content)
        if examination is not None:
            if self._note(publish, examination):
                self._order.enter(publish, False)
            return
        self._order.enter(publish, True)
        answer = self._helper.ask(examine, orders, content)

        def answered(found: "asyncio.Future[Examination | None]") -> None:
            if not publish.dropped:
                self._end(publish, found.result() or examine_in_need(orders, content))

        answer.add_done_callback(answered)

    def drop(self, publish: Publish) -> bool:
        """It ended for its client; those behind it go on. False: it was not here."""
        return self._order.drop(publish)

    def _end(self, publish: Publish, examination: Examination) -> None:
        if self._note(publish, examination):
            self._order.ready(publish)
        else:
            self._order.drop(publish)

    def _note(self, publish: Publish, examination: Examination) -> bool:
        """Write down what was found; False: it is refused."""
        failure, digest, fallback = examination
        if failure is not None:
            self._refuse(publish, failure)
            return False
        if digest is not None:
            publish.digest = digest
        if fallback is not None:
            self._count(publish.record.topic, fallback)
        return True
