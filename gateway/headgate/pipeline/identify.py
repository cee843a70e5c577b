"""Events whose ids were seen before are answered with what was; the others go on.

Only where the topic asks for it (`dedupe_ttl_s`). Events without an id wait with the others of
their request, so that the order of each key stays.
"""

from collections.abc import Sequence
from functools import partial

from headgate.backends.base import Identities
from headgate.core.event import Event
from headgate.core.publish import Publish, Ticket
from headgate.core.topics.route import Route
from headgate.pipeline.complete import Complete
from headgate.pipeline.turn import Turn
from headgate.pipeline.validate import Validate


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
