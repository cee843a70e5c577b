"""One partition in one term of ownership: its events in memory, and those that are not done."""

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headgate.consumer.assembler import Assembler
from headgate.consumer.ownership import Owned, PartitionProgress

if TYPE_CHECKING:
    from headgate.consumer.assignment import Assignment


class Received:
    """One event. Call `done` or `failed` exactly once; a second call has no effect.

    `offset` is that of its record, or of its last record if it was written in chunks. `timestamp`
    is in ms since 1970. `attempt` is 1 when the event is handed out here for the first time.
    """

    __slots__ = (
        "_is_open",
        "_origin",
        "attempt",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        partition: "OwnedPartition",
        event: Any,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        self._origin = partition
        self._is_open = False
        self.topic: str = event.topic
        self.partition: int = event.partition
        self.offset: int = event.offset
        self.key: bytes | None = event.key
        self.value: bytes | None = event.value
        self.headers = headers
        self.timestamp: int = event.timestamp
        self.attempt = 0

    def header(self, name: str) -> bytes | None:
        """Return the last header of a name."""
        return dict(self.headers).get(name)

    def done(self) -> None:
        """Report that the event is done: its offset may be committed."""
        if self._is_open:
            self._is_open = False
            self._origin.done(self)

    def failed(self, error: BaseException | str) -> None:
        """Report a failure: the event is retried, or handled as `Retries` says."""
        if self._is_open:
            self._is_open = False
            self._origin.failed(self, error)

    def hand_out(self) -> None:
        """Begin one more attempt."""
        self._is_open = True
        self.attempt += 1

    def __repr__(self) -> str:
        return f"<Received {self.topic}-{self.partition}@{self.offset} attempt {self.attempt}>"


class OwnedPartition:
    """The events of one partition, handed out in sequence for each key.

    Events of different keys are handed out concurrently.

    Attributes:
        is_forbidden: Whether a pause forbids handing out.
        in_turn: Whether the assignment has it among the partitions with events to hand out.
        may_be_read: Whether its starting position is known.
    """

    __slots__ = (
        "_assembler",
        "_assignment",
        "_done_below",
        "_keys",
        "_ready",
        "in_turn",
        "is_forbidden",
        "may_be_read",
        "owned",
        "progress",
    )

    def __init__(self, owned: Owned, assignment: "Assignment", assembler: Assembler | None) -> None:
        self.owned = owned
        self.progress = PartitionProgress()
        self.is_forbidden = False
        self.may_be_read = False
        self.in_turn = False
        self._done_below = 0
        self._assignment = assignment
        self._assembler = assembler
        self._ready: deque[Received] = deque()
        # Keys with an event that is ready or handed out, and the later events of the key in order.
        self._keys: dict[bytes, deque[Received] | None] = {}

    def begin(self, done_below: int) -> None:
        """Set the starting position; all events that end before `done_below` are done."""
        self._done_below = done_below
        self.may_be_read = True

    def take(self, records: Sequence[Any]) -> None:
        """Take the next records, in the order of the log."""
        was_empty = not self._ready
        progress, assembler = self.progress, self._assembler
        for record in records:
            offset = record.offset
            if assembler is not None:
                self._assemble(assembler, record)
            elif offset >= self._done_below:
                progress.enter(offset, offset)
                self._line_up(Received(self, record, record.headers))
            progress.passed(offset)
        if was_empty and self._ready:
            self._assignment.ready(self)

    def reached(self, position: int) -> None:
        """Note the position of reading; all records before it were taken."""
        self.progress.reached(position)

    def _assemble(self, assembler: Assembler, record: Any) -> None:
        topic, partition, _ = self.owned
        first = record.offset
        if assembler.incomplete:  # it may belong to a set that began long before
            held = assembler.first_open(topic, partition)
            first = first if held is None else min(first, held)
        event = assembler.add(record)
        if event is not None and event.offset >= self._done_below:
            self.progress.enter(event.offset, first)
            self._line_up(Received(self, event, event.headers))

    def _line_up(self, received: Received) -> None:
        key = received.key
        if key is None:
            self._ready.append(received)
        elif key not in self._keys:
            self._keys[key] = None
            self._ready.append(received)
        else:
            line = self._keys[key]
            if line is None:
                line = self._keys[key] = deque()
            line.append(received)

    def hand_out(self) -> Received | None:
        """Return the next event whose key is free; None without one, or if it is paused."""
        if self.is_forbidden or not self._ready:
            return None
        received = self._ready.popleft()
        received.hand_out()
        return received

    def again(self, received: Received) -> None:
        """Hand out an event again after its wait. It still holds its key."""
        self._ready.appendleft(received)
        self._assignment.ready(self)

    def failed(self, received: Received, error: BaseException | str) -> None:
        self._assignment.failed(self, received, error)

    def done(self, received: Received) -> None:
        """Note that an event is done, and free its key."""
        self.progress.done(received.offset)
        key = received.key
        if key is not None:
            line = self._keys[key]
            if line:
                self._ready.append(line.popleft())
                self._assignment.ready(self)
            else:
                del self._keys[key]
        self._assignment.done(received)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def done_below(self) -> int:
        """Return the offset below which no open event ends."""
        return max(self._done_below, self.progress.done_below or 0)

    @property
    def low_water(self) -> int | None:
        """Return the offset that may be committed; None before anything was read."""
        mark = self.progress.low_water
        if mark is None or self._assembler is None or not self._assembler.incomplete:
            return mark
        held = self._assembler.first_open(self.owned.topic, self.owned.partition)
        return mark if held is None else min(mark, held)
