"""An event on its way through the process: decoded, as a publish, and in its request's ticket.

A publish is mutable on purpose: stages, suppression and lanes pass on the same object, so that a
batch of events costs one list and no further allocation.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headgate.model.keys import choose_partition
from headgate.model.outcome import Failure, Outcome, OutcomeName
from headgate.model.oversize import Large, StoredBlob
from headgate.model.owner import RecordOwner
from headgate.model.record import CONTENT_TYPE, Header
from headgate.model.request import RequestOptions
from headgate.model.route import Route
from headgate.model.suppression import Reservation
from headgate.model.topics import TopicState
from headgate.model.trace import Trace

# ---- decoded events, before any decision about them


SPREAD = -1  # a partition: any partition for events without a key, whatever `keyless` is


class RawEvent(NamedTuple):
    """One decoded event.

    Attributes:
        value: The exact bytes for Kafka; None is a tombstone.
        document: The JSON text for the topic's key pointers; None for opaque bytes.
        key: A key from outside the document.
        event_id: The id that the client gave the event.
        timestamp_ms: The event's own time, in milliseconds since 1970.
        content_type: The content type of the value.
        headers: Record headers of this event only.
        partition: The client's choice, or SPREAD; None applies the topic's rule.
        source: The source of a CloudEvent.
    """

    value: bytes | None
    document: bytes | None = None
    key: bytes | None = None
    event_id: str | None = None
    timestamp_ms: int | None = None
    content_type: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int | None = None
    source: str | None = None


Event = bytes | RawEvent | Failure


class Streamed(NamedTuple):
    """An event whose value is only in the blob store.

    Attributes:
        event: The event without its value.
        stored: The value in the blob store.
        digest: The digest of the value, if the topic suppresses.
    """

    event: RawEvent
    stored: StoredBlob
    digest: bytes | None = None


# ---- events with a record of their own


class Record:
    """A Kafka record. A value of None is a tombstone.

    This is a class and not a tuple, because fields of a compiled class are faster to read.

    Attributes:
        timestamp_ms: Milliseconds since 1970. After the acknowledgement it is the timestamp in the
            log, or -1 if Kafka overwrites timestamps and did not return the new one.
        headers: At first only the event's own headers, later all. The list is replaced and never
            changed in place, so events may share it.
        partition: It changes if the topic grows before the record is in its lane.
    """

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        timestamp_ms: int,
    ) -> None:
        self.topic: Final = topic
        self.partition = partition
        self.key: Final = key
        self.value: Final = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms


def content_type_of(headers: Sequence[Header]) -> bytes | None:
    """Return the content type of a record, which is its first header if it has one."""
    return headers[0][1] if headers and headers[0][0] == CONTENT_TYPE else None


class Common:
    """The shared data of a request's events.

    Args:
        route: The topic's rules at the request's arrival.
        key: The key of the request, which has one event only.
        timestamp_ms: The timestamp of the request, in milliseconds since 1970.
        tombstone: Whether the event is a tombstone.
        request_number: The request's number in its topic; events without a key go to the partition
            of this number, modulo the partition count.
        headers: Record headers of every event.
        now_ms: The time of arrival, in milliseconds since 1970.
        force: Whether to publish unchanged events, too.
        trace: Trace of the request, if it is sampled.
    """

    def __init__(
        self,
        route: Route,
        key: bytes | None,
        timestamp_ms: int | None,
        tombstone: bool,
        request_number: int,
        headers: list[Header],
        now_ms: int,
        force: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.route: Final = route
        self.trace: Final = trace
        self.force: Final = force
        self.key: Final = key
        self.timestamp_ms: Final = timestamp_ms
        self.tombstone: Final = tombstone
        self.request_number: Final = request_number
        self.headers: Final = headers
        self.now_ms: Final = now_ms


class Stage(IntEnum):
    """Stage of a publish. Order matters: events below HANDED are certainly not in Kafka."""

    NEW = 0  # its id is claimed or its content examined, or it waits for the end of the turn
    QUEUED = 1  # its reservation is not sent yet
    RESERVING = 2  # its reservation is on the way to Redis
    LANE = 3  # in the oversize stage or in its lane, not handed to the producer
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
        digest: The digest of its content, 16 bytes if the topic suppresses, else None. It is empty
            if the content is not compared: the event is published, and clears its key's digest.
        placed_count: The partition count that chose its partition, if it differs from the count of
            its route and reservation; else 0.
        is_client_placed: Whether its client chose the partition. Then its offset means nothing for
            its key, and its digest is empty.
        reservation: The state of suppression, once a reservation was requested.
        followers: Equal events of the same key that share this event's outcome.
        leader: The event whose outcome this event shares.
    """

    # Class defaults instead of slots: most of these never change, and setting all of them for
    # every event would cost more than the rest of its construction.
    stage: Stage = Stage.NEW
    digest: bytes | None = None
    is_client_placed: bool = False
    placed_count: int = 0
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


# ---- the request of the events, and its claims in Redis


class Claim:
    """A claim of a name in Redis by one attempt (`idempotency`).

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


class Attempt:
    """The claims of one request; it is mutable and belongs to the request's ticket.

    Attributes:
        request: The claim of the Idempotency-Key.
        known: The successful outcomes of earlier attempts with this key, by index in the request.
        events: The claims of event ids, by index.
        repeats: The index of each event that equals an earlier event of the same request in id and
            content, and the index of that earlier event.
        late: The outcomes of events that were answered `unknown` before, by index.
        bypassed: Whether Redis could not be asked about the Idempotency-Key.
        is_told: Whether the outcomes to remember were passed on.
    """

    def __init__(self, request: Claim | None = None) -> None:
        self.request = request
        self.known: dict[int, Outcome] = {}
        self.events: dict[int, Claim] = {}
        self.repeats: dict[int, int] = {}
        self.late: dict[int, Outcome] = {}
        self.bypassed = self.is_told = False

    def answer_repeats(self, outcomes: list[Outcome | None]) -> None:
        """Answer each repeat as a duplicate of its earlier event, or with that event's failure.

        All other events have ended.
        """
        for index, first in self.repeats.items():
            outcome = outcomes[first]
            if outcome is not None and outcome.failure is None:
                outcome = outcome.of(OutcomeName.DUPLICATE, outcome.event_id)
            if outcome is not None:
                outcomes[index] = outcome


_NO_HEADERS: Final[Mapping[bytes, bytes]] = {}


class Ticket:
    """One request, and the outcomes of its events, with one countdown for all of them.

    A ticket is open until every event has an outcome; then it is `done` and answered. It ends when
    its last publish ends, because an event that was answered `unknown` may still be in a lane.

    Args:
        topic: Topic that the client named.
        producer: Authenticated producer.
        request_id: Id of the request.
        arrived: Monotonic time at which the request was complete, in seconds.
        headers: Headers, as raw bytes; names in lower case.
        body: Decompressed body; its length was admitted. It is dropped when it was decoded.
        streamed: Its one event, if the value went to the blob store; the body is then empty.
        may_post: Returns whether the caller may write to a topic, for suggestions. None: no
            suggestions.
        trace: Its trace, if it is sampled.
        options: Its options, if the front knows them.

    Attributes:
        outcomes: The outcomes in request order, None while open.
        publishes: The events on their way; all others have their outcome already.
        open_publishes: The number of publishes that have not ended.
        sizes: The value bytes of each event, for the metrics.
        waiter: Called once when all events have an outcome.
        arrived: The start of its time limit, in monotonic seconds.
        claimed_s: The seconds that the claim of its Idempotency-Key had taken by then.
        attempt: The claims in Redis; None if there are none.
        facts: Report the facts of one in this many events of the topic; 0 for none.
        needs_offset: Whether the response contains offsets, so that no event may be `spooled`.
        weighing: Documents that are too large, by index; the front finds their largest parts.
    """

    def __init__(
        self,
        topic: str,
        producer: str,
        request_id: str,
        arrived: float,
        headers: Mapping[bytes, bytes] = _NO_HEADERS,
        body: bytes = b"",
        streamed: Streamed | None = None,
        may_post: Callable[[str], bool] | None = None,
        trace: Trace | None = None,
        options: RequestOptions | None = None,
    ) -> None:
        self.headers: Final = headers
        self.body = body
        self.streamed: Final = streamed
        self.may_post: Final = may_post
        self.options: Final = options
        self.topic = topic
        self.producer = producer
        self.request_id = request_id
        self.arrived = arrived
        self.claimed_s = 0.0
        self.body_bytes: Final = len(body)
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
        self.trace: Final = trace

    def put(self, index: int, outcome: Outcome) -> bool:
        """Record an outcome, and return whether it was the last one; ignore a second one."""
        if self.outcomes[index] is not None:
            return False
        self.outcomes[index] = outcome
        self.remaining -= 1
        return self.remaining == 0

    def end(self, index: int, outcome: Outcome) -> bool:
        """Record the outcome of a publish that ended, and return whether it was the last one."""
        self.open_publishes -= 1
        return self.put(index, outcome)

    def leave_to_twin(self, publish: Publish) -> None:
        """End a publish that will share the outcome of an equal event of the request."""
        publish.advance(Stage.ENDED)
        self.open_publishes -= 1
        self.remaining -= 1

    def refuse_request(self, outcome: Outcome) -> None:
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


# ---- partition of an event that waited while its topic changed
#
# A topic that was deleted and created again may have any partition count. The partition of an event
# is chosen by the count at its arrival. After each wait the count is checked again.


def count_of(publish: Publish) -> int:
    """Return the partition count that was used to choose the event's partition."""
    if publish.placed_count:
        return publish.placed_count
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
    publish.placed_count = count
    if not publish.is_client_placed:
        record.partition = choose_partition(record.key, record.partition, count)
    if reservation is not None:
        if publish.digest is None:  # events without a reservation share this object
            publish.reservation = Reservation(reservation.scope, count)
        else:
            reservation.partitions = count
    return True
