"""The path of an event, from a decoded request to its lane and back to its outcome.

Rules:

1. A front (`http`) passes a request as a `Ticket` to `Pipeline.take`. The ticket is done, and its
   `waiter` is called, when each of its events has exactly one outcome.
2. Until its events are admitted, a request is refused as a whole: inner steps raise `Refused`.
   From then on each event ends for itself, and its share of the budget returns once.
3. No stage awaits. `take` passes all stages in one turn of the event loop, as far as no event has
   to wait for Redis, for the helper process or for a blob.
4. Events of a key reach their lane in order of arrival. A stage in which an event may wait keeps
   the later events of its key behind it (`turn.InOrder`).
5. `Publish.stage` says where an event is; `model.publish.NEXT` has the allowed moves. Before
   `HANDED` an event is certainly not in Kafka.
6. A stage knows the stage after it; `deadlines.Expire` knows those in which events wait. No stage
   writes a response: the fronts do. `wiring.pipeline` connects the stages.

    stage     question                                               file      only if
    gate      does the topic take events now, and by which rules?    gate
    decode    which events has the body?                             formats
    admit     is there room in the budget and the quotas?            admission
    records   which key, partition, timestamp and size?              records
    identify  was the event id seen before? Redis knows              path      dedupe_ttl_s
    validate  does it fit the schema; which digest has it?           records   schema, canonical
    turn      which events of its topic go on together?              turn
    reserve   is it unchanged? Redis knows                           turn      suppress
    produce   does it fit (`oversize`); which headers; which lane?   turn
    complete  which outcome, response, metrics and facts?            complete

An event that is validated does not pass `turn`. Reports of lanes and of Redis go to `complete`. The
records of an oversize event enter again at reserve and produce. If the topic spools, `spool.spool`
stands between stages and lanes, and acts as each to the other.
"""

from collections.abc import Callable
from functools import partial

from headgate.backends.base import Identities
from headgate.formats.decode import Decoded, decode, scan, with_hint
from headgate.ingest.admission import Admission, Admit
from headgate.ingest.complete import Complete
from headgate.ingest.deadlines import Expire
from headgate.ingest.gate import Gate
from headgate.ingest.records import BuildRecords, Validate
from headgate.ingest.turn import Turn
from headgate.model.outcome import Failure, Refused
from headgate.model.publish import Publish, Ticket
from headgate.model.request import RequestOptions, read_options
from headgate.model.route import Route, value_too_large

Decode = Callable[[Ticket, Route], Decoded]


class Pipeline:
    """The stages, connected for requests.

    Args:
        admission: Budget of all requests.
        gate: Checks of the topic's state.
        admit: Admits a request's events.
        records: Builds their records.
        identities: Event ids in Redis; None without Redis: no event counts as repeated.
        validate: Validates events.
        turn: Gathers the events of one turn of the event loop.
        complete: Ends events and requests.
        expire: Callback for requests whose deadline has passed.
        max_events: Maximum number of events in one request.
    """

    def __init__(
        self,
        admission: Admission,
        gate: Gate,
        admit: Admit,
        records: BuildRecords,
        identities: Identities | None,
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
        self._identities = identities
        self._validate = validate
        self._turn = turn
        self._complete = complete
        self.expire = expire
        self._max_events = max_events

    def take(self, ticket: Ticket, decode_as: Decode | None = None) -> None:
        """Start all events of a request. The ticket is done once all of them have ended.

        Args:
            ticket: The request. Events that an earlier attempt with its Idempotency-Key completed
                are not started again.
            decode_as: Decodes the body for a front of another protocol, whose responses contain
                offsets; it may raise Refused.
        """
        ticket.needs_offset = decode_as is not None
        count = 1  # of its events, as far as it is known
        try:
            route = self.gate.open(ticket.topic, needs_offset=ticket.needs_offset)
            ticket.facts = route.facts
            options = ticket.options or read_options(ticket.headers)
            decoded = self._decode(ticket, route, options, decode_as)
            count = len(decoded.events)
            ticket.is_batch, ticket.minimal = decoded.is_batch, options.minimal
            self._admit.take(ticket, options, count)
            # No refusals from here on: `refuse` returns a request's bytes, not its events.
            self._records.build(ticket, route, options, decoded)
        except Refused as refused:
            self._refuse(ticket, decode_as, refused.failure, count)
            return
        except BaseException:
            self._complete.abandon(ticket)
            raise
        if ticket.publishes:
            ticket.body = b""  # events of a batch are copies of its parts
            self._identify(ticket, route, decoded)
        elif not ticket.remaining:
            if decode_as is None and ticket.streamed is None:
                _give_hint(ticket)
            self._complete.close(ticket)

    def _refuse(
        self, ticket: Ticket, decode_as: Decode | None, failure: Failure, count: int
    ) -> None:
        """Refuse a request as a whole, with hints for its client."""
        if ticket.may_post is not None:
            failure = self.gate.with_suggestion(failure, ticket.topic, ticket.may_post)
        if decode_as is None and ticket.streamed is None:
            failure = with_hint(failure, ticket.headers, ticket.body)
        ticket.facts = ticket.facts or self.gate.routes.facts_of(ticket.topic)
        # A request with too many events counts as one, so that counting it stays cheap.
        self._complete.refuse_request(ticket, failure, count if count <= self._max_events else 1)

    def _decode(
        self, ticket: Ticket, route: Route, options: RequestOptions, decode_as: Decode | None
    ) -> Decoded:
        if decode_as is not None:
            return decode_as(ticket, route)
        if ticket.streamed is not None:
            if not route.strategies:  # since a reload, while the body was stored
                raise Refused(value_too_large(route))
            return Decoded([ticket.streamed.event], False)
        # The scanner handles only requests without options for single events, except an id.
        is_repeat = ticket.attempt is not None and bool(ticket.attempt.known)
        if route.scanner is not None and not is_repeat and options.is_plain:
            scanned = scan(route.scanner, ticket.body, ticket.headers, self._max_events)
            if scanned is not None:
                return scanned
        structured = route.policy.cloudevents == "structured"
        return decode(ticket.body, ticket.headers, structured, self._max_events)

    def _identify(self, ticket: Ticket, route: Route, decoded: Decoded) -> None:
        """Claim the ids of a request's events, if its topic deduplicates; new events go on.

        Events without an id wait with the others of their request, so that each key's order stays.
        """
        if route.policy.dedupe_ttl_s is None or self._identities is None:
            self._go_on(route, ticket.publishes, decoded)
        else:
            claimed = partial(self._claimed, ticket, route, decoded)
            self._identities.claim(ticket, route, ticket.publishes, claimed)

    def _claimed(self, ticket: Ticket, route: Route, decoded: Decoded, new: list[Publish]) -> None:
        """Let the events with new ids go on; all others have their earlier answer."""
        if new:
            ticket.publishes, ticket.open_publishes = new, len(new)
            self._go_on(route, new, decoded)
        elif not ticket.remaining and not ticket.done:
            self._complete.close(ticket)

    def _go_on(self, route: Route, started: list[Publish], decoded: Decoded) -> None:
        """Pass events to validation, if they need it and the scanner has not done it."""
        if not self._validate.waiting and (route.check is None or _is_compared(decoded)):
            self._turn.add(route, started)
        else:
            self._turn.flush_topic(route.state.name)
            self._validate.take(started, decoded.events)

    def refuse(self, ticket: Ticket, failure: Failure) -> None:
        """Refuse a request before any of its events is started."""
        ticket.facts = self.gate.routes.facts_of(ticket.topic)
        self._complete.refuse_request(ticket, failure)

    def report_refused(self, producer: str, topic: str, failure: Failure) -> None:
        """Report a request that its front refused and counted."""
        self._complete.report(producer, topic, self.gate.routes.facts_of(topic), failure)

    async def drain(self) -> None:
        """Admit no more events, and wait until all events in flight have ended."""
        await self._complete.drain()


def _is_compared(decoded: Decoded) -> bool:
    """Return whether the scanner has computed a digest for each event."""
    return decoded.digests is not None and None not in decoded.digests


def _give_hint(ticket: Ticket) -> None:
    """Add a hint about the body's format to the first failure; no event was started."""
    first = ticket.outcomes[0] if ticket.outcomes else None
    if first is not None and first.failure is not None:
        failure = with_hint(first.failure, ticket.headers, ticket.body)
        ticket.outcomes[0] = first.with_failure(failure)
