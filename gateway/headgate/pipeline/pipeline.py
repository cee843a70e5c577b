"""The way of a request: decode, admit, build its records, and then whatever its topic asks for.

`wiring.pipeline.build_pipeline` says what each stage leads to. Nothing here awaits: `take` starts a
request at once, what arrived in one turn of the event loop goes on together (`turn`), and each
part's answer comes back to `complete`, once a batch. It knows no
HTTP library, so that another front can be put before it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from headgate.backends.base import Identities, Suppression
from headgate.core.admission import Admission
from headgate.core.event import Decoded, Event
from headgate.core.formats.decode import Headers, decode, with_hint
from headgate.core.idempotency import Attempt
from headgate.core.outcome import Failure, Reason
from headgate.core.oversize.chunks import Streamed
from headgate.core.publish import Publish, Ticket
from headgate.core.record import content_type_of
from headgate.core.refusal import Refused
from headgate.core.request import RequestOptions, read_options
from headgate.core.scanning import scan
from headgate.core.suppression import Reservation, Scope
from headgate.core.topics.route import Common, Route
from headgate.pipeline.complete import Complete
from headgate.pipeline.gate import Admit, Expire, Gate
from headgate.pipeline.records import BuildRecords, Validate
from headgate.pipeline.turn import Produce, Turn

# What a front hands over to ingest: a request, and how its body is cut into events.


class Inbound:
    """A request as a front hands it over.

    headers: names in lower case, raw bytes.  body: decompressed; its length was admitted.
    arrived: monotonic seconds when it was there as a whole.
    streamed: its one event, whose value went to the blob store; then the body is empty.
    may_post: tells whether the caller may write to a topic, for suggestions. None: no suggestions.
    """

    __slots__ = (
        "arrived", "body", "headers", "may_post", "producer", "request_id", "streamed", "topic",
    )  # fmt: skip

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
    ) -> None:
        self.topic: Final = topic
        self.producer: Final = producer
        self.headers: Final = headers
        self.body: Final = body
        self.request_id: Final = request_id
        self.arrived: Final = arrived
        self.streamed: Final = streamed
        self.may_post: Final = may_post


Decode = Callable[[Inbound, Route], Decoded]


# A request's events that earlier attempts under its Idempotency-Key ended well.


# Stands in the place of an event that is done, until its answer does.
_DONE = Failure(Reason.INTERNAL, "done by an earlier attempt")


def leave_out_known(ticket: Ticket, attempt: Attempt, decoded: Decoded) -> None:
    """Leave those out that need not be started again."""
    rest = [*decoded.events]
    for index in attempt.known:
        if index < len(rest):
            ticket.sizes[index] = _size(rest[index])
            rest[index] = _DONE
    decoded.events = rest


def answer_known(ticket: Ticket, attempt: Attempt) -> None:
    """Give these events the answers of earlier attempts."""
    for index, outcome in attempt.known.items():
        if index < len(ticket.outcomes):
            ticket.outcomes[index] = outcome


def _size(event: Event) -> int:
    if isinstance(event, Failure):
        return 0
    value = event if isinstance(event, bytes) else event.value
    return len(value or b"")


# Events whose ids were seen before are answered with what was; the others go on.
#
# Only where the topic asks for it (`dedupe_ttl_s`). Events without an id wait with the others of
# their request, so that the order of each key stays.


class Identify:
    """identities: None where there is no Redis to remember ids in; then every event goes on."""

    def __init__(
        self, identities: Identities | None, validate: Validate, turn: Turn, complete: Complete
    ) -> None:
        self._identities = identities
        self._validate = validate
        self._turn = turn
        self._complete = complete

    def take(
        self, ticket: Ticket, route: Route, started: list[Publish], events: Sequence[Event]
    ) -> None:
        """events: all that the request came with."""
        if self._identities is None:
            self._go_on(route, started, events)
            return
        go_on = partial(self._claimed, ticket, route, events)
        self._identities.claim(ticket, route, started, go_on)

    def _claimed(
        self, ticket: Ticket, route: Route, events: Sequence[Event], left: list[Publish]
    ) -> None:
        """left: those that nobody has seen."""
        if left:
            ticket.start(left)
            self._go_on(route, left, events)
        elif not ticket.remaining and not ticket.done:
            self._complete.close(ticket)

    def _go_on(self, route: Route, left: list[Publish], events: Sequence[Event]) -> None:
        if route.orders is None and not self._validate.waiting:
            self._turn.add(route, left)
        else:
            self._turn.flush_topic(route.state.name)
            self._validate.take(left, events)


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


# Whether an event must be published: where its topic suppresses, Redis is asked first.
#
# Where it does not, events only pass, unless others still rely on what Redis knows of the topic
# (`Suppression.passes`).


class Reserve:
    """scope_of: a topic's namespace in force.  is_behind: whether events of a topic lie on disk, so
    that nothing of it can be compared now.
    """

    def __init__(
        self,
        suppression: Suppression,
        scope_of: Callable[[str], Scope | None],
        produce: Produce,
        is_behind: Callable[[str], bool] | None = None,
    ) -> None:
        self._suppression = suppression
        self._scope_of = scope_of
        self._produce = produce
        self._is_behind = is_behind

    def take(self, started: list[Publish]) -> None:
        """Events of one topic, in order. They may have waited, and the topic may have been
        recreated meanwhile."""
        route = _common(started[0]).route
        scope = self._scope_of(route.state.name) or route.scope
        uncompared = self._is_behind is not None and self._is_behind(route.state.name)
        if self._passes(route, scope, len(started), uncompared):
            if scope is not None:
                passed = Reservation(scope, route.state.partitions)
                for publish in started:
                    publish.reservation, publish.digest = passed, None
            self._produce.take(started)
            return
        refuse = route.refuses and route.digest is not None
        for publish in started:
            if uncompared:
                publish.digest = b""
            force = uncompared or _common(publish).force
            self._ask(publish, route, scope, force=force, refuse=refuse)

    def one(self, publish: Publish) -> None:
        """One whose turn has come."""
        self.take([publish])

    def element(self, part: Publish, *, refuse: bool) -> bool:
        """A record of a key of its own, from a document that came apart: the state of that key
        must learn of it, or an equal event would be compared with what is no longer the newest.

        False: nobody needs to; it may be handed over at once.
        """
        route = _common(part).route
        scope = route.scope
        if self._passes(route, scope, 1, False):
            if scope is not None:
                part.reservation = Reservation(scope, route.state.partitions)
            return False
        refuse = refuse or (route.refuses and route.digest is not None)
        self._ask(part, route, scope, force=True, refuse=refuse)
        return True

    def _passes(self, route: Route, scope: Scope | None, count: int, uncompared: bool) -> bool:
        if route.digest is not None and (not uncompared or route.refuses):
            return False
        return scope is None or self._suppression.passes(scope, count)

    def _ask(
        self, publish: Publish, route: Route, scope: Scope | None, *, force: bool, refuse: bool
    ) -> None:
        record = publish.record
        if record.key is None:  # nothing of it can be compared
            publish.digest = None
            self._produce.one(publish)
            return
        if publish.placed or route.digest is None:
            publish.digest, force = b"", True
        elif publish.digest is None:
            publish.digest = route.digest(record.value, content_type_of(record))
        assert scope is not None  # or nobody would be asked
        partitions = route.state.partitions
        publish.reservation = Reservation(scope, partitions, force, refuse)
        self._suppression.reserve(publish)


def _common(publish: Publish) -> Common:
    assert publish.common is not None  # it came with a request
    return publish.common


class ReserveVerdicts:
    """Implements `base.Verdicts`: what becomes of an event that was asked for."""

    def __init__(self, complete: Complete, produce: Produce) -> None:
        self._complete = complete
        self._produce = produce

    def publish(self, publish: Publish) -> None:
        self._produce.one(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        self._complete.unchanged(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        self._complete.refused(publish, failure)
