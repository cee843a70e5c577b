"""Interfaces of Kafka and of the suppression state for the rest of the gateway.

The stages in `ingest` use Kafka and Redis only through these protocols. The implementations in
memory and the real ones pass the same contract suite (tests/contract). Calls never await. The
listeners below receive the results once for each batch of a lane or each Redis call, instead of
once for each event.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.model.outcome import Failure
from headgate.model.publish import Publish, Ticket
from headgate.model.route import Route
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState


class Topics(Protocol):
    """The existing topics, refreshed in the background."""

    def get(self, topic: str) -> TopicState | None:
        """Return the topic's newest known state, or None if its cluster does not have it."""
        ...

    def missing_reason(self, topic: str) -> Failure:
        """Return why `get` returns None: the topic is unknown, or no cluster answered yet."""
        ...


class Deliveries(Protocol):
    """Listener for results of lanes. Each list is a lane's batch, in the order of records."""

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """Handle the hand-over of a batch to the producer; Kafka decides its outcome now."""
        ...

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Handle an acknowledged batch.

        Args:
            batch: The events, all in Kafka.
            base_offset: The offset of the first one; the others follow. -1 if Kafka returned none.
        """
        ...

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """Handle a failed batch: `unknown`, or a reason that means certainly not written."""
        ...


class Lanes(Protocol):
    """Queues into Kafka: one ordered queue for each topic-partition."""

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Return why a lane takes nothing now (stalled or full), or None if it does."""
        ...

    def put(self, publish: Publish) -> None:
        """Queue a record in arrival order. `Deliveries` always receives its outcome."""
        ...

    def oldest_event(self, topic: str, partition: int) -> Publish | None:
        """Return the oldest event of a lane that has neither ended nor been dropped."""
        ...

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """Remove the events that were not handed over; the caller decides their outcome.

        Returns:
            The events that the producer has and keeps, and the removed events, both in order.
        """
        ...


class Verdicts(Protocol):
    """Listener for the results of reservations, in the order of each key's events.

    There is no call for an event that was dropped meanwhile (`Publish.dropped`).
    """

    def publish(self, publish: Publish) -> None:
        """Put an event into its lane; it is reserved or goes unreserved."""
        ...

    def unchanged(self, publish: Publish, offset: int) -> None:
        """Handle an event that equals its key's newest acknowledged record, at `offset`."""
        ...

    def refused(self, publish: Publish, failure: Failure) -> None:
        """Handle an event that is refused (redis_loss = "refuse" while Redis is unavailable)."""
        ...


class Identities(Protocol):
    """Claims of ids of requests and events (`idempotency.rules`)."""

    def claim(
        self,
        ticket: Ticket,
        route: Route,
        started: list[Publish],
        go_on: Callable[[list[Publish]], None],
    ) -> None:
        """Claim the ids of events.

        Each topic's requests continue in the order of the calls.

        Args:
            ticket: The request, which was started with all events.
            route: The route of the topic.
            started: The events.
            go_on: Receives the events to publish, in order; the others have their outcome then.
        """
        ...

    def ended(self, ticket: Ticket) -> None:
        """Remember the successful outcomes of a ticket that has ended completely."""
        ...


class Suppression(Protocol):
    """Reservations before publishing, settled after it (docs/design/suppression-protocol.md)."""

    def reserve(self, publish: Publish) -> None:
        """Ask whether the event must be published; `Verdicts` receives the answer."""
        ...

    def let_pass(self, scope: Scope, count: int) -> bool:
        """Let events of a topic without suppression pass without reservations, if that is safe.

        The events are counted, and the events of the topic that wait may pass with them.

        Args:
            scope: The namespace of the topic.
            count: The number of events.

        Returns:
            Whether they may go to their lanes at once. If so, the caller sets their scope and
            reports their ends as for other events. Otherwise the caller reserves them as other
            events, forced and with an empty digest.
        """
        ...

    def hold(self, scope: Scope) -> None:
        """Announce, until `release`, that events of this topic pass without a reservation.

        Some of its events are on disk, out of sight, and newer than the data in Redis.
        """
        ...

    def release(self, scope: Scope) -> None:
        """End the announcement of `hold`, because the last of these events has ended."""
        ...

    def is_settled(self) -> bool:
        """Return whether Redis has the news of all publishes that bypassed it."""
        ...

    def drop(self, scope: Scope) -> None:
        """Forget the state of the topic before the next reservation."""
        ...

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch, whose offsets are final; -1 if they are not known."""
        ...

    def ended(self, publish: Publish, certain: bool) -> None:
        """Settle an event without acknowledgement.

        Args:
            publish: The event.
            certain: Whether it is certainly not in the log.
        """
        ...
