"""Where the events of a request go: each one's record, its size against the limits, its lane.

The last step of the way in that looks at a request as a whole; what is fit goes on event by event.
"""

from collections.abc import Callable
from typing import Final

from headgate.core.admission import Admission
from headgate.core.event import SPREAD, RawEvent, Refused
from headgate.core.http.request import Wishes
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.core.record import (
    EVENT_ID,
    PRODUCER,
    RECEIVED_AT,
    RECORD_OVERHEAD,
    Record,
    size_of,
)
from headgate.core.route import PLAIN_BYTES, PLAIN_HEADERS, Common, Oversized, Route
from headgate.core.scanning import Scan
from headgate.pipeline.endings import Accounts
from headgate.pipeline.onward import Events, Onward
from headgate.pipeline.routes import Routes
from headgate.pipeline.ticket import Ticket, rejected

# Names come from clients: the memory for them must be bounded.
_PRODUCERS_REMEMBERED: Final = 10_000
_UNASKED: Final = Failure(Reason.INTERNAL, "")  # its lane was not asked yet
_SOME_EVENT_ID: Final = "0" * 36  # as long as the one that a written record gets


class _Places:
    """What the events of one request share while their places are found.

    shared_bytes: of the headers that each of their records gets.  refusals: by partition, why its
    lane takes nothing now.  started: those that go on.
    """

    __slots__ = ("common", "refusals", "shared_bytes", "started")

    def __init__(self, common: Common, shared_bytes: int) -> None:
        self.common = common
        self.shared_bytes = shared_bytes
        self.refusals: dict[int, Failure | None] = {}
        self.started: list[Publish] = []


class Placing(Onward):
    """See the module. clock_ms: milliseconds since 1970."""

    def __init__(
        self,
        routes: Routes,
        admission: Admission,
        accounts: Accounts,
        ids: EventIds,
        request_timeout_ms: int,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(routes, admission, accounts, ids, request_timeout_ms)
        self._clock_ms = clock_ms
        self._producer_headers: dict[str, tuple[str, bytes]] = {}

    def _common(self, ticket: Ticket, route: Route, wishes: Wishes) -> Common:
        now_ms = self._clock_ms()
        route.turn += 1
        headers = [
            self._producer_header(ticket.producer),
            (RECEIVED_AT, b"%d" % now_ms),
            *wishes.record_headers,
        ]
        return Common(
            wishes.key, wishes.timestamp_ms, wishes.tombstone, route.turn, headers, now_ms
        )

    def _producer_header(self, producer: str) -> tuple[str, bytes]:
        known = self._producer_headers.get(producer)
        if known is None:
            if len(self._producer_headers) >= _PRODUCERS_REMEMBERED:
                self._producer_headers.clear()
            known = self._producer_headers[producer] = (PRODUCER, producer.encode())
        return known

    def _place(
        self,
        ticket: Ticket,
        route: Route,
        wishes: Wishes,
        events: Events,
    ) -> list[Publish]:
        """What is fit to be published, in order; the other events have their outcome."""
        places = self._places(ticket, route, wishes)
        common, shared_bytes = places.common, places.shared_bytes
        sizes, event_id = ticket.sizes, wishes.event_id
        for index, event in enumerate(events):
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
                self._take_own_id(publish, event)
            self._start(route, places, publish, length)
        return places.started

    def _place_scanned(
        self, ticket: Ticket, route: Route, wishes: Wishes, scan: Scan
    ) -> list[Publish]:
        """As `_place`, of plain documents whose keys, partitions and digests are known."""
        places = self._places(ticket, route, wishes)
        topic, now_ms = route.topic, places.common.now_ms
        keys, partitions, digests = scan.keys, scan.partitions, scan.digests
        sizes, plain_bytes = ticket.sizes, places.shared_bytes + PLAIN_BYTES
        key, partition = None, places.common.sticky % route.lane.partitions
        for index, value in enumerate(scan.values):
            length = sizes[index] = len(value)
            size = plain_bytes + length
            if keys is not None and partitions is not None:
                key, partition = keys[index], partitions[index]
                size += len(key)
            record = Record(topic, partition, key, value, PLAIN_HEADERS, now_ms)
            publish = Publish(record, size, ticket, index, None)
            if digests is not None:
                publish.digest = digests[index]
            self._start(route, places, publish, length)
        return places.started

    def _places(self, ticket: Ticket, route: Route, wishes: Wishes) -> "_Places":
        common = self._common(ticket, route, wishes)
        id_header = (EVENT_ID, (wishes.event_id or _SOME_EVENT_ID).encode())
        shared = [*common.headers, id_header, *route.schema_headers]
        return _Places(common, size_of(None, None, shared) - RECORD_OVERHEAD)

    def _start(self, route: Route, places: "_Places", publish: Publish, length: int) -> None:
        """Note an event that may go on. length: of its value, in bytes."""
        publish.common = places.common
        if length > route.most_value_bytes or publish.size > route.most_record_bytes:
            if not route.ladder:
                self._too_large(publish, route)
                return
            publish.oversized = Oversized(route)
        partition = publish.record.partition
        failure = places.refusals.get(partition, _UNASKED)
        if failure is _UNASKED:
            failure = places.refusals[partition] = self._lanes.refusal(route.lane, partition)
        if failure is None:
            places.started.append(publish)
        else:
            key, event_id = publish.record.key, publish.event_id
            publish.ticket.put(publish.index, rejected(failure, key, event_id))

    @staticmethod
    def _take_own_id(publish: Publish, event: bytes | RawEvent) -> None:
        if not isinstance(event, RawEvent):
            return
        if event.partition is not None and event.partition != SPREAD:
            publish.placed = publish.force = True
        if event.event_id is not None:
            if publish.event_id is None:
                publish.event_id, publish.source = event.event_id, event.source
            publish.size += len(publish.event_id.encode())

    @staticmethod
    def _too_large(publish: Publish, route: Route) -> None:
        ticket: Ticket = publish.ticket
        value = publish.record.value
        failure = route.oversize(len(value or b""), publish.size)
        ticket.put(publish.index, rejected(failure, publish.record.key, publish.event_id))
        if value is not None:
            ticket.weigh(publish.index, value)
