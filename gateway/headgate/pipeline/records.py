"""A request's events become records: key, partition, timestamp, size against the limits, lane.

The last stage that looks at a request as a whole; what is fit goes on event by event.
"""

from collections.abc import Callable
from typing import Final

from headgate.backends.base import Lanes
from headgate.core.event import SPREAD, Decoded, RawEvent
from headgate.core.outcome import Failure, Reason, rejected
from headgate.core.oversize.limits import exceeded, stored_in_vain
from headgate.core.oversize.strategies import Large
from headgate.core.oversize.streamed import Streamed
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
    size_of,
)
from headgate.core.refusal import Refused
from headgate.core.request import RequestOptions
from headgate.core.topics.route import PLAIN_BYTES, PLAIN_HEADERS, Common, Route

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
