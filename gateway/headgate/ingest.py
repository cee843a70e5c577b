"""Where the rooms meet: from a request's bytes to a ticket, and from deliveries to outcomes.

Life of a batch: decode -> key, partition, timestamp, size (Route) -> quota and budget -> reserve
(topics that suppress) -> lane -> Kafka -> outcome -> settle. Nothing here awaits: `handle` hands
everything over at once, and each part's answer comes back through a listener once a batch.
It knows no HTTP library, so that another front can be put before it.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from headgate.backends.base import Lanes, Suppression
from headgate.core.admission import Admission
from headgate.core.decode import Headers, decode
from headgate.core.event import RawEvent, Refused
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.publish import Publish, Stage
from headgate.core.reply import Reply, reply
from headgate.core.request import Wishes, read_wishes
from headgate.core.route import Common, Route, estimate
from headgate.routes import Routes
from headgate.ticket import Ticket, rejected

RETRY_AFTER_S = 2  # an ordinary leader change takes 5-11 s; clients back off by themselves


class Inbound(NamedTuple):
    """A request as a front hands it over.

    headers: names in lower case, raw bytes.  body: decompressed; its length was admitted.
    arrived: monotonic seconds.
    """

    topic: str
    producer: str
    headers: Headers
    body: bytes
    request_id: str
    arrived: float


class Accounts(Protocol):
    """What ingest reports: each request's outcomes, once, when all are known."""

    def account(
        self, producer: str, topic: str, outcomes: Sequence[Outcome], sizes: Sequence[int]
    ) -> None: ...


class Limits(NamedTuple):
    """batch_max_events: events of one request.  request_timeout_ms: until the deadline's answer."""

    batch_max_events: int
    request_timeout_ms: int


class Quotas(Protocol):
    """Whether a producer may send so much now."""

    def check(self, producer: str, events: int, size: int) -> Failure | None: ...


class Ingest:
    """Implements `Deliveries` and `Verdicts`: it hears how everything that it started ends."""

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
        self._routes = routes
        self._admission = admission
        self._quotas = quotas
        self._accounts = accounts
        self._ids = ids
        self.limits = limits
        self._clock_ms = clock_ms
        self._sticky = 0
        self._common_headers: dict[str, tuple[str, bytes]] = {}
        self._idle: asyncio.Event | None = None

    def connect(self, lanes: Lanes, suppression: Suppression) -> None:
        """Close the circle: lanes and suppression are built with this object as their listener."""
        self._lanes = lanes
        self._suppression = suppression

    @property
    def is_draining(self) -> bool:
        """Whether new requests are refused."""
        return self._idle is not None

    async def drain(self) -> None:
        """Take nothing more and wait until everything under way has ended."""
        self._idle = asyncio.Event()
        if self._admission.events:
            await self._idle.wait()

    # ---- a request comes in

    def handle(self, inbound: Inbound) -> Ticket:
        """Start everything that the request asks for. The ticket is done once all has ended."""
        ticket = Ticket(inbound.topic, inbound.producer, inbound.request_id, inbound.arrived)
        ticket.body_bytes = len(inbound.body)
        try:
            route = self._routes.find(inbound.topic)
            wishes = read_wishes(inbound.headers)
            structured = route.policy.cloudevents == "structured"
            events, ticket.is_batch = decode(inbound.body, inbound.headers, structured)
            ticket.minimal = wishes.minimal
            self._admit(ticket, wishes, events)
        except Refused as refused:
            self._refuse(ticket, refused.failure)
            return ticket
        if events:
            self._start(ticket, route, wishes, events)
        else:
            self._close(ticket)
        return ticket

    def _admit(self, ticket: Ticket, wishes: Wishes, events: Sequence[RawEvent | Failure]) -> None:
        count = len(events)
        if ticket.is_batch and wishes.single_event_header is not None:
            detail = f"{wishes.single_event_header} means one event, but the body is a batch"
            raise Refused(Failure(Reason.MALFORMED, detail))
        if count > self.limits.batch_max_events:
            most = self.limits.batch_max_events
            detail = f"{count} events in one request are more than http.batch_max_events = {most}"
            raise Refused(Failure(Reason.TOO_MANY_EVENTS, detail, {"limit": most}))
        failure = self._quotas.check(ticket.producer, count, ticket.body_bytes)
        failure = failure or self._admission.take_events(count)
        if failure is not None:
            raise Refused(failure)
        ticket.expect(count)

    def _start(
        self,
        ticket: Ticket,
        route: Route,
        wishes: Wishes,
        events: Sequence[RawEvent | Failure],
    ) -> None:
        now_ms = self._clock_ms()
        self._sticky += 1
        common = Common(
            wishes.key,
            wishes.timestamp_ms,
            wishes.tombstone,
            self._sticky,
            self._headers(ticket.producer, now_ms, wishes),
            now_ms,
        )
        started: list[Publish] = []
        for index, event in enumerate(events):
            if isinstance(event, Failure):
                self._end(ticket, index, rejected(event))
                continue
            ticket.sizes[index] = len(event.value or b"")
            event_id = wishes.event_id or event.event_id or self._ids.take(now_ms)
            try:
                record = route.record(event, common, event_id.encode())
            except Refused as refused:
                self._end(ticket, index, rejected(refused.failure, None, event_id))
                continue
            size = estimate(record)
            failure = route.oversize(record, size)
            if failure is not None:
                self._too_large(ticket, index, event, rejected(failure, record.key, event_id))
                continue
            failure = self._lanes.refusal(route.state, record.partition)
            if failure is not None:
                self._end(ticket, index, rejected(failure, record.key, event_id))
                continue
            publish = Publish(record, size, ticket, index, event_id)
            if route.digest is not None:
                publish.digest = route.digest(record.value, event.content_type)
                publish.scope = route.scope
                publish.force = wishes.force
                publish.refuse = route.policy.redis_loss == "refuse"
            started.append(publish)
        ticket.publishes = started
        ticket.open_publishes = len(started)
        for publish in started:
            if publish.digest is None or publish.record.key is None:
                publish.digest = None
                self._lanes.put(publish)
            else:
                self._suppression.reserve(publish)

    def _headers(self, producer: str, now_ms: int, wishes: Wishes) -> list[tuple[str, bytes]]:
        known = self._common_headers.get(producer)
        if known is None:
            if len(self._common_headers) > 10_000:  # names come from clients
                self._common_headers.clear()
            known = self._common_headers[producer] = ("hg-producer", producer.encode())
        return [known, ("hg-received-at", b"%d" % now_ms), *wishes.record_headers]

    def _too_large(self, ticket: Ticket, index: int, event: RawEvent, outcome: Outcome) -> None:
        """Note what must be weighed before the answer: the front does it off the event loop."""
        if event.document is not None:
            if ticket.weighing is None:
                ticket.weighing = []
            ticket.weighing.append((index, event.document))
        self._end(ticket, index, outcome)

    def _refuse(self, ticket: Ticket, failure: Failure) -> None:
        """The request fails as a whole: one outcome, and nothing was started."""
        ticket.is_batch = False
        ticket.expect(1)
        ticket.sizes[0] = ticket.body_bytes
        topic = "other" if failure.reason is Reason.UNKNOWN_TOPIC else ticket.topic
        ticket.outcomes[0] = rejected(failure)
        ticket.remaining = 0
        ticket.done = True
        self._accounts.account(ticket.producer, topic, ticket.answered(), ticket.sizes)
        self._admission.give(ticket.body_bytes, 0)

    # ---- events end

    def _end(self, ticket: Ticket, index: int, outcome: Outcome) -> None:
        if ticket.put(index, outcome):
            self._close(ticket)

    def _close(self, ticket: Ticket) -> None:
        """All outcomes are known: count them and wake whoever waits for the answer."""
        ticket.done = True
        self._accounts.account(ticket.producer, ticket.topic, ticket.answered(), ticket.sizes)
        waiter = ticket.waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)
        if ticket.open_publishes == 0:
            self._release(ticket)

    def _release(self, ticket: Ticket) -> None:
        ticket.publishes = []  # the sweep may keep the ticket behind an older one that is open
        self._admission.give(ticket.body_bytes, len(ticket.outcomes))
        if self._idle is not None and not self._admission.events:
            self._idle.set()

    def _finish(self, publish: Publish, name: Name, offset: int, failure: Failure | None) -> None:
        """A publish and its followers have ended; followers have no record of their own."""
        partition = publish.record.partition
        self._finish_one(publish, name, partition, offset, failure, 1)
        followers = publish.followers
        if followers is not None:
            publish.followers = None
            for follower in followers:
                self._finish_one(follower, name, partition, offset, failure, 0)

    def _finish_one(
        self,
        publish: Publish,
        name: Name,
        partition: int,
        offset: int,
        failure: Failure | None,
        records: int,
    ) -> None:
        ticket: Ticket = publish.ticket
        publish.stage = Stage.ENDED
        outcome = Outcome(
            name,
            partition,
            offset,
            publish.record.key,
            publish.event_id,
            failure,
            records if name is Name.PUBLISHED else 0,
        )
        ticket.open_publishes -= 1
        if ticket.put(publish.index, outcome):
            self._close(ticket)
        elif ticket.open_publishes == 0 and ticket.done:
            self._release(ticket)

    # ---- Verdicts

    def publish(self, publish: Publish) -> None:
        if publish.dropped:
            self._suppression.ended(publish, True)
        else:
            self._lanes.put(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        if not publish.dropped:
            self._finish(publish, Name.UNCHANGED, offset, None)

    def refused(self, publish: Publish, failure: Failure) -> None:
        if not publish.dropped:
            self._finish(publish, Name.REJECTED, -1, failure)

    # ---- Deliveries

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Nothing to do: the stage on each publish says it."""

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        offset = base_offset
        for publish in batch:
            self._finish(publish, Name.PUBLISHED, offset, None)
            if base_offset >= 0:
                offset += 1
        self._suppression.acknowledged(batch, base_offset)

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        is_unknown = failure.reason is Reason.UNKNOWN
        for publish in batch:
            self._finish(publish, Name.UNKNOWN if is_unknown else Name.REJECTED, -1, failure)
            self._suppression.ended(publish, not is_unknown)

    # ---- the deadline

    def expire(self, ticket: Ticket) -> None:
        """Answer what is still open: `unknown` for what Kafka may have, else certainly not written.

        The publishes of `unknown` events go on: their end settles the suppression state.
        """
        for publish in ticket.publishes:
            if ticket.outcomes[publish.index] is None:
                self._expire(ticket, publish)

    def _expire(self, ticket: Ticket, publish: Publish) -> None:
        leader = publish.leader or publish
        seconds = self.limits.request_timeout_ms / 1000
        if leader.stage >= Stage.HANDED or publish.followers:
            # With followers the record goes on for their sake, and it carries this event's id.
            detail = f"Kafka did not acknowledge within {seconds:g} s; the event may yet arrive"
            failure = Failure(Reason.UNKNOWN, detail, None, RETRY_AFTER_S)
            self._end(ticket, publish.index, self._open(publish, failure))
            return
        if leader is not publish and leader.followers is not None:
            leader.followers.remove(publish)
        was_in_lane = publish.stage is Stage.LANE
        publish.dropped = True
        detail = f"not handed to Kafka within {seconds:g} s; nothing was written"
        failure = Failure(Reason.KAFKA_UNAVAILABLE, detail, None, RETRY_AFTER_S)
        ticket.open_publishes -= 1
        self._end(ticket, publish.index, self._open(publish, failure))
        if was_in_lane:
            self._suppression.ended(publish, True)

    def _open(self, publish: Publish, failure: Failure) -> Outcome:
        return rejected(failure, publish.record.key, publish.event_id)


def answer(ticket: Ticket) -> Reply:
    """The answer to a ticket that is done."""
    return reply(
        ticket.topic, ticket.answered(), ticket.is_batch, ticket.minimal, ticket.request_id
    )
