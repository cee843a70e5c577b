"""Where the events of a request go: each one's record, its size against the limits, its lane.

The last step of the way in that looks at a request as a whole; what is fit goes on event by event.
"""

from collections.abc import Callable
from typing import Final

from headgate.core.admission import Admission
from headgate.core.event import SPREAD, RawEvent, Refused
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure
from headgate.core.publish import Publish
from headgate.core.record import EVENT_ID, PRODUCER, RECEIVED_AT, RECORD_OVERHEAD, size_of
from headgate.core.request import Wishes
from headgate.core.route import PLAIN_BYTES, Common, Oversized, Route
from headgate.endings import Accounts
from headgate.onward import Events, Onward
from headgate.routes import Routes
from headgate.ticket import Ticket, rejected

# Names come from clients: the memory for them must be bounded.
_PRODUCERS_REMEMBERED: Final = 10_000
_SOME_EVENT_ID: Final = "0" * 36  # as long as the one that a written record gets


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
        common = self._common(ticket, route, wishes)
        id_header = (EVENT_ID, (wishes.event_id or _SOME_EVENT_ID).encode())
        shared = [*common.headers, id_header, *route.schema_headers]
        shared_bytes = size_of(None, None, shared) - RECORD_OVERHEAD
        plain_bytes = shared_bytes + PLAIN_BYTES
        limits = (route.most_value_bytes, route.most_record_bytes)
        refusals: dict[int, Failure | None] = {}
        sizes, event_id = ticket.sizes, wishes.event_id
        started: list[Publish] = []
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
            partition, key, value = record.partition, record.key, record.value
            length = sizes[index] = len(value) if value else 0
            if type(event) is bytes:
                size = plain_bytes + length + (len(key) if key else 0)
                publish = Publish(record, size, ticket, index, event_id)
            else:
                size = shared_bytes + size_of(key, value, record.headers)
                publish = Publish(record, size, ticket, index, event_id)
                self._take_own_id(publish, event)
            publish.common = common
            if length > limits[0] or publish.size > limits[1]:
                if not route.ladder:
                    self._too_large(publish, route)
                    continue
                publish.oversized = Oversized(route)
            if partition not in refusals:
                refusals[partition] = self._lanes.refusal(route.lane, partition)
            failure = refusals[partition]
            if failure is None:
                started.append(publish)
            else:
                ticket.put(index, rejected(failure, key, publish.event_id))
        return started

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
