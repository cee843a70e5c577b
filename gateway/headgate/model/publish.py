"""Events of a request on their way through the process, and the claims of its Idempotency-Key.

A publish is mutable on purpose: stages, suppression and lanes pass on the same object, so that a
batch of events costs one list and no further allocation.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final

import msgspec

from headgate.model.keys import partition_for
from headgate.model.outcome import Name, Outcome
from headgate.model.oversize import Large
from headgate.model.owner import RecordOwner
from headgate.model.record import Record
from headgate.model.route import Common
from headgate.model.suppression import Reservation
from headgate.model.topics import TopicState
from headgate.model.trace import Trace

# Claims of a request, and the outcomes that Redis remembers.


TOKEN_BYTES = 12
CLAIM, RENEW, DONE, PARTLY, RELEASE = b"c", b"r", b"d", b"p", b"x"
_OPERATION: Final = struct.Struct(">c16s12sd")


class Claim:
    """A claim of a name in Redis by one attempt.

    Args:
        name: The name of the entry in Redis.
        fingerprint: 16 bytes, a hash of the content.
        token: 12 bytes, unique to the attempt.
        keep_ms: The time for which Redis remembers the outcome, in milliseconds.
    """

    __slots__ = ("fingerprint", "keep_ms", "name", "token")

    def __init__(self, name: bytes, fingerprint: bytes, token: bytes, keep_ms: float) -> None:
        self.name: Final = name
        self.fingerprint: Final = fingerprint
        self.token: Final = token
        self.keep_ms: Final = keep_ms

    def operation(self, letter: bytes, remembered: bytes = b"") -> "ClaimStep":
        """Return a step of the Redis script for this claim."""
        packed = _OPERATION.pack(letter, self.fingerprint, self.token, self.keep_ms)
        return ClaimStep(self.name, packed + remembered)


class ClaimStep:
    """A step of the script: an entry's name, and the packed operation."""

    __slots__ = ("name", "packed")

    def __init__(self, name: bytes, packed: bytes) -> None:
        self.name: Final = name
        self.packed: Final = packed


def unpack_operation(packed: bytes) -> tuple[bytes, bytes, bytes, float, bytes]:
    """Return letter, fingerprint, token, keep_ms and the remembered outcomes."""
    return *_OPERATION.unpack_from(packed), packed[_OPERATION.size :]


FULL_BYTES = 262_144  # above it, only codes and positions are stored, not keys and ids
# Texts, because another version of the gateway may number the members of the enum differently.
_CODES = {name: name.value[:2] for name in Name}
_Row = tuple[int, str, int, int, bytes | None, str | None]
_decode = msgspec.msgpack.Decoder(list[_Row]).decode
_encode = msgspec.msgpack.Encoder().encode


def ended_well(outcome: Outcome) -> bool:
    """Return whether an event succeeded, so that its outcome is remembered."""
    return outcome.failure is None


def duplicate_of(first: Outcome) -> Outcome:
    """Return the outcome of a duplicate: the position of the first event."""
    return first.of(Name.DUPLICATE, first.event_id)


def pack_outcomes(outcomes: Iterable[tuple[int, Outcome]]) -> bytes:
    """Pack successful outcomes with their indexes in the request."""
    rows = [
        (index, _CODES[each.name], each.partition, each.offset, each.key, each.event_id)
        for index, each in outcomes
    ]
    packed = _encode(rows)
    if len(packed) <= FULL_BYTES:
        return packed
    return _encode([(*row[:4], None, None) for row in rows])


def unpack_outcomes(remembered: bytes) -> dict[int, Outcome]:
    """Return the remembered outcomes as duplicates, by index in the request."""
    return {row[0]: _duplicate(row) for row in _decode(remembered)} if remembered else {}


def _duplicate(row: _Row) -> Outcome:
    _, _, partition, offset, key, event_id = row
    return Outcome(Name.DUPLICATE, partition, offset, key, event_id)


class Attempt:
    """The claims of one request; it is mutable and belongs to the request's ticket.

    Attributes:
        request: The claim of the Idempotency-Key.
        known: The successful outcomes of earlier attempts with this key, by index in the request.
        events: The claims of event ids, by index.
        twins: The index of each event that equals an earlier event of the same request in id and
            content, and the index of that earlier event.
        bypassed: Whether Redis could not be asked about the Idempotency-Key.
        is_told: Whether the outcomes to remember were passed on.
    """

    __slots__ = ("_late", "bypassed", "events", "is_told", "known", "request", "twins")

    def __init__(self, request: Claim | None = None) -> None:
        self.request = request
        self.known: dict[int, Outcome] = {}
        self.events: dict[int, Claim] = {}
        self.twins: dict[int, int] = {}
        self.bypassed = self.is_told = False
        self._late: dict[int, Outcome] = {}

    def late(self, index: int, outcome: Outcome) -> None:
        """Record the late outcome of an event that was answered `unknown`."""
        self._late[index] = outcome

    def answer_twins(self, outcomes: list[Outcome | None]) -> None:
        """Give each twin the outcome of its earlier event; all other events have ended."""
        for index, first in self.twins.items():
            outcome = outcomes[first]
            if outcome is not None:
                outcomes[index] = _twin_of(outcome)

    def is_replay(self, outcomes: Sequence[Outcome | None]) -> bool:
        """Return whether earlier attempts provide the whole response."""
        if not self.known or len(self.known) != len(outcomes):
            return False
        first = outcomes[0]
        return (
            first is not None and first.failure is None
        )  # otherwise the request was refused as a whole

    def operations(self, outcomes: Sequence[Outcome | None]) -> Iterator[tuple[bytes, ClaimStep]]:
        """Yield the final steps of the script, each with the token of its claim.

        Call it when no outcome can change any more.
        """
        ended = [self._late.get(index, outcome) for index, outcome in enumerate(outcomes)]
        for index, claim in self.events.items():
            outcome = ended[index]
            if outcome is not None and ended_well(outcome):
                yield claim.token, claim.operation(DONE, pack_outcomes([(0, outcome)]))
            else:
                yield claim.token, claim.operation(RELEASE)
        if self.request is not None:
            if self._late:
                self.answer_twins(ended)
            yield self.request.token, _of_request(self.request, ended)


def _of_request(claim: Claim, ended: Sequence[Outcome | None]) -> ClaimStep:
    well = [
        (index, outcome)
        for index, outcome in enumerate(ended)
        if outcome is not None and ended_well(outcome)
    ]
    if not well:
        return claim.operation(RELEASE)
    letter = DONE if len(well) == len(ended) else PARTLY
    return claim.operation(letter, pack_outcomes(well))


def _twin_of(outcome: Outcome) -> Outcome:
    """Return a duplicate of the first outcome, or its failure."""
    return duplicate_of(outcome) if ended_well(outcome) else outcome


class Stage(IntEnum):
    """Stage of a publish. Order matters: events below HANDED are certainly not in Kafka."""

    NEW = 0
    QUEUED = 1  # its reservation is not sent yet
    RESERVING = 2  # its reservation is on the way to Redis
    LANE = 3  # in its lane, not handed to the producer
    HANDED = 4  # with the producer: Kafka decides the outcome
    STORING = 5  # on the way to disk (`spool`), from where it may reach Kafka
    ENDED = 6  # published, spooled, refused, unknown for good, unchanged or dropped


# The stages that may follow each stage. A lane may requeue an event that certainly was not sent. If
# Redis does not answer a reservation, the reservation waits again or the event goes on without it.
# An end may be recorded twice: once where it happens, once as the outcome. A spooled event never
# comes back as the same object.
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
)  # one bit for each stage


class Publish:
    """An event on its way to Kafka.

    Attributes:
        record: The record for Kafka. Its headers are completed when it is certain that it will be
            handed over, because most events of a state topic are unchanged.
        size: Upper bound of the record's bytes (`record.size_of`).
        ticket: The request that waits for the outcome.
        index: The event's index in its request.
        event_id: The event's own id; a CloudEvent's id is unique within its source.
        source: The source of a CloudEvent.
        common: The shared data of the request's events; None for events of the coalescer.
        owner: The listener for the outcome of an event without a request.
        spooled: Whether it goes to disk or is on disk, although a lane has it.
        dropped: Whether its deadline passed before the hand-over; then no lane may hand it over.
        large: Data for the oversize policy, about the event or one of its records.
        digest: The digest of its content, 16 bytes if the topic suppresses, else None.
        placed_by: The partition count that chose its partition, if it differs from the count of
            its route and reservation; else 0.
        placed: Whether its client chose the partition. Then its offset means nothing for its key,
            and its digest is empty.
        reservation: The state of suppression, once a reservation was requested.
        followers: Equal events of the same key that share this event's outcome.
        leader: The event whose outcome this event shares.
    """

    # Class defaults instead of slots: most of these never change, and setting all of them for
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
        """Return the reservation of an event that has one."""
        assert self.reservation is not None
        return self.reservation

    def advance(self, stage: Stage) -> None:
        """Go to a stage. Raises ValueError if `NEXT` forbids it.

        A forbidden transition is a bug that would lose or duplicate an event.
        """
        if not _ALLOWED[self.stage] >> stage & 1:
            raise ValueError(f"an event cannot go from {self.stage.name} to {stage.name}")
        self.stage = stage


def advance_all(batch: Iterable[Publish], stage: Stage) -> None:
    """Advance all events of a batch to a stage, without a call for each event."""
    for publish in batch:
        if not _ALLOWED[publish.stage] >> stage & 1:
            raise ValueError(f"an event cannot go from {publish.stage.name} to {stage.name}")
        publish.stage = stage


class Ticket:
    """The outcomes of one request's events, with one countdown for all of them.

    A ticket is open until every event has an outcome; then it is `done` and answered. It ends when
    its last publish ends, because an event that was answered `unknown` may still be in a lane.

    Attributes:
        outcomes: The outcomes in request order, None while open.
        publishes: The events on their way, for the deadline.
        open_publishes: The number of publishes that have not ended.
        sizes: The value bytes of each event, for the metrics.
        waiter: Callback for the time when all events have an outcome.
        arrived: The start of its time limit, in monotonic seconds.
        claimed_s: The seconds that the claim of its Idempotency-Key had taken by then.
        attempt: The claims in Redis; None if there are none.
        facts: Report the facts of one in this many events of the topic; 0 for none.
        needs_offset: Whether the response contains offsets, so that no event may be `spooled`.
        weighing: Documents that are too large, by index; the front finds their largest parts.
        trace: Its trace, if it is sampled.
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
        "trace",
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
        self.trace: Trace | None = None

    def expect(self, events: int) -> None:
        """Set the number of events that need an outcome."""
        self.outcomes = [None] * events
        self.sizes = [0] * events
        self.remaining = events

    def start(self, publishes: list[Publish]) -> None:
        """Set the events that are on their way; all others have their outcome already."""
        self.publishes = publishes
        self.open_publishes = len(publishes)

    def put(self, index: int, outcome: Outcome) -> bool:
        """Record an outcome, and return whether it was the last one; ignore a second one."""
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def end(self, index: int, outcome: Outcome) -> bool:
        """Record the outcome of a publish that ended, and return whether it was the last one.

        The lines of `put` are repeated here, because every event calls this.
        """
        self.open_publishes -= 1
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def leave_to_twin(self, publish: Publish) -> None:
        """End a publish that will share the outcome of an equal event of the request."""
        publish.advance(Stage.ENDED)
        self.open_publishes -= 1
        self.remaining -= 1

    def refuse(self, outcome: Outcome) -> None:
        """Refuse the request as a whole, with one outcome."""
        self.is_batch = False
        self.outcomes = [outcome]
        self.sizes = [self.body_bytes]
        self.done = True

    def weigh(self, index: int, document: bytes) -> None:
        """Remember a document that is too large."""
        if self.weighing is None:
            self.weighing = []
        self.weighing.append((index, document))

    def answered(self) -> list[Outcome]:
        """Return all outcomes; call it only when none is open."""
        return [outcome for outcome in self.outcomes if outcome is not None]


# Partition of an event that waited while its topic changed.
#
# A topic that was deleted and created again may have any partition count. The partition of an event
# is chosen by the count at its arrival. After each wait the count is checked again.


def count_of(publish: Publish) -> int:
    """Return the partition count that was used to choose the event's partition."""
    if publish.placed_by:
        return publish.placed_by
    if publish.reservation is not None and publish.reservation.partitions:
        return publish.reservation.partitions
    assert publish.common is not None  # the event belongs to a request
    return publish.common.route.lane.partitions


def place_again(publish: Publish, state: TopicState) -> bool:
    """Move the event to the current partition of its key.

    A partition that the client chose stays.

    Returns:
        Whether the partition count has changed since the event was placed.
    """
    count = state.partitions
    if count_of(publish) == count:
        return False
    record, reservation = publish.record, publish.reservation
    publish.placed_by = count
    if not publish.placed:
        record.partition = place(record.key, record.partition, count)
    if reservation is not None:
        if publish.digest is None:  # events without a reservation share this object
            publish.reservation = Reservation(reservation.scope, count)
        else:
            reservation.partitions = count
    return True


def place(key: bytes | None, partition: int, count: int) -> int:
    """Return the partition of a key; an event without a key stays if its partition exists."""
    return partition % count if key is None else partition_for(key, count)
