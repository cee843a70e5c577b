"""What of one lane lies on disk, and where each part of it is.

Events of a lane that were spooled are, from the oldest to the newest:

    in the lane again    on their way to Kafka: a `Unit` that is drained, or a `Seam`
    on disk              `left` of them, in chunks that were not read yet
    on their way there   `waiting`, for the next commit, and `writing`, with this one
    at the gate          while the last of these go to Kafka, new ones wait in memory

An event goes to its lane only when nothing of these is left and the journal has forgotten all of
it: so nothing is repeated after a crash behind a later event of its key. The gate is for that, and
because a backlog would never come to an end otherwise: as long as events are put behind it, there
is something behind them.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from headgate.backends.base import Suppression
from headgate.core.keys import partition_for
from headgate.core.outcome import Failure, Outcome
from headgate.core.publish import Publish
from headgate.core.suppression import Scope
from headgate.spool.database import Packed
from headgate.spool.reading import LaneFigures

MAX_EVENTS: Final = 500  # of a chunk, and of what is read at a time
MAX_BYTES: Final = 1_048_576


class Seam:
    """Events that the producer had when they were spooled: they may land, and be drained as well.

    Their chunk is not read before Kafka, or the end of the producer, has said what became of them.

    number: of the chunk, once it is on disk.  open: those whose end is not known, and the place of
    each in the chunk.  failed: those that ended without acknowledgement before they were on disk,
    and how.  landed: the places of those that Kafka acknowledged.
    again: some must be published (again).  size, placed_by: of the chunk: bytes, partition count.
    """

    __slots__ = ("again", "count", "failed", "landed", "number", "open", "placed_by", "size")

    def __init__(self, publishes: list[Publish]) -> None:
        self.number: int | None = None
        self.count = len(publishes)
        self.size = self.placed_by = 0
        self.open = {publish: place for place, publish in enumerate(publishes)}
        self.landed: set[int] = set()
        self.failed: dict[Publish, Failure] = {}
        self.again = False


class Waiting:
    """What goes into one chunk with the next commit.

    partitions: the count that the events were placed by.  seam: where the producer has them, too.
    failure: how they ended in the lane; it is their answer if they do not come to lie on disk.
    """

    __slots__ = ("bytes", "failure", "partitions", "publishes", "seam")

    def __init__(
        self,
        publishes: list[Publish],
        partitions: int,
        seam: Seam | None = None,
        failure: Failure | None = None,
    ) -> None:
        self.publishes = publishes
        self.bytes = sum([one.size for one in publishes])
        self.partitions = partitions
        self.seam = seam
        self.failure = failure

    @property
    def is_open(self) -> bool:
        """Whether more may go into it."""
        if self.seam is not None or self.failure is not None:
            return False
        return len(self.publishes) < MAX_EVENTS and self.bytes < MAX_BYTES


class Backlog:
    """One lane's.

    left: events on disk that were not read yet.  events, bytes: all of its that are on disk.
    oldest_ms: when the oldest of them was spooled, or somewhat earlier.
    last_read: the number of the newest chunk that was read.  unit: what is drained now.
    counts: its events, from when they wait for the disk until it has forgotten them, by the
    partition count that they were placed by, what was placed first comes first.  topic_counts: the
    same of all of the topic's.
    landed: what of chunks that were not read yet must not be published again.  ended: the same of
    whole chunks; they are forgotten with the next commit that the disk takes.
    is_watched: events of it are in the lane, which may be slow.
    gate: see the module.  flows: what was drained last was acknowledged.  forgetting: chunks whose
    events have ended well and that the journal still has.
    """

    __slots__ = (
        "bytes",
        "counts",
        "ended",
        "events",
        "flows",
        "forgetting",
        "gate",
        "is_watched",
        "landed",
        "last_read",
        "left",
        "oldest_ms",
        "partition",
        "seams",
        "topic",
        "topic_counts",
        "unit",
        "waiting",
        "writing",
    )

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
        self.unit: Unit | None = None
        self.seams: list[Seam] = []
        self.is_watched = self.flows = False
        self.gate: deque[Publish] = deque()
        self.forgetting = 0

    @property
    def is_behind(self) -> bool:
        """Whether what comes next must not go to the lane."""
        return bool(
            self.waiting
            or self.writing
            or self.left
            or self.seams
            or self.unit is not None
            or self.forgetting
        )

    @property
    def is_closing(self) -> bool:
        """Whether the last of it goes to Kafka, so that what comes next may wait for that."""
        if not self.flows or self.seams or (self.unit is not None and self.unit.is_stuck):
            return False
        coming = sum([len(one.publishes) for one in (*self.waiting, *self.writing)])
        return self.left + coming <= MAX_EVENTS

    def is_due(self, partitions: int) -> bool:
        """Whether what was placed by this count may go: what other lanes have of the topic that
        was placed by an earlier count comes before."""
        for count, events in self.topic_counts.items():
            if count == partitions:
                return True
            if events != self.counts.get(count, 0):
                return False
        return True

    def age_of(self, partitions: int) -> int:
        """How many other counts the topic has events of that were placed before this one's."""
        return list(self.topic_counts).index(partitions)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is on disk, goes there, or waits at the gate."""
        return not (self.is_behind or self.gate)

    def add(self, publish: Publish, partitions: int) -> None:
        """One more for the next commit, behind what waits."""
        last = self.waiting[-1] if self.waiting else None
        if last is None or not last.is_open or last.partitions != partitions:
            last = Waiting([], partitions)
            self.waiting.append(last)
        last.publishes.append(publish)
        last.bytes += publish.size
        self.count(partitions, 1)

    def take(self, waiting: Waiting, *, first: bool = False) -> None:
        """A chunk of its own for the next commit, behind what waits, or before it."""
        if first:
            self.waiting.appendleft(waiting)
        else:
            self.waiting.append(waiting)
        self.count(waiting.partitions, len(waiting.publishes))

    def count(self, partitions: int, events: int) -> None:
        """So many more (or fewer) that were placed by this partition count."""
        for counts in (self.counts, self.topic_counts):
            rest = counts.get(partitions, 0) + events
            if rest:
                counts[partitions] = rest
            else:
                del counts[partitions]

    def stored(self, count: int, size: int, at_ms: int) -> None:
        """A chunk of it is on disk."""
        if not self.events:
            self.oldest_ms = at_ms
        self.events += count
        self.bytes += size

    def done(self, count: int, size: int, at_ms: int) -> None:
        """A chunk of it, spooled at that time, is no longer needed there."""
        self.events -= count
        self.bytes -= size
        self.oldest_ms = max(self.oldest_ms, at_ms) if self.events else 0

    def next_seam(self) -> int | None:
        """The number of the oldest chunk that may not be read yet."""
        return min((one.number for one in self.seams if one.number is not None), default=None)


class Row:
    """An event that was read, on its way back to Kafka."""

    __slots__ = ("event", "is_repeat")

    def __init__(self, event: Packed) -> None:
        self.event = event
        self.is_repeat = False


class Unit:
    """What was read at a time and is published now. Owns the records: hears how each ends.

    chunks: number, events and bytes of each of them; they are forgotten when all have ended well.
    placed_by: the partition count.  at_ms: when the oldest was spooled.
    rows: those that did not end yet, in order.  open: their records in the lane.  put_s: since
    when, monotonic.
    """

    def __init__(
        self,
        backlog: Backlog,
        chunks: list[tuple[int, int, int]],
        events: list[Packed],
        partitions: int,
        at_ms: int,
        ended: Callable[["Unit", int, Outcome], None],
    ) -> None:
        self.backlog = backlog
        self.chunks = chunks
        self.placed_by = partitions
        self.at_ms = at_ms
        self.rows: dict[int, Row] = {at: Row(event) for at, event in enumerate(events)}
        self.open: dict[Publish, int] = {}
        self.put_s = 0.0
        self._ended = ended

    @property
    def is_stuck(self) -> bool:
        """Whether some of it is not in the lane."""
        return len(self.open) < len(self.rows)

    def ended(self, publish: Publish, outcome: Outcome) -> None:
        """See `core.owner.RecordOwner`."""
        at = self.open.pop(publish, None)
        if at is not None:
            self._ended(self, at, outcome)

    def withdrawn(self, publish: Publish) -> None:
        """It was taken out of the lane before it was handed over."""
        self.open.pop(publish, None)


def since(head: Publish, now_s: float) -> float:
    """Since when (monotonic seconds) it has been on its way to Kafka."""
    if isinstance(head.owner, Unit):
        return head.owner.put_s
    return now_s if head.ticket is None else head.ticket.arrived


# The backlogs of all lanes, by topic; and whose topics others must know of.
#
# While anything of a topic is spooled, no event of it may be `unchanged`, here or at any other
# gateway: what lies on disk will be written later, and is newer than what Redis knows. So the topic
# goes as one that suppresses nothing: announced (docs/design/suppression-protocol.md), from before
# its first event is answered `spooled` until its last one has ended.


class Backlogs:
    """topics: those of which anything is spooled, or goes to disk."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, int], Backlog] = {}  # whose turn it is comes first
        self._counts: dict[str, dict[int, int]] = {}
        self._held: dict[str, Scope | None] = {}
        self._suppression: Suppression | None = None
        self._scope_of: Callable[[str], Scope | None] = lambda topic: None

    def announce_with(
        self, suppression: Suppression, scope_of: Callable[[str], Scope | None]
    ) -> None:
        """scope_of: a topic's namespace in force."""
        self._suppression, self._scope_of = suppression, scope_of
        for topic in self._held:
            self._hold(topic)

    def scope_of(self, topic: str) -> Scope | None:
        """The topic's namespace in force."""
        return self._scope_of(topic)

    def __iter__(self) -> Iterator[Backlog]:
        return iter(list(self._all.values()))  # an end may let an event go on that makes another

    def of(self, topic: str, partition: int) -> Backlog:
        """The lane's, made if need be."""
        backlog = self._all.get((topic, partition))
        if backlog is None:
            counts = self._counts.setdefault(topic, {})
            backlog = self._all[topic, partition] = Backlog(topic, partition, counts)
        return backlog

    def found(self, lanes: Sequence[LaneFigures]) -> None:
        """This lies on disk since an earlier run."""
        placed = list[tuple[int, int, int, Backlog]]()
        for one in lanes:
            self.begin(one.topic)
            backlog = self.of(one.topic, one.partition)
            backlog.left += one.events
            backlog.stored(one.events, one.bytes, one.oldest_ms)
            placed += [
                (some.first, partitions, some.events, backlog)
                for partitions, some in one.partitions.items()
            ]
        for _, partitions, events, backlog in sorted(placed, key=lambda some: some[0]):
            backlog.count(partitions, events)

    def behind(self, backlog: Backlog, key: bytes | None, partitions: int) -> tuple[Backlog, int]:
        """Where an event that comes now goes behind all that is spooled of its key, and the
        partition count that it is then placed by.

        Where a topic has again the count of what was spooled first, and what was spooled last has
        another, it goes with the latter.
        """
        last = next(reversed(backlog.topic_counts), partitions)
        if last == partitions or partitions not in backlog.topic_counts:
            return backlog, partitions
        partition = backlog.partition % last if key is None else partition_for(key, last)
        return self.of(backlog.topic, partition), last

    def had_its_turn(self, backlog: Backlog) -> None:
        """All others come before it."""
        place = (backlog.topic, backlog.partition)
        self._all[place] = self._all.pop(place)

    def get(self, topic: str, partition: int) -> Backlog | None:
        """The lane's, if there is one."""
        return self._all.get((topic, partition))

    @property
    def topics(self) -> dict[str, Scope | None]:
        """See the class."""
        return self._held

    def is_behind(self, topic: str) -> bool:
        """Whether anything of the topic is spooled."""
        return topic in self._held

    def must_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Whether the lane's next event, placed by this partition count, has to go behind.

        Where a topic has another size since, a key's earlier events may lie in another lane's
        backlog.
        """
        if backlog.topic not in self._held:
            return False
        if backlog.is_behind:
            return True
        return any(count != partitions for count in backlog.topic_counts)

    def may_wait(self, backlog: Backlog, partitions: int) -> bool:
        """Whether that event may wait in memory for its turn."""
        return backlog.is_closing and backlog.topic_counts.keys() <= {partitions}

    def begin(self, topic: str) -> None:
        """Something of it goes to disk now."""
        if topic not in self._held:
            self._held[topic] = None
            self._hold(topic)

    def tidy(self) -> None:
        """Let go of what is empty. Call it now and then."""
        spooled = {one.topic for one in self if not one.is_empty}
        for topic in self._held.keys() - spooled:
            scope = self._held.pop(topic)
            if scope is not None and self._suppression is not None:
                self._suppression.release(scope)
        for topic, scope in self._held.items():
            if scope is None:  # its topic was not known yet
                self._hold(topic)
        for one in [one for one in self if one.is_empty and not one.is_watched]:
            del self._all[one.topic, one.partition]

    def _hold(self, topic: str) -> None:
        scope = self._scope_of(topic)
        if scope is not None and self._suppression is not None:
            self._suppression.hold(scope)
            self._held[topic] = scope
