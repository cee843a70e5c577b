"""Where the rooms meet: from a request's bytes to a ticket.

Life of a batch: decode -> quota and budget -> key, partition, timestamp, size (Route) -> reserve
(topics that suppress; `onward`) -> lane -> Kafka -> outcome -> settle. Nothing here awaits:
`handle` hands everything over at once, and each part's answer comes back (`endings`) once a batch.
It knows no HTTP library, so that another front can be put before it.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from headgate.core.admission import Admission
from headgate.core.coalescing.holding import why_refused
from headgate.core.event import Refused
from headgate.core.formats.decode import decode
from headgate.core.http.hints import with_hint
from headgate.core.http.reply import Reply, reply
from headgate.core.http.request import Wishes, read_wishes
from headgate.core.idempotency.attempt import Attempt
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Reason
from headgate.core.record import BURST, FORCED
from headgate.core.route import Route
from headgate.core.scanning import Scan, scan
from headgate.core.topic import TopicState
from headgate.pipeline.endings import DRAINING, Accounts
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.onward import Events
from headgate.pipeline.placing import Placing
from headgate.pipeline.recall import answer_known, leave_out_known
from headgate.pipeline.routes import Routes
from headgate.pipeline.ticket import Ticket, rejected


class Limits(NamedTuple):
    """batch_max_events: events of one request.  request_timeout_ms: until the deadline's answer."""

    batch_max_events: int
    request_timeout_ms: int


class Quotas(Protocol):
    """Whether a producer may send so much now."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


class Ingest(Placing):
    """Starts what a request asks for; `Placing` says where its events go, `Onward` how they go on,
    `Endings` how they end."""

    def __init__(
        self,
        routes: Routes,
        admission: Admission,
        quotas: Quotas,
        accounts: Accounts,
        ids: EventIds,
        limits: Limits,
        clock_ms: Callable[[], int],
        why_not_held: Callable[[str], Failure | None] = lambda held: None,
    ) -> None:
        """why_not_held: why a held topic takes nothing more now, else None."""
        super().__init__(routes, admission, accounts, ids, limits.request_timeout_ms, clock_ms)
        self._quotas = quotas
        self._most_events = limits.batch_max_events
        self._why_not_held = why_not_held

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
                wishes = self._hold(route, route.held, wishes, decode_as)
            read = self._scanned(inbound, route, wishes, decode_as, attempt)
            events: Events
            if read is not None:
                events, ticket.is_batch = read.values, read.is_batch
            elif decode_as is None:
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
            if read is not None:
                started = self._place_scanned(ticket, route, wishes, read)
            elif attempt is None:
                started = self._place(ticket, route, wishes, events)
            else:
                rest = leave_out_known(ticket, attempt, events)
                started = self._place(ticket, route, wishes, rest)
                answer_known(ticket, attempt)
            if streamed is not None:
                self._take_streamed(ticket, route, streamed, started)
        except Refused as refused:
            failure = refused.failure
            if decode_as is None:
                failure = with_hint(failure, inbound.headers, inbound.body)
            self._refuse(ticket, failure)
            return ticket
        except BaseException:  # a bug of ours must not eat the budget
            self._admission.give(ticket.body_bytes, len(ticket.outcomes))
            self._remember(ticket)
            raise
        if not started:
            if not ticket.remaining:
                if decode_as is None:
                    _give_hint(ticket, inbound)
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

    def _scanned(
        self,
        inbound: Inbound,
        route: Route,
        wishes: Wishes,
        decode_as: Decode | None,
        attempt: Attempt | None,
    ) -> Scan | None:
        """The body, if its topic's scanner can read it and the request asks for nothing more."""
        scanner = route.scanner
        if scanner is None or decode_as is not None or attempt is not None:
            return None
        if wishes.single_event_header is not None:
            return None
        return scan(scanner, inbound.body, inbound.headers, self._most_events)

    def _hold(
        self, route: Route, held: TopicState, wishes: Wishes, decode_as: Decode | None
    ) -> Wishes:
        """What the coalescer must know travels in headers."""
        if decode_as is not None:
            detail = (
                "this topic coalesces, so there is no offset yet to answer with: "
                "post to /v1/topics/{topic}/events"
            )
            raise Refused(Failure(Reason.NEEDS_NATIVE_API, detail))
        failure = why_refused(route.policy, held) or self._why_not_held(held.name)
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


def _give_hint(ticket: Ticket, inbound: Inbound) -> None:
    """Nothing of the request was fit: its first failure says what the body seems to be."""
    first = ticket.outcomes[0] if ticket.outcomes else None
    if first is not None and first.failure is not None:
        failure = with_hint(first.failure, inbound.headers, inbound.body)
        ticket.outcomes[0] = first.with_failure(failure)


def answer(ticket: Ticket) -> Reply:
    """The answer to a ticket that is done."""
    return reply(
        ticket.topic, ticket.answered(), ticket.is_batch, ticket.minimal, ticket.request_id
    )
