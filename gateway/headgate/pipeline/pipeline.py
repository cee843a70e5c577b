"""The way of a request: decode, admit, build its records, and then whatever its topic asks for.

`wiring.pipeline.build_pipeline` says what each stage leads to. Nothing here awaits: `take` starts a
request at once, what arrived in one turn of the event loop goes on together (`turn`), and each
part's answer comes back to `complete`, once a batch. It knows no
HTTP library, so that another front can be put before it.
"""

from headgate.core.admission import Admission
from headgate.core.event import Decoded
from headgate.core.formats.decode import decode, with_hint
from headgate.core.idempotency import Attempt
from headgate.core.outcome import Failure
from headgate.core.publish import Publish, Ticket
from headgate.core.refusal import Refused
from headgate.core.request import RequestOptions, read_options
from headgate.core.scanning import scan
from headgate.core.topics.route import Route
from headgate.pipeline.admit import Admit
from headgate.pipeline.complete import Complete
from headgate.pipeline.expire import Expire
from headgate.pipeline.gate import Gate
from headgate.pipeline.identify import Identify
from headgate.pipeline.inbound import Decode, Inbound
from headgate.pipeline.known import answer_known, leave_out_known
from headgate.pipeline.records import BuildRecords
from headgate.pipeline.turn import Turn
from headgate.pipeline.validate import Validate


class Pipeline:
    """Its stages, in the order of their arguments. admission: the budget of all requests.
    max_events: of one."""

    def __init__(
        self,
        admission: Admission,
        gate: Gate,
        admit: Admit,
        records: BuildRecords,
        identify: Identify,
        validate: Validate,
        turn: Turn,
        complete: Complete,
        expire: Expire,
        max_events: int,
    ) -> None:
        self.admission = admission
        self.gate = gate
        self._admit = admit
        self._records = records
        self._identify = identify
        self._validate = validate
        self._turn = turn
        self._complete = complete
        self.expire = expire
        self._max_events = max_events

    def ticket(self, inbound: Inbound) -> Ticket:
        """Of a request that is not started yet, for `take` or `refuse`."""
        ticket = Ticket(inbound.topic, inbound.producer, inbound.request_id, inbound.arrived)
        ticket.body_bytes = len(inbound.body)
        return ticket

    def take(
        self,
        inbound: Inbound,
        decode_as: Decode | None = None,
        attempt: Attempt | None = None,
        ticket: Ticket | None = None,
    ) -> Ticket:
        """Start everything that the request asks for. The ticket is done once all has ended.

        decode_as: how a front of another protocol cuts the body into events; it may raise Refused.
        attempt: of its Idempotency-Key; what earlier ones ended well is not started again.
        ticket: the request's, where there is one already.
        """
        if ticket is None:
            ticket = self.ticket(inbound)
        ticket.attempt = attempt
        ticket.needs_offset = decode_as is not None
        try:
            route = self.gate.open(inbound.topic, needs_offset=decode_as is not None)
            ticket.facts = route.facts
            options = read_options(inbound.headers)
            decoded = self._decode(inbound, route, options, decode_as, attempt)
            ticket.is_batch, ticket.minimal = decoded.is_batch, options.minimal
            streamed = inbound.streamed
            size = ticket.body_bytes if streamed is None else streamed.stored.size
            self._admit.take(ticket, options, len(decoded.events), size)
            if attempt is not None and attempt.known:
                leave_out_known(ticket, attempt, decoded)
            started = self._records.build(ticket, route, options, decoded, streamed)
            if attempt is not None and attempt.known:
                answer_known(ticket, attempt)
        except Refused as refused:
            failure = refused.failure
            if inbound.may_post is not None:
                failure = self.gate.with_suggestion(failure, inbound.topic, inbound.may_post)
            ticket.facts = ticket.facts or self.gate.facts_of(inbound.topic)
            if decode_as is None:
                failure = with_hint(failure, inbound.headers, inbound.body)
            self._complete.refuse(ticket, failure)
            return ticket
        except BaseException:
            self._complete.abandon(ticket)
            raise
        if started:
            ticket.start(started)
            self._go_on(ticket, route, started, decoded)
        elif not ticket.remaining:
            if decode_as is None:
                _give_hint(ticket, inbound)
            self._complete.close(ticket)
        return ticket

    def _decode(
        self,
        inbound: Inbound,
        route: Route,
        options: RequestOptions,
        decode_as: Decode | None,
        attempt: Attempt | None,
    ) -> Decoded:
        if decode_as is not None:
            return decode_as(inbound, route)
        # The scanner reads what says nothing of single events beside the body, an id aside.
        is_repeat = attempt is not None and bool(attempt.known)
        if route.scanner is not None and not is_repeat and options.is_plain:
            found = scan(route.scanner, inbound.body, inbound.headers, self._max_events)
            if found is not None:
                return found
        structured = route.policy.cloudevents == "structured"
        return decode(inbound.body, inbound.headers, structured, self._max_events)

    def _go_on(
        self, ticket: Ticket, route: Route, started: list[Publish], decoded: Decoded
    ) -> None:
        """What its topic does not ask for costs its events nothing."""
        if route.policy.dedupe_ttl_s is not None:
            self._identify.take(ticket, route, started, decoded.events)
        elif not self._validate.waiting and (route.orders is None or _is_compared(decoded)):
            self._turn.add(route, started)
        else:
            self._turn.flush_topic(route.state.name)
            self._validate.take(started, decoded.events)

    def refuse(self, ticket: Ticket, failure: Failure) -> None:
        """A request ends before anything of it is started."""
        ticket.facts = self.gate.facts_of(ticket.topic)
        self._complete.refuse(ticket, failure)

    def report_refused(self, producer: str, topic: str, failure: Failure) -> None:
        """A request was refused before it came here; its front has counted it."""
        self._complete.report(producer, topic, self.gate.facts_of(topic), failure)

    async def drain(self) -> None:
        """Take nothing more and wait until everything in flight has ended."""
        await self._complete.drain()


def _is_compared(decoded: Decoded) -> bool:
    """Whether the scanner has made the digest of each event, from its canonical form."""
    return decoded.digests is not None and None not in decoded.digests


def _give_hint(ticket: Ticket, inbound: Inbound) -> None:
    """Nothing of the request was fit: its first failure says what the body seems to be."""
    first = ticket.outcomes[0] if ticket.outcomes else None
    if first is not None and first.failure is not None:
        failure = with_hint(first.failure, inbound.headers, inbound.body)
        ticket.outcomes[0] = first.with_failure(failure)
