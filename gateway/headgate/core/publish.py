"""One request's events on their way through the process: where each is, and how many are open.

Mutable on purpose: a publish is the single object that stages, suppression and lanes pass on, so
that a batch of events costs one list and no further allocation. It decides nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final

from headgate.core.idempotency import Attempt
from headgate.core.outcome import Outcome
from headgate.core.oversize.strategies import Large
from headgate.core.owner import RecordOwner
from headgate.core.record import Record
from headgate.core.suppression import Reservation
from headgate.core.topics.route import Common


class Stage(IntEnum):
    """Where a publish is. Order matters: everything below HANDED is certainly not in Kafka."""

    NEW = 0
    QUEUED = 1  # waits for its reservation to be sent
    RESERVING = 2  # its reservation is on its way to Redis
    LANE = 3  # in its lane, not handed to the producer
    HANDED = 4  # with the producer: the end is Kafka's
    STORING = 5  # on its way to disk (`spool`), from where it may reach Kafka
    ENDED = 6  # published, spooled, refused, unknown for good, unchanged or dropped


# What may follow each stage. A lane may put back what certainly was not sent; a reservation that
# was not answered waits again, or its event goes on without; an end is told by whoever saw it and
# noted once more when it becomes an outcome. What goes to disk never comes back as this object.
NEXT: Final[Mapping[Stage, frozenset[Stage]]] = {
    Stage.NEW: frozenset((Stage.QUEUED, Stage.LANE, Stage.STORING, Stage.ENDED)),
    Stage.QUEUED: frozenset(
        (Stage.QUEUED, Stage.RESERVING, Stage.LANE, Stage.STORING, Stage.ENDED)
    ),
    Stage.RESERVING: frozenset((Stage.QUEUED, Stage.LANE, Stage.STORING, Stage.ENDED)),
    Stage.LANE: frozenset((Stage.LANE, Stage.HANDED, Stage.STORING, Stage.ENDED)),
    Stage.HANDED: frozenset((Stage.LANE, Stage.ENDED)),
    Stage.STORING: frozenset((Stage.ENDED,)),
    Stage.ENDED: frozenset((Stage.ENDED,)),
}
_ALLOWED: Final = tuple(
    sum(1 << stage for stage in NEXT[before]) for before in Stage
)  # a bit for each


class Publish:
    """An event on its way.

    record: what Kafka gets; its headers are filled in once it is certain that it will be handed
    over, for most events of a state topic are unchanged.  common: what its request's events share;
    None of what the coalescer publishes.
    size: upper bound of the record's bytes (`record.size_of`).
    ticket, index: the request, and the event's place in it, that wait for the outcome.  owner:
    who waits for it where no request does.
    event_id, source: the event's own id; a CloudEvent's is unique within its source.
    spooled: it goes to disk, or lies there, though a lane has it.
    dropped: its deadline passed before it was handed over, so no lane may hand it over any more.
    large: what the oversize policy must know of it, or of one of its records.
    digest: of its content, 16 bytes when the topic suppresses, else None.
    placed_by: the partition count that it was placed by, if that is another than of its route and
    reservation.
    placed: its client chose the partition, so its offset says nothing about its key; its digest is
    empty.
    reservation: what suppression knows of it, once it was asked.
    followers: equal events of the same key that take this one's outcome.  leader: whose outcome
    this one takes.
    """

    # Class defaults instead of slots: most of these stay as they are, and setting all of them for
    # every event would cost more than the rest of its construction.
    stage: Stage = Stage.NEW
    digest: bytes | None = None
    placed: bool = False
    placed_by: int = 0
    reservation: Reservation | None = None
    spooled: bool = False
    dropped: bool = False
    followers: "list[Publish] | None" = None
    leader: "Publish | None" = None
    common: Common | None = None
    source: str | None = None
    large: Large | None = None
    owner: RecordOwner | None = None

    def __init__(
        self,
        record: Record,
        size: int,
        ticket: "Ticket | None",
        index: int,
        event_id: str | None,
    ) -> None:
        self.record = record
        self.size = size
        self.ticket = ticket
        self.index = index
        self.event_id = event_id

    @property
    def reserved(self) -> Reservation:
        """The reservation of one that suppression was asked about: then there is one."""
        assert self.reservation is not None
        return self.reservation

    def advance(self, stage: Stage) -> None:
        """Go to a stage. Raises ValueError where `NEXT` forbids.

        A move that is not in the table is a mistake of ours that would lose or double an event.
        """
        if not _ALLOWED[self.stage] >> stage & 1:
            raise ValueError(f"an event cannot go from {self.stage.name} to {stage.name}")
        self.stage = stage


def advance_all(batch: Iterable[Publish], stage: Stage) -> None:
    """The same for each event of a batch, without a call for each."""
    for publish in batch:
        if not _ALLOWED[publish.stage] >> stage & 1:
            raise ValueError(f"an event cannot go from {publish.stage.name} to {stage.name}")
        publish.stage = stage


class Ticket:
    """One request's events on their way: one countdown, however many events.

    It is open until every event has an outcome (`done`: then it is answered), and ends when the
    last of its publishes has: an event that was answered `unknown` may still be in a lane.
    outcomes: in request order, None while open.  publishes: those that are on their way, for the
    deadline; open_publishes: how many of them have not ended.  sizes: value bytes of each event,
    for the metrics.  waiter: told when all have an outcome.
    arrived: when its time began, monotonic seconds.  claimed_s: how long its Idempotency-Key had
    taken to be claimed by then.  attempt: what was claimed in Redis, None where nothing was.
    facts: its topic tells facts of one in so many of its events; 0 = of none.
    needs_offset: its answers name offsets, so none may be `spooled`.
    weighing: documents that are too large, by place: the front finds out where their bytes are.
    """

    __slots__ = (
        "arrived",
        "attempt",
        "body_bytes",
        "claimed_s",
        "done",
        "facts",
        "is_batch",
        "minimal",
        "needs_offset",
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
        self.claimed_s = 0.0
        self.body_bytes = 0
        self.facts = 0
        self.is_batch = False
        self.minimal = False
        self.needs_offset = False
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
        """Every event of the request gets an outcome."""
        self.outcomes = [None] * events
        self.sizes = [0] * events
        self.remaining = events

    def start(self, publishes: list[Publish]) -> None:
        """These are on their way; the others have their outcome."""
        self.publishes = publishes
        self.open_publishes = len(publishes)

    def put(self, index: int, outcome: Outcome) -> bool:
        """Record an outcome. True when it was the last one; a second one for an event is void."""
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def end(self, index: int, outcome: Outcome) -> bool:
        """One on its way has ended. As `put`, whose lines are here once more: it is called for
        every event."""
        self.open_publishes -= 1
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def leave_to_twin(self, publish: Publish) -> None:
        """It does not go on: it is answered as an equal event of the request, when that ends."""
        publish.advance(Stage.ENDED)
        self.open_publishes -= 1
        self.remaining -= 1

    def refuse(self, outcome: Outcome) -> None:
        """The request has failed as a whole: one outcome, whatever it came with."""
        self.is_batch = False
        self.outcomes = [outcome]
        self.sizes = [self.body_bytes]
        self.done = True

    def weigh(self, index: int, document: bytes) -> None:
        """Note a document that is too large."""
        if self.weighing is None:
            self.weighing = []
        self.weighing.append((index, document))

    def answered(self) -> list[Outcome]:
        """All outcomes; only when none is open any more."""
        return [outcome for outcome in self.outcomes if outcome is not None]
