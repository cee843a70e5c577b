"""Where the rooms meet: from a request's bytes to a ticket.

Life of a batch: decode -> quota and budget -> key, partition, timestamp, size (Route) -> reserve
(topics that suppress; `onward`) -> lane -> Kafka -> outcome -> settle. Nothing here awaits:
`handle` hands everything over at once, and each part's answer comes back (`endings`) once a batch.
It knows no HTTP library, so that another front can be put before it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from headgate.core.admission import Admission
from headgate.core.attempt import Attempt
from headgate.core.decode import decode
from headgate.core.event import SPREAD, RawEvent, Refused
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Publish
from headgate.core.record import (
    BURST,
    EVENT_ID,
    FORCED,
    PRODUCER,
    RECEIVED_AT,
    RECORD_OVERHEAD,
    size_of,
)
from headgate.core.reply import Reply, reply
from headgate.core.request import Wishes, read_wishes
from headgate.core.route import PLAIN_BYTES, Common, Oversized, Route
from headgate.core.topic import TopicState
from headgate.endings import DRAINING, Accounts
from headgate.inbound import Decode, Inbound
from headgate.onward import Events, Onward
from headgate.recall import answer_known, leave_out_known
from headgate.routes import Routes
from headgate.ticket import Ticket, rejected

# Names come from clients: the memory for them must be bounded.
_PRODUCERS_REMEMBERED: Final = 10_000
_SOME_EVENT_ID: Final = "0" * 36  # as long as the one that a written record gets


class Limits(NamedTuple):
    """batch_max_events: events of one request.  request_timeout_ms: until the deadline's answer."""

    batch_max_events: int
    request_timeout_ms: int


class Quotas(Protocol):
    """Whether a producer may send so much now."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


class Ingest(Onward):
    """Starts what a request asks for; `Onward` says how that goes on, `Endings` how it ends."""

    def __init__(
        self,
        routes: Routes,
        admission: Admission,
        quotas: Quotas,
        accounts: Accounts,
        ids: EventIds,
        limits: Limits,
        clock_ms: Callable[[], int],
    ) -> None:
        super().__init__(routes, admission, accounts, ids, limits.request_timeout_ms)
        self._quotas = quotas
        self._most_events = limits.batch_max_events
        self._clock_ms = clock_ms
        self.why_not_held: Callable[[str], Failure | None] = lambda held: None
        self._producer_headers: dict[str, tuple[str, bytes]] = {}

    def route(self, topic: str) -> Route:
        """The topic's rules in force. Raises Refused (unknown_topic)."""
        return self._routes.find(topic)

    def handle(
        self,
        inbound: Inbound,
        decode_as: Decode | None = None,
        attempt: Attempt | None = None,
    ) -> Ticket:
        """Start everything that the request asks for. The ticket is done once all has ended.

        decode_as: how a front of another protocol cuts the body into events; it may raise Refused.
        attempt: of its Idempotency-Key; what earlier ones ended well is not started again.
        """
        ticket = Ticket(inbound.topic, inbound.producer, inbound.request_id, inbound.arrived)
        ticket.body_bytes = len(inbound.body)
        ticket.attempt = attempt
        try:
            route = self._routes.find(inbound.topic)
            ticket.facts = route.facts
            wishes = read_wishes(inbound.headers)
            if route.held is not None:
                wishes = self._hold(route.held, wishes, decode_as)
            if decode_as is None:
                structured = route.policy.cloudevents == "structured"
                events, ticket.is_batch = decode(
                    inbound.body, inbound.headers, structured, self._most_events
                )
            else:
                events, ticket.is_batch = decode_as(inbound, route)
            ticket.minimal = wishes.minimal
            streamed = inbound.streamed
            size = ticket.body_bytes if streamed is None else streamed.stored.size
            self._admit(ticket, wishes, len(events), size)
            if attempt is None:
                started = self._place(ticket, route, wishes, events)
            else:
                rest = leave_out_known(ticket, attempt, events)
                started = self._place(ticket, route, wishes, rest)
                answer_known(ticket, attempt)
            if streamed is not None:
                self._take_streamed(ticket, route, streamed, started)
        except Refused as refused:
            self._refuse(ticket, refused.failure)
            return ticket
        except BaseException:  # a bug of ours must not eat the budget
            self._admission.give(ticket.body_bytes, len(ticket.outcomes))
            self._remember(ticket)
            raise
        if not started:
            if not ticket.remaining:
                self._close(ticket)
        elif route.policy.dedupe_ttl_s is None or self._identity is None:
            self._go_on(ticket, route, wishes.force, events, started)
        else:
            ticket.publishes = started
            ticket.open_publishes = len(started)
            go_on = partial(self._claimed, ticket, route, wishes.force, events)
            self._identity.claim(ticket, route, started, go_on)
        return ticket

    def refuse(self, inbound: Inbound, failure: Failure) -> Ticket:
        """A request that ends before anything of it is started."""
        ticket = Ticket(inbound.topic, inbound.producer, inbound.request_id, inbound.arrived)
        ticket.body_bytes = len(inbound.body)
        ticket.facts = self._routes.facts_of(inbound.topic)
        self._refuse(ticket, failure)
        return ticket

    def tell_refused(self, producer: str, topic: str, failure: Failure) -> None:
        """A request was refused before it came here; its front has counted it."""
        one_in = self._routes.facts_of(topic)
        if one_in and self._facts is not None:
            self._facts.take(producer, topic, one_in, [rejected(failure)], [0])

    def _hold(self, held: TopicState, wishes: Wishes, decode_as: Decode | None) -> Wishes:
        """What the coalescer must know travels in headers."""
        if decode_as is not None:
            detail = (
                "this topic coalesces, so there is no offset yet to answer with: "
                "post to /v1/topics/{topic}/events"
            )
            raise Refused(Failure(Reason.NEEDS_NATIVE_API, detail))
        failure = self.why_not_held(held.name)
        if failure is not None:
            raise Refused(failure)
        headers = wishes.record_headers
        if wishes.burst is not None:
            headers += ((BURST, wishes.burst),)
        if wishes.force:
            headers += ((FORCED, b"1"),)
        return wishes._replace(record_headers=headers)

    def _admit(self, ticket: Ticket, wishes: Wishes, count: int, size: int) -> None:
        if ticket.is_batch and wishes.single_event_header is not None:
            detail = f"{wishes.single_event_header} means one event, but the body is a batch"
            raise Refused(Failure(Reason.MALFORMED, detail))
        if count > self._most_events:
            most = self._most_events
            detail = f"{count} events in one request are more than http.batch_max_events = {most}"
            raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": most}))
        failure = DRAINING if self.is_draining else self._admission.take_events(count)
        if failure is not None:
            raise Refused(failure)
        ticket.expect(count)
        failure = self._quotas.check(ticket.producer, count, size)
        if failure is not None:
            self._admission.give(0, count)
            raise Refused(failure)

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


def answer(ticket: Ticket) -> Reply:
    """The answer to a ticket that is done."""
    return reply(
        ticket.topic, ticket.answered(), ticket.is_batch, ticket.minimal, ticket.request_id
    )
