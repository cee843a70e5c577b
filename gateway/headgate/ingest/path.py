"""The path of an event, from a decoded request to its lane and back to its outcome.

Rules:

1. A front (`http`) passes a request as `Inbound` to `Pipeline.take`, and gets a `Ticket`. The
   ticket is done when each of its events has exactly one outcome.
2. Until its events are admitted, a request is refused as a whole: inner steps raise `Refused`, and
   `take` returns a ticket that is done. From then on each event ends for itself, and its share of
   the budget returns once.
3. No stage awaits. `take` passes all stages in one turn of the event loop, as far as no event has
   to wait for Redis, for the helper process or for a blob.
4. Events of a key reach their lane in order of arrival. A stage in which an event may wait keeps
   the later events of its key behind it (`turn.InOrder`).
5. `Publish.stage` says where an event is; `model.publish.NEXT` has the allowed moves. Before
   `HANDED` an event is certainly not in Kafka.
6. Stages know the next stage only, and no HTTP. `wiring.pipeline` connects them.

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
from typing import Final

from headgate.backends.base import Identities
from headgate.formats.decode import Decoded, Headers, decode, scan, with_hint
from headgate.formats.streamed import Streamed
from headgate.ingest.admission import Admission, Admit
from headgate.ingest.complete import Complete
from headgate.ingest.deadlines import Expire
from headgate.ingest.gate import Gate
from headgate.ingest.records import BuildRecords, Validate
from headgate.ingest.turn import Turn
from headgate.model.outcome import Failure, Refused
from headgate.model.publish import Attempt, Publish, Ticket
from headgate.model.request import RequestOptions, read_options
from headgate.model.route import Route, value_too_large
from headgate.model.trace import Trace

# ---- input from a front: a request, and the function that decodes its body


class Inbound:
    """A request from a front.

    Args:
        topic: Topic that the client named.
        producer: Authenticated producer.
        headers: Headers, as raw bytes; names in lower case.
        body: Decompressed body; its length was admitted.
        request_id: Id of the request.
        arrived: Monotonic time at which the request was complete, in seconds.
        streamed: Its one event, if the value went to the blob store; the body is then empty.
        may_post: Returns whether the caller may write to a topic, for suggestions. None: no
            suggestions.
        trace: Its trace, if it is sampled.
        options: Its options, if the front knows them.
    """

    def __init__(
        self,
        topic: str,
        producer: str,
        headers: Headers,
        body: bytes,
        request_id: str,
        arrived: float,
        streamed: Streamed | None = None,
        may_post: Callable[[str], bool] | None = None,
        trace: Trace | None = None,
        options: RequestOptions | None = None,
    ) -> None:
        self.topic: Final = topic
        self.producer: Final = producer
        self.headers: Final = headers
        self.body: Final = body
        self.request_id: Final = request_id
        self.arrived: Final = arrived
        self.streamed: Final = streamed
        self.may_post: Final = may_post
        self.trace: Final = trace
        self.options: Final = options


Decode = Callable[[Inbound, Route], Decoded]


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

    def ticket(self, inbound: Inbound) -> Ticket:
        """Return a ticket for a request that has not started, for `take` or `refuse`."""
        ticket = Ticket(inbound.topic, inbound.producer, inbound.request_id, inbound.arrived)
        ticket.body_bytes = len(inbound.body)
        ticket.trace = inbound.trace
        return ticket

    def take(
        self,
        inbound: Inbound,
        decode_as: Decode | None = None,
        attempt: Attempt | None = None,
        ticket: Ticket | None = None,
    ) -> Ticket:
        """Start all events of a request. The ticket is done once all of them have ended.

        Args:
            inbound: The request.
            decode_as: Decodes the body for a front of another protocol, whose responses contain
                offsets; it may raise Refused.
            attempt: Attempt of its Idempotency-Key; events that earlier attempts completed are not
                started again.
            ticket: Ticket of the request, if it already exists.
        """
        if ticket is None:
            ticket = self.ticket(inbound)
        ticket.attempt = attempt
        ticket.needs_offset = decode_as is not None
        count = 1  # of its events, as far as it is known
        streamed = inbound.streamed
        try:
            route = self.gate.open(inbound.topic, needs_offset=decode_as is not None)
            ticket.facts = route.facts
            options = inbound.options or read_options(inbound.headers)
            decoded = self._decode(inbound, route, options, decode_as, attempt)
            count = len(decoded.events)
            ticket.is_batch, ticket.minimal = decoded.is_batch, options.minimal
            size = ticket.body_bytes if streamed is None else streamed.stored.size
            self._admit.take(ticket, options, count, size)
            # No refusals from here on: `refuse` returns a request's bytes, not its events.
            self._records.build(ticket, route, options, decoded, streamed)
        except Refused as refused:
            self._refuse(ticket, inbound, decode_as, refused.failure, count)
            return ticket
        except BaseException:
            self._complete.abandon(ticket)
            raise
        if ticket.publishes:
            self._identify(ticket, route, decoded)
        elif not ticket.remaining:
            if decode_as is None and streamed is None:
                _give_hint(ticket, inbound)
            self._complete.close(ticket)
        return ticket

    def _refuse(
        self,
        ticket: Ticket,
        inbound: Inbound,
        decode_as: Decode | None,
        failure: Failure,
        count: int,
    ) -> None:
        """Refuse a request as a whole, with hints for its client."""
        if inbound.may_post is not None:
            failure = self.gate.with_suggestion(failure, inbound.topic, inbound.may_post)
        if decode_as is None and inbound.streamed is None:
            failure = with_hint(failure, inbound.headers, inbound.body)
        ticket.facts = ticket.facts or self.gate.routes.facts_of(inbound.topic)
        # A request with too many events counts as one, so that counting it stays cheap.
        self._complete.refuse_request(ticket, failure, count if count <= self._max_events else 1)

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
        if inbound.streamed is not None:
            if not route.strategies:  # since a reload, while the body was stored
                raise Refused(value_too_large(route))
            return Decoded([inbound.streamed.event], False)
        # The scanner handles only requests without options for single events, except an id.
        is_repeat = attempt is not None and bool(attempt.known)
        if route.scanner is not None and not is_repeat and options.is_plain:
            scanned = scan(route.scanner, inbound.body, inbound.headers, self._max_events)
            if scanned is not None:
                return scanned
        structured = route.policy.cloudevents == "structured"
        return decode(inbound.body, inbound.headers, structured, self._max_events)

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


def _give_hint(ticket: Ticket, inbound: Inbound) -> None:
    """Add a hint about the body's format to the first failure; no event was started."""
    first = ticket.outcomes[0] if ticket.outcomes else None
    if first is not None and first.failure is not None:
        failure = with_hint(first.failure, inbound.headers, inbound.body)
        ticket.outcomes[0] = first.with_failure(failure)
