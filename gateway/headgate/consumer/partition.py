"""One partition in one term of ownership: the events read of it, and those that are not done."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from headgate.consumer.assembler import Assembler
from headgate.consumer.ownership import Owned, PartitionProgress


class Origin(Protocol):
    """The partition, in one term of ownership, that an event came from."""

    def done(self, received: "Received") -> None: ...

    def failed(self, received: "Received", error: BaseException | str) -> None: ...


class Received:
    """One event. Call `done` or `failed` exactly once; a second call is without effect.

    offset: of its record, of its last one if it was written in chunks.  timestamp: ms since 1970.
    attempt: 1 the first time it is handed out here.
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

    def __init__(self, origin: Origin, event: Any, headers: Sequence[tuple[str, bytes | None]]):
        self._origin = origin
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
        """The last header of that name."""
        return dict(self.headers).get(name)

    def done(self) -> None:
        """Nothing is left to do for it: its offset may be committed."""
        if self._is_open:
            self._is_open = False
            self._origin.done(self)

    def failed(self, error: BaseException | str) -> None:
        """It could not be handled. It comes again, or what `Retries` says."""
        if self._is_open:
            self._is_open = False
            self._origin.failed(self, error)

    def hand_out(self) -> None:
        """One more attempt begins."""
        self._is_open = True
        self.attempt += 1

    def __repr__(self) -> str:
        place = f"{self.topic}-{self.partition}@{self.offset}"
        return f"<Received {place} attempt {self.attempt}>"


class PartitionWork(Protocol):
    """Whom a partition tells (`assignment.Assignment`)."""

    def ready(self, partition: "OwnedPartition") -> None:
        """There is something to hand out."""
        ...

    def done(self, received: Received) -> None: ...

    def failed(
        self, partition: "OwnedPartition", received: Received, error: BaseException | str
    ) -> None: ...


class OwnedPartition:
    """Hands out events one after the other for each key, and side by side for different keys.

    is_forbidden: by pause intent, so nothing is handed out.  in_turn: whether the assignment has it
    among those with something to hand out.  may_be_read: its starting position is known.
    """

    __slots__ = (
        "_assembler",
        "_done_below",
        "_keys",
        "_ready",
        "_work",
        "in_turn",
        "is_forbidden",
        "may_be_read",
        "owned",
        "progress",
    )

    def __init__(self, owned: Owned, work: PartitionWork, assembler: Assembler | None) -> None:
        self.owned = owned
        self.progress = PartitionProgress()
        self.is_forbidden = False
        self.may_be_read = False
        self.in_turn = False
        self._done_below = 0
        self._work = work
        self._assembler = assembler
        self._ready: deque[Received] = deque()
        # A key is here while one event of it is ready or handed out; others of it wait in line.
        self._keys: dict[bytes, deque[Received] | None] = {}

    def begin(self, done_below: int) -> None:
        """Its position is known. done_below: events that end before it were done by others."""
        self._done_below = done_below
        self.may_be_read = True

    def take(self, records: Sequence[Any]) -> None:
        """What was read next, in the order of the log."""
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
            self._work.ready(self)

    def reached(self, position: int) -> None:
        """Reading goes on at this offset; what was read before it is taken."""
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
        """The next event whose key is free; None: there is none, or pause intent forbids it."""
        if self.is_forbidden or not self._ready:
            return None
        received = self._ready.popleft()
        received.hand_out()
        return received

    def again(self, received: Received) -> None:
        """Its wait after a failure is over; its key is still its own."""
        self._ready.appendleft(received)
        self._work.ready(self)

    # ---- received.Origin

    def done(self, received: Received) -> None:
        self.finish(received)

    def failed(self, received: Received, error: BaseException | str) -> None:
        self._work.failed(self, received, error)

    def finish(self, received: Received) -> None:
        """Nothing is left to do for an event that is not handed out any more."""
        self.progress.done(received.offset)
        key = received.key
        if key is not None:
            line = self._keys[key]
            if line:
                self._ready.append(line.popleft())
                self._work.ready(self)
            else:
                del self._keys[key]
        self._work.done(received)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    @property
    def done_below(self) -> int:
        """No event that ends below this offset is open, whatever the offset to be committed."""
        return max(self._done_below, self.progress.done_below or 0)

    @property
    def low_water(self) -> int | None:
        """The offset that may be committed; None before anything was read."""
        mark = self.progress.low_water
        if mark is None or self._assembler is None or not self._assembler.incomplete:
            return mark
        held = self._assembler.first_open(self.owned.topic, self.owned.partition)
        return mark if held is None else min(mark, held)
