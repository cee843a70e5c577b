"""What the rest of the gateway may ask of Kafka and of the suppression state.

`pipeline` talks to these protocols only; those in memory and the real ones pass one contract
suite (tests/contract). Calls never await: results come back through the listeners below, once a
batch and lane, or once a Redis call, instead of once an event.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.core.outcome import Failure
from headgate.core.publish import Publish, Ticket
from headgate.core.suppression import Scope
from headgate.core.topics.route import Route
from headgate.core.topics.topic import TopicState


class Topics(Protocol):
    """The topics that exist, kept fresh in the background."""

    def get(self, topic: str) -> TopicState | None:
        """The topic's newest known state, or None when its cluster does not have it."""
        ...

    def missing_reason(self, topic: str) -> Failure:
        """Why `get` has nothing: `unknown_topic`, or the cluster has not answered yet."""
        ...


class Deliveries(Protocol):
    """Who hears from the lanes. Lists are one lane's batch, in the order of its records."""

    def handed_over(self, batch: Sequence[Publish]) -> None:
        """The batch is with the producer from now on: its end is Kafka's."""
        ...

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """All of the batch is in Kafka; offsets count up from base_offset (-1: Kafka gave none)."""
        ...

    def failed(self, batch: Sequence[Publish], failure: Failure) -> None:
        """The batch ended otherwise: `unknown`, or a reason that means certainly not written."""
        ...


class Lanes(Protocol):
    """The way into Kafka: one ordered queue for each topic-partition."""

    def refusal(self, state: TopicState, partition: int) -> Failure | None:
        """Why this lane takes nothing now (no acknowledgement for a while, full), else None."""
        ...

    def put(self, publish: Publish) -> None:
        """Take a record in arrival order. Its end comes through `Deliveries`, always."""
        ...

    def head(self, topic: str, partition: int) -> Publish | None:
        """The oldest that has not ended in this lane and is not dropped."""
        ...

    def withdraw(self, topic: str, partition: int) -> tuple[list[Publish], list[Publish]]:
        """Take out of this lane what was not handed over: its end is the caller's from now on.

        Returns what the producer has, which stays there, and what was taken out, both in order.
        """
        ...


class Verdicts(Protocol):
    """Who hears the answers to reservations, in the order in which the keys' events arrived.

    Nothing is said of an event that was dropped meanwhile (`Publish.dropped`).
    """

    def publish(self, publish: Publish) -> None:
        """Reserved, or it goes unreserved: hand it to its lane."""
        ...

    def unchanged(self, publish: Publish, offset: int) -> None:
        """The key's newest acknowledged record, at offset, has this content already."""
        ...

    def refused(self, publish: Publish, failure: Failure) -> None:
        """Not reserved and not to be published (redis_loss = "refuse" while Redis is away)."""
        ...


class Identities(Protocol):
    """Which requests and events were done before (`idempotency.rules`)."""

    def claim(
        self,
        ticket: Ticket,
        route: Route,
        started: list[Publish],
        go_on: Callable[[list[Publish]], None],
    ) -> None:
        """Claim the ids of these events; `go_on` gets those to be published, in order.

        The others of them have their outcome by then; `ticket` was started with all. Each
        topic's requests go on in the order of the calls.
        """
        ...

    def ended(self, ticket: Ticket) -> None:
        """Everything of a ticket with an attempt has ended for good: remember what ended well."""
        ...


class Suppression(Protocol):
    """Reserve before, settle after (docs/design/suppression-protocol.md)."""

    def reserve(self, publish: Publish) -> None:
        """Ask whether the event must be published; the answer comes through `Verdicts`."""
        ...

    def passes(self, scope: Scope, count: int) -> bool:
        """Whether so many events of a topic that suppresses nothing may go to their lanes at once.

        If so their scope is set, and their ends are reported like those of others. Else they are
        reserved like others (forced, with an empty digest).
        """
        ...

    def hold(self, scope: Scope) -> None:
        """Announce, until `release`, that events of this topic pass: some lie where nobody sees
        them, and are newer than what Redis knows."""
        ...

    def release(self, scope: Scope) -> None:
        """The last of them has ended."""
        ...

    def acknowledged(self, batch: Sequence[Publish], base_offset: int) -> None:
        """Settle a lane's batch: the offsets are final (-1 = unknown to us)."""
        ...

    def ended(self, publish: Publish, certain: bool) -> None:
        """It ended without acknowledgement. certain: not one byte of it can be in the log."""
        ...
