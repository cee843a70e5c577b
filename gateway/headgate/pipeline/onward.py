"""The way on: from a request's events to their lanes, past what their topic asks for.

Examination (canonical comparison, schemas), reservation (topics that suppress) and the oversize
ladder. Each of them hands an event back when it is through (`Examined`, `Verdicts`).
"""

from collections.abc import Sequence
from typing import cast

from headgate.core.admission import Admission
from headgate.core.event import RawEvent
from headgate.core.ids import EventIds
from headgate.core.outcome import Failure
from headgate.core.oversize.streamed import Streamed
from headgate.core.publish import Publish
from headgate.core.record import content_type_of
from headgate.core.route import Oversized, Route
from headgate.core.suppression.examination import Orders
from headgate.pipeline.endings import Accounts, Endings
from headgate.pipeline.routes import Routes
from headgate.pipeline.ticket import Ticket

Events = Sequence[bytes | RawEvent | Failure]


class Onward(Endings):
    """Takes what was started to its lane; `ingest.Ingest` starts it, and it ends in `Endings`."""

    def __init__(
        self,
        routes: Routes,
        admission: Admission,
        accounts: Accounts,
        ids: EventIds,
        request_timeout_ms: int,
    ) -> None:
        super().__init__(admission, accounts, ids, request_timeout_ms)
        self._routes = routes

    def _claimed(
        self, ticket: Ticket, route: Route, force: bool, events: Events, started: list[Publish]
    ) -> None:
        if started:
            self._go_on(ticket, route, force, events, started)
        elif not ticket.remaining and not ticket.done:
            self._close(ticket)

    def _go_on(
        self, ticket: Ticket, route: Route, force: bool, events: Events, started: list[Publish]
    ) -> None:
        """What is left of the ticket goes on; `events` are all that it came with."""
        ticket.publishes = started
        ticket.open_publishes = len(started)
        oversized = started[0].oversized
        if oversized is not None and oversized.stored is not None:
            self._pass_on(route, force, started[0])
        elif route.orders is None:
            self._reserve(route, force, started)
        else:
            self._examine(route, route.orders, force, started, events)

    @staticmethod
    def _take_streamed(
        ticket: Ticket, route: Route, streamed: Streamed, started: list[Publish]
    ) -> None:
        """Its value is in the blob store: what the record refers to, and what is compared."""
        ticket.sizes[0] = streamed.stored.size
        for publish in started:  # none, if it was refused
            publish.oversized = Oversized(route, streamed.stored)
            # A reload may have come since its first byte: perhaps nothing is compared any more,
            # and a content that nobody digested equals none (an empty digest clears the key's).
            if route.digest is not None:
                publish.digest = streamed.digest or b""
                if streamed.digest is None:
                    publish.force = publish.placed = True

    def _pass_on(self, route: Route, force: bool, publish: Publish) -> None:
        """A streamed event needs no look at its value any more, but keeps its key's order."""
        publish.climbs = True
        publish.force = publish.force or force
        publish.refuse, publish.scope = route.policy.redis_loss == "refuse", route.scope
        publish.partitions = route.state.partitions
        if route.orders is not None and self._examining is not None:
            self._examining.pass_by(publish)
        else:
            self.fit(publish)

    def _reserve(self, route: Route, force: bool, started: list[Publish]) -> None:
        # The route may be an older one, from before a wait for the events' ids.
        digest, scope = route.digest, self._routes.scope_of(route.state.name) or route.scope
        climbs = bool(route.ladder) and self._ladder is not None
        if digest is None and (scope is None or self._suppression.passes(scope, len(started))):
            hand_over = self._ladder.take if climbs and self._ladder else self.hand_over
            for publish in started:
                publish.scope = scope
                hand_over(publish)
            return
        reserve, refuse = self._suppression.reserve, route.policy.redis_loss == "refuse"
        refuse = refuse and digest is not None
        partitions = route.state.partitions
        for publish in started:
            record = publish.record
            publish.climbs = climbs
            if record.key is None:
                self.publish(publish)
                continue
            publish.partitions = partitions
            if publish.placed:
                publish.digest = b""
            elif digest is None:
                publish.digest, publish.force = b"", True
            elif publish.digest is None:
                publish.digest = digest(record.value, content_type_of(record))
            publish.scope = scope
            if force:
                publish.force = True
            if refuse:
                publish.refuse = True
            reserve(publish)

    def _examine(
        self, route: Route, orders: Orders, force: bool, started: list[Publish], events: Events
    ) -> None:
        refuse, examining = route.policy.redis_loss == "refuse", self._examining
        climbs = bool(route.ladder) and self._ladder is not None
        assert examining is not None
        for publish in started:
            record, event = publish.record, cast(bytes | RawEvent, events[publish.index])
            publish.force = publish.force or force
            publish.refuse, publish.scope = refuse, route.scope
            publish.climbs, publish.partitions = climbs, route.state.partitions
            if route.digest is not None and (record.value is None or orders.comparison is None):
                publish.digest = route.digest(record.value, content_type_of(record))
            if record.value is not None:
                record.headers = [*record.headers, *route.schema_headers]
            examining.take_event(publish, orders, event)

    def fit(self, publish: Publish) -> None:
        """See `Examined`."""
        # It may have waited, and the topic be another one meanwhile: what is registered must be in
        # the new scope.
        scope = publish.scope = self._routes.scope_of(publish.record.topic) or publish.scope
        is_compared = publish.digest is not None
        if publish.record.key is None:
            publish.digest = publish.scope = None
            self.publish(publish)
            return
        if not is_compared and (scope is None or self._suppression.passes(scope, 1)):
            self.publish(publish)
            return
        if publish.placed or not is_compared:
            publish.digest, publish.force = b"", True
            publish.refuse = publish.refuse and is_compared
        self._suppression.reserve(publish)
