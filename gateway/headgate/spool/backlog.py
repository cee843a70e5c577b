"""Backlogs: the spooled events of each lane, and the place of each part.

The spooled events of a lane are in these places, from the oldest to the newest:

    in the lane again    on their way to Kafka: a `DrainUnit` that is drained, or a `DualWrite`
    on disk              `left` events, in chunks that were not read yet
    on their way to disk `writing`, with the current commit, and `waiting`, for the next one
    at the gate          new events that wait in memory while the last of the others go to Kafka

A new event goes to its lane only when the backlog is empty and the journal has deleted all of it.
So a crash never repeats an event behind a later event of its key. Without the gate a backlog would
never end: each event that is stored behind it keeps it alive.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headgate.backends.base import Suppression
from headgate.model.keys import choose_partition
from headgate.model.outcome import Failure, Outcome
from headgate.model.publish import Publish
from headgate.model.suppression import Scope
from headgate.spool.database import Packed
from headgate.spool.reading import LaneFigures

MAX_EVENTS: Final = 500  # of a chunk, and of one read
MAX_BYTES: Final = 1_048_576


class DualWrite:
    """Events that the producer had when they were spooled: Kafka may acknowledge them, too.

    Their chunk is not read before the result of each event is known.

    Args:
        publishes: The events.

    Attributes:
        number: Number of the chunk, once it is on disk.
        count: Number of events.
        open: Events without a result, each with its index in the chunk.
        failed: Failures of events that ended without acknowledgement before they were on disk.
        landed: Indexes of the events that Kafka acknowledged.
        must_repeat: Some events must be published (again).
        size: Bytes of the chunk.
        placed_by: Partition count of the chunk.
    """

    __slots__ = ("count", "failed", "landed", "must_repeat", "number", "open", "placed_by", "size")

    def __init__(self, publishes: list[Publish]) -> None:
        self.number: int | None = None
        self.count = len(publishes)
        self.size = self.placed_by = 0
        self.open = {publish: index for index, publish in enumerate(publishes)}
        self.landed: set[int] = set()
        self.failed: dict[Publish, Failure] = {}
        self.must_repeat = False


class Waiting:
    """Events for one chunk of the next commit.

    Args:
        publishes: The events.
        partitions: Partition count that the events were placed by.
        dual_write: Their dual write if the producer has them, too.
        failure: Their failure in the lane, which is their result if the disk does not take them.
    """

    __slots__ = ("bytes", "dual_write", "failure", "partitions", "publishes")

    def __init__(
        self,
        publishes: list[Publish],
        partitions: int,
        dual_write: DualWrite | None = None,
        failure: Failure | None = None,
    ) -> None:
        self.publishes = publishes
        self.bytes = sum([publish.size for publish in publishes])
        self.partitions = partitions
        self.dual_write = dual_write
        self.failure = failure

    @property
    def is_open(self) -> bool:
        """Return whether the chunk takes more events."""
        if self.dual_write is not None or self.failure is not None:
            return False
        return len(self.publishes) < MAX_EVENTS and self.bytes < MAX_BYTES


class Backlog:
    """The backlog of one lane.

    Args:
        topic: Topic of the lane.
        partition: Partition of the lane.
        topic_counts: See the attribute.

    Attributes:
        left: Events on disk that were not read yet.
        events: All events on disk.
        bytes: Bytes of all events on disk.
        oldest_ms: Time of the oldest event on disk, or somewhat earlier (milliseconds since 1970).
        last_read: Number of the newest chunk that was read.
        unit: Events that are drained now.
        counts: Number of events by the partition count that they were placed by, in the order of
            placing. An event counts from its wait for the disk until the journal has deleted it.
        topic_counts: The same for all lanes of the topic.
        landed: Indexes of events in unread chunks that must not be published again.
        ended: Chunks that must not be published again, until the next successful commit.
        waiting: Events for the next commit.
        writing: Events of the current commit.
        dual_writes: Events that the producer has, too.
        is_watched: Events of the backlog are in the lane, which may be slow.
        gate: New events that wait in memory, as the module describes.
        is_flowing: Kafka acknowledged the events that were drained last.
        forgetting: Number of published chunks that the journal still has.
    """

    def __init__(self, topic: str, partition: int, topic_counts: dict[int, int]) -> None:
        self.topic = topic
        self.partition = partition
        self.left = self.events = self.bytes = self.oldest_ms = 0
        self.last_read = 0
        self.counts: dict[int, int] = {}
        self.topic_counts = topic_counts
        self.landed: dict[int, set[int]] = {}
        self.ended: set[int] = set()
        self.waiting: deque[Waiting] = deque()
        self.writing: list[Waiting] = []
        self.unit: DrainUnit | None = None
        self.dual_writes: list[DualWrite] = []
        self.is_watched = self.is_flowing = False
        self.gate: deque[Publish] = deque()
        self.forgetting = 0

    @property
    def is_behind(self) -> bool:
        """Return whether the next event must not go to the lane."""
        return bool(
            self.waiting
            or self.writing
            or self.left
            or self.dual_writes
            or self.unit is not None
            or self.forgetting
        )

    @property
    def is_closing(self) -> bool:
        """Return whether the last events go to Kafka, so that the next event may wait in memory."""
        if (
            not self.is_flowing
            or self.dual_writes
            or (self.unit is not None and self.unit.is_stuck)
        ):
            return False
        coming = sum([len(chunk.publishes) for chunk in (*self.waiting, *self.writing)])
        return self.left + coming <= MAX_EVENTS

    def is_due(self, partitions: int) -> bool:
        """Return whether events that were placed by this partition count may go to Kafka.

        Events of all lanes that were placed by an earlier count go first.
        """
        for count, events in self.topic_counts.items():
            if count == partitions:
                return True
            if events != self.counts.get(count, 0):
                return False
        return True

    def age_of(self, partitions: int) -> int:
        """Return the number of earlier partition counts that the topic still has events of."""
        return list(self.topic_counts).index(partitions)

    @property
    def is_empty(self) -> bool:
        """Return whether no event is on disk, on its way there, or at the gate."""
        return not (self.is_behind or self.gate)

    def add(self, publish: Publish, partitions: int) -> None:
        """Add an event to the next commit, behind the waiting events."""
        last = self.waiting[-1] if self.waiting else None
        if last is None or not last.is_open or last.partitions != partitions:
            last = Waiting([], partitions)
            self.waiting.append(last)
        last.publishes.append(publish)
        last.bytes += publish.size
        self.count(partitions, 1)

    def take(self, waiting: Waiting, *, first: bool = False) -> None:
        """Add a chunk to the next commit.

        Args:
            waiting: Events of the chunk.
            first: Put the chunk before the waiting events, not behind them.
        """
        if first:
            self.waiting.appendleft(waiting)
        else:
            self.waiting.append(waiting)
        self.count(waiting.partitions, len(waiting.publishes))

    def count(self, partitions: int, events: int) -> None:
        """Adjust the number of events of a partition count.

        Args:
            partitions: Partition count that the events were placed by.
            events: Number to add; negative if there are fewer.
        """
        for counts in (self.counts, self.topic_counts):
            rest = counts.get(partitions, 0) + events
            if rest:
                counts[partitions] = rest
            else:
                del counts[partitions]

    def stored(self, count: int, size: int, at_ms: int) -> None:
        """Count a chunk that is on disk.

        Args:
            count: Number of its events.
            size: Bytes of the chunk.
            at_ms: Time of spooling, in milliseconds since 1970.
        """
        if not self.events:
            self.oldest_ms = at_ms
        self.events += count
        self.bytes += size

    def done(self, count: int, size: int, at_ms: int) -> None:
        """Subtract a chunk that is no longer needed on disk.

        Args:
            count: Number of its events.
            size: Bytes of the chunk.
            at_ms: Time of spooling, in milliseconds since 1970; 0 if unknown.
        """
        self.events -= count
        self.bytes -= size
        self.oldest_ms = max(self.oldest_ms, at_ms) if self.events else 0

    def next_dual_write(self) -> int | None:
        """Return the number of the oldest chunk that must not be read yet; None if none is."""
        numbers = (each.number for each in self.dual_writes)
        return min((number for number in numbers if number is not None), default=None)


class DrainEvent:
    """An event on its way back to Kafka.

    Attributes:
        is_repeat: Whether its last result is unknown.
    """

    __slots__ = ("event", "is_repeat")

    def __init__(self, event: Packed) -> None:
        self.event = event
        self.is_repeat = False


class DrainUnit:
    """Events of one read that are published now: the owner of their records.

    Args:
        backlog: Backlog of the events.
        chunks: Number, events and bytes of each chunk, for its deletion after the last event.
        events: The events.
        placed_by: Partition count that the events were placed by.
        at_ms: Time of the oldest event's spooling, in milliseconds since 1970.
        ended: Called with the unit, an event's index and its outcome.

    Attributes:
        rows: Events without an end, by index, in order.
        open: Their records in the lane.
        put_s: Monotonic time when the records went to the lane, in seconds.
    """

    def __init__(
        self,
        backlog: Backlog,
        chunks: list[tuple[int, int, int]],
        events: list[Packed],
        placed_by: int,
        at_ms: int,
        ended: Callable[["DrainUnit", int, Outcome], None],
    ) -> None:
        self.backlog = backlog
        self.chunks = chunks
        self.placed_by = placed_by
        self.at_ms = at_ms
        self.rows: dict[int, DrainEvent] = {
            at: DrainEvent(event) for at, event in enumerate(events)
        }
        self.open: dict[Publish, int] = {}
        self.put_s = 0.0
        self._ended = ended

    @property
    def is_stuck(self) -> bool:
        """Return whether some events are not in the lane."""
        return len(self.open) < len(self.rows)

    def ended(self, publish: Publish, outcome: Outcome) -> None:
        """Pass on the end of a record (`model.owner.RecordOwner`)."""
        at = self.open.pop(publish, None)
        if at is not None:
            self._ended(self, at, outcome)

    def withdrawn(self, publish: Publish) -> None:
        """Note that a record was withdrawn from the lane before the producer had it."""
        self.open.pop(publish, None)


def on_its_way_since(head: Publish, now_s: float) -> float:
    """Return the time since which a record has been on its way to Kafka (monotonic seconds)."""
    if isinstance(head.owner, DrainUnit):
        return head.owner.put_s
    return now_s if head.ticket is None else head.ticket.arrived


# ---- the backlogs of all lanes, and the announcement of their topics
#
# While a topic has spooled events, no event of it may be `unchanged`, here or at any other gateway:
# the spooled events are written later, and are newer than the state in Redis. So the gateway
# announces the topic as one without suppression (docs/design/suppression-protocol.md), from before
# its first `spooled` response until the end of its last spooled event.


class Backlogs:
    """The backlogs of all lanes.

    Args:
        suppression: Returns the suppression state, which announces topics with spooled events.
        scope_of: Returns a topic's active namespace.

    Attributes:
        topics: Topics with spooled events, each with its namespace if that is known.
    """

    def __init__(
        self,
        suppression: Callable[[], Suppression],
        scope_of: Callable[[str], Scope | None],
    ) -> None:
        self._all: dict[tuple[str, int], Backlog] = {}  # in the order of their turns
        self._counts: dict[str, dict[int, int]] = {}
        self.topics: dict[str, Scope | None] = {}
        self.suppression = suppression
        self.scope_of = scope_of

    def __iter__(self) -> Iterator[Backlog]:
        return iter(list(self._all.values()))  # the loop may release an event that adds a backlog

    def of(self, topic: str, partition: int) -> Backlog:
        """Return the lane's backlog, created if necessary."""
        backlog = self._all.get((topic, partition))
        if backlog is None:
            counts = self._counts.setdefault(topic, {})
            backlog = self._all[topic, partition] = Backlog(topic, partition, counts)
        return backlog

    def restore(self, lanes: Sequence[LaneFigures]) -> None:
        """Add the events on disk from an earlier run."""
        placed = list[tuple[int, int, int, Backlog]]()
        for lane in lanes:
            self.begin(lane.topic)
            backlog = self.of(lane.topic, lane.partition)
            backlog.left += lane.events
            backlog.stored(lane.events, lane.bytes, lane.oldest_ms)
            placed += [
                (chunks.first, partitions, chunks.events, backlog)
                for partitions, chunks in lane.partitions.items()
            ]
        for _, partitions, events, backlog in sorted(placed, key=lambda row: row[0]):
            backlog.count(partitions, events)

    def backlog_behind(
        self, backlog: Backlog, key: bytes | None, partitions: int
    ) -> tuple[Backlog, int]:
        """Return the backlog that puts a new event behind all spooled events of its key.

        If a topic has an earlier partition count again, the event goes with the events that were
        spooled last, by their count.

        Args:
            backlog: Backlog of the event's lane.
            key: Key of the event.
            partitions: Partition count that the event was placed by.

        Returns:
            The backlog, and the partition count that the event is placed by there.
        """
        last = next(reversed(backlog.topic_counts), partitions)
        if last == partitions or partitions not in backlog.topic_counts:
            return backlog, partitions
        return self.of(backlog.topic, choose_partition(key, backlog.partition, last)), last

    def move_last(self, backlog: Backlog) -> None:
        """Move a backlog behind all others after its turn."""
        lane = (backlog.topic, backlog.partition)
        self._all[lane] = self._all.pop(lane)

    def get(self, topic: str, partition: int) -> Backlog | None:
        """Return the lane's backlog, if there is one."""
        return self._all.get((topic, partition))

    def is_behind(self, topic: str) -> bool:
        """Return whether the topic has spooled events."""
        return topic in self.topics

    def must_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Return whether the lane's next event must wait behind spooled events.

        If the topic's size has changed, earlier events of a key may be in another lane's backlog.

        Args:
            backlog: Backlog of the lane.
            partitions: Partition count that the event was placed by.
        """
        if backlog.topic not in self.topics:
            return False
        if backlog.is_behind:
            return True
        return any(count != partitions for count in backlog.topic_counts)

    def may_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Return whether that event may wait in memory for its turn."""
        return backlog.is_closing and backlog.topic_counts.keys() <= {partitions}

    def begin(self, topic: str) -> None:
        """Note that events of the topic go to disk now."""
        if topic not in self.topics:
            self.topics[topic] = None
            self._hold(topic)

    def tidy(self) -> None:
        """Remove empty backlogs, and release topics without any. Call it at intervals."""
        spooled = {backlog.topic for backlog in self if not backlog.is_empty}
        for topic in self.topics.keys() - spooled:
            scope = self.topics.pop(topic)
            if scope is not None:
                self.suppression().release(scope)
        for topic, scope in self.topics.items():
            if scope is None:  # its topic was not known yet
                self._hold(topic)
        for backlog in [backlog for backlog in self if backlog.is_empty and not backlog.is_watched]:
            del self._all[backlog.topic, backlog.partition]

    def _hold(self, topic: str) -> None:
        scope = self.scope_of(topic)
        if scope is not None:
            self.suppression().hold(scope)
            self.topics[topic] = scope
