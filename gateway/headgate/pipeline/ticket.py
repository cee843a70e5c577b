"""A request's ticket: which of its events have ended, and who waits for the rest."""

from collections.abc import Callable

from headgate.core.idempotency.attempt import Attempt
from headgate.core.outcome import Failure, Name, Outcome, Reason
from headgate.core.publish import Publish


class Ticket:
    """One request's events on their way: one countdown, however many events.

    outcomes: in request order, None while open.  publishes: those that left ingest, for the
    deadline.  sizes: value bytes of each event, for the metrics.  waiter: told when all ended.
    attempt: what of it was claimed in Redis, None where nothing was.
    facts: its topic tells facts of one in so many of its events; 0 = of none.
    """

    __slots__ = (
        "arrived",
        "attempt",
        "body_bytes",
        "done",
        "facts",
        "is_batch",
        "minimal",
        "open_publishes",
        "outcomes",
        "producer",
        "publishes",
        "remaining",
        "request_id",
        "sizes",
        "topic",
        "waiter",
        "weighing",
    )

    def __init__(self, topic: str, producer: str, request_id: str, arrived: float) -> None:
        self.topic = topic
        self.producer = producer
        self.request_id = request_id
        self.arrived = arrived
        self.body_bytes = 0
        self.facts = 0
        self.is_batch = False
        self.minimal = False
        self.outcomes: list[Outcome | None] = []
        self.sizes: list[int] = []
        self.publishes: list[Publish] = []
        self.remaining = 0
        self.open_publishes = 0
        self.done = False
        self.waiter: Callable[[Ticket], None] | None = None
        self.attempt: Attempt | None = None
        self.weighing: list[tuple[int, bytes]] | None = None

    def expect(self, events: int) -> None:
        self.outcomes = [None] * events
        self.sizes = [0] * events
        self.remaining = events

    def weigh(self, index: int, document: bytes) -> None:
        """Note a document that is too large: the front finds out where its bytes are."""
        if self.weighing is None:
            self.weighing = []
        self.weighing.append((index, document))

    def put(self, index: int, outcome: Outcome) -> bool:
        """Record an outcome. True when it was the last one; a second one for an event is void."""
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def answered(self) -> list[Outcome]:
        """All outcomes; only when none is open any more."""
        return [outcome for outcome in self.outcomes if outcome is not None]


def rejected(failure: Failure, key: bytes | None = None, event_id: str | None = None) -> Outcome:
    """The outcome of an event that is certainly not written, or (reason unknown) perhaps."""
    name = Name.UNKNOWN if failure.reason is Reason.UNKNOWN else Name.REJECTED
    return Outcome(name, key=key, event_id=event_id, failure=failure)
