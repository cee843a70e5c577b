"""Coalescing: the windows of one held partition in one session of its owner.

The rules are those of docs/design/coalescing-protocol.md.

The windows decide when a window closes, how far the group's offset may advance, and which done
marks must be written. Callers pass the time. The state ends with the owner's session.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import islice
from sys import intern
from typing import NamedTuple

from headgate.model.record import (
    BURST,
    BURST_END,
    CONTENT_TYPE,
    DONE,
    FORCED,
    PRODUCER,
    RECEIVED_AT,
    SCHEMA,
    WANTED_TIMESTAMP,
    Header,
)

Headers = list[Header]
# Name, content, name, content: the garbage collector need not track such a tuple.
Packed = tuple[str | bytes | None, ...]

# Bytes of memory in CPython 3.11, as malloc allocates them: an event with its window and its
# entries in both indexes; a header; an object of bytes.
_EVENT, _HEADER, _OBJECT = 576, 16, 33 + 15
_SHARED_BYTES = 200  # recurring contents up to this size are stored once
_RECURRING = frozenset({CONTENT_TYPE, PRODUCER, SCHEMA, BURST})


class HeldEvent(NamedTuple):
    """A held event.

    Attributes:
        offset: Its offset in H, which identifies it.
        key: The key.
        value: The value.
        packed: The headers of its record.
        timestamp_ms: The timestamp of its record.
        arrived_ms: The time of its arrival at its gateway.
        producer: The name of its producer.
        is_forced: Whether to publish it even if unchanged.
        burst: The id of its burst.
        size: Bytes of memory that it takes while it is the newest event of its key.
    """

    offset: int
    key: bytes
    value: bytes | None
    packed: Packed
    timestamp_ms: int
    arrived_ms: int
    producer: str
    is_forced: bool
    burst: bytes | None
    size: int

    @property
    def headers(self) -> Headers:
        """Return the headers of its record."""
        names, contents = self.packed[::2], self.packed[1::2]
        return list(zip(names, contents, strict=True))  # type: ignore[arg-type]


class DoneMark(NamedTuple):
    """A done mark: events of the key up to this offset of H are done.

    An owner that has not noticed yet that H was recreated writes marks for events of the old H into
    the new one. The id shows which H a mark belongs to.

    Attributes:
        key: The key.
        done: The offset in H.
        topic_id: The id of H, in hexadecimal.
    """

    key: bytes
    done: int
    topic_id: str


class BurstEnd(NamedTuple):
    """The end of a burst: no more of its events follow."""

    burst: bytes


class Foreign(NamedTuple):
    """A record of H from another writer than a gateway."""

    offset: int


HeldRecord = HeldEvent | DoneMark | BurstEnd | Foreign


def mark_headers(mark: DoneMark) -> Headers:
    """Return the headers of a done mark; its key is the event's key, its value is empty."""
    return [(DONE, f"{mark.done} {mark.topic_id}".encode())]


def burst_end_headers(burst: bytes) -> Headers:
    """Return the headers of the end of a burst, a record without a key."""
    return [(BURST_END, burst)]


def read_held(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int,
    headers: "tuple[Header, ...] | Headers",
) -> HeldRecord:
    """Parse a record of H.

    Args:
        offset: The offset of the record.
        key: The key of the record.
        value: The value of the record.
        timestamp_ms: The timestamp of the record in H, which is the event's arrival.
        headers: The headers of the record.
    """
    contents = {name: content for name, content in headers if content is not None}
    if BURST_END in contents:
        return BurstEnd(contents[BURST_END])
    producer = contents.get(PRODUCER)
    if key is None:
        return Foreign(offset)
    if DONE in contents:
        done, _, topic_id = contents[DONE].partition(b" ")
        is_mark = done.isdigit() and topic_id.isalnum()
        return DoneMark(key, int(done), topic_id.decode()) if is_mark else Foreign(offset)
    if producer is None:
        return Foreign(offset)
    kept = [pair for pair in headers if pair[0] != FORCED and pair[0] != WANTED_TIMESTAMP]
    arrived_ms = _number(contents.get(RECEIVED_AT), timestamp_ms)
    wanted_ms = _number(contents.get(WANTED_TIMESTAMP), timestamp_ms)
    burst = contents.get(BURST)
    return HeldEvent(
        offset,
        key,
        value,
        packed(kept),
        arrived_ms if wanted_ms == arrived_ms else wanted_ms,  # one object less
        arrived_ms,
        intern(producer.decode("utf-8", "replace")),
        FORCED in contents,
        None if burst is None else _same(burst),
        _cost(key, value, kept),
    )


def packed(headers: Iterable[Header]) -> Packed:
    """Pack headers for storage; events share the names and the recurring contents."""
    flat: list[str | bytes | None] = []
    for name, content in headers:
        flat.append(intern(name))
        flat.append(
            _same(content) if content is not None and _is_shared(name, content) else content
        )
    return tuple(flat)


@lru_cache(1024)
def _same(content: bytes) -> bytes:
    return content


def _is_shared(name: str, content: bytes) -> bool:
    return name in _RECURRING and len(content) <= _SHARED_BYTES


def _cost(key: bytes, value: bytes | None, headers: Headers) -> int:
    """Return the bytes of memory that an event takes (see `_EVENT`)."""
    cost = _EVENT + _OBJECT + len(key) + _HEADER * len(headers)
    cost += 0 if value is None else _OBJECT + len(value)
    own = [
        len(content) + _OBJECT
        for name, content in headers
        if content is not None and not _is_shared(name, content)
    ]
    return cost + sum(own)


def _number(text: bytes | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isdigit() else otherwise


class Metadata(NamedTuple):
    """Metadata of a commit of the held group.

    Attributes:
        topic_id: The id of H, in hexadecimal. An offset of a former H means nothing.
        has_unreserved: Whether an event was published without a reservation and is not settled yet
            (rule 12).
    """

    topic_id: str
    has_unreserved: bool

    def text(self) -> str:
        return f"1 {self.topic_id} {int(self.has_unreserved)}"

    @classmethod
    def read(cls, text: str | None) -> "Metadata | None":
        """Parse the metadata; None if it has another origin or an unknown version."""
        parts = (text or "").split(" ")
        if len(parts) != 3 or parts[0] != "1" or parts[2] not in ("0", "1"):
            return None
        return cls(parts[1], parts[2] == "1")


# ---- one key's window: events of a key that wait to become one record


class WindowTimes(NamedTuple):
    """Time limits of a topic's windows, in milliseconds.

    Attributes:
        quiet: `coalesce_quiet_ms`, which restarts at each event.
        max_delay: `coalesce_max_delay_ms`, which does not restart.
        burst_max: Maximum time for which a burst may hold a key.
        is_leading: `coalesce_leading`.
    """

    quiet: int
    max_delay: int
    burst_max: int
    is_leading: bool = False


class HeldBounds(NamedTuple):
    """Limits of one partition: distinct keys, and bytes of memory."""

    keys: int
    bytes: int


class Sum(NamedTuple):
    """A number of events, and the bytes of their values."""

    events: int
    bytes: int

    @classmethod
    def from_record(cls, held: HeldEvent) -> "Sum":
        return cls(1, len(held.value or b""))

    def plus(self, other: "Sum") -> "Sum":
        return Sum(self.events + other.events, self.bytes + other.bytes)


_NOTHING = Sum(0, 0)


# Bytes of memory in CPython 3.11: superseded events of a producer; a window's bursts; one burst.
_SUPERSEDED, _BURSTS, _BURST = 176, 232, 64


class Window:
    """The open window of one key.

    All times are arrival times, so that another owner that reads the same records decides the same.
    There may be a hundred thousand windows, so rare attributes are created only when needed.

    Attributes:
        first: The offset of its first event.
        last: Its newest event, which will be emitted.
        is_forced: Whether any of its events was forced; then the newest content must be published.
        is_due: Whether it closes at once, whatever the time limits are.
        planned_ms: The latest time of its next check.
    """

    __slots__ = (
        "_bursts",
        "_superseded",
        "bursts_since_ms",
        "first",
        "first_ms",
        "is_due",
        "is_forced",
        "last",
        "not_before_ms",
        "planned_ms",
    )

    def __init__(self, held: HeldEvent) -> None:
        self.first = held.offset
        self.first_ms = held.arrived_ms
        self.last = held
        self.is_forced = held.is_forced
        self.is_due = held.is_forced
        self.not_before_ms = 0
        self.planned_ms: int | None = None
        self.bursts_since_ms = held.arrived_ms
        self._bursts: set[bytes] | None = None
        self._superseded: tuple[str | int, ...] = ()  # producer, events, bytes, producer, ...

    @property
    def cost(self) -> int:
        """Return the bytes of memory that the window takes."""
        cost = self.last.size
        if self._superseded:
            cost += _SUPERSEDED * (len(self._superseded) // 3)
        if self._bursts is not None:
            cost += _BURSTS + _BURST * len(self._bursts)
        return cost

    @property
    def bursts(self) -> Collection[bytes]:
        """Return the bursts whose ends the window waits for."""
        return self._bursts or ()

    @property
    def superseded(self) -> dict[str, Sum]:
        """Return the superseded events, by producer."""
        flat = self._superseded
        return {
            str(flat[at]): Sum(int(flat[at + 1]), int(flat[at + 2]))
            for at in range(0, len(flat), 3)
        }

    def forget_superseded(self) -> None:
        """Forget the superseded events, which another owner has counted."""
        self._superseded = ()

    def take(self, held: HeldEvent) -> None:
        """Take a later event of the key, which supersedes the newest one."""
        self._supersede(self.last)
        self.last = held
        if held.is_forced:
            self.is_forced = self.is_due = True

    def hold(self, burst: bytes, arrived_ms: int) -> None:
        """Wait for the end of a burst."""
        if not self._bursts:
            self.bursts_since_ms = arrived_ms
            self._bursts = set()
        self._bursts.add(burst)

    def release(self, burst: bytes) -> None:
        """Handle the end of a burst; without another open burst the window is due."""
        if self._bursts is not None:
            self._bursts.discard(burst)
            self.is_due |= not self._bursts
            self._bursts = self._bursts or None

    def absorb(self, earlier: "Window") -> None:
        """Merge an earlier window of the key that could not be emitted."""
        self.first, self.first_ms = earlier.first, earlier.first_ms
        self.is_forced |= earlier.is_forced
        self.is_due |= earlier.is_due
        for producer, more in earlier.superseded.items():
            self._add(producer, more)
        self._supersede(earlier.last)

    def due_ms(self, times: WindowTimes) -> int:
        """Return the time at which the window closes if no more events arrive."""
        if self.is_due:
            due = 0
        elif self._bursts:
            due = self.bursts_since_ms + times.burst_max
        else:
            due = min(self.last.arrived_ms + times.quiet, self.first_ms + times.max_delay)
        return max(due, self.not_before_ms)

    def _supersede(self, held: HeldEvent) -> None:
        self._add(held.producer, Sum.from_record(held))

    def _add(self, producer: str, more: Sum) -> None:
        sums = self.superseded if self._superseded else {}
        sums[producer] = sums.get(producer, _NOTHING).plus(more)
        flat: list[str | int] = []
        for name, total in sums.items():
            flat += (name, *total)
        self._superseded = tuple(flat)


_BURSTS_REMEMBERED = 10_000
_RECENT = 176  # bytes of memory of a key that is not quiet


class Figures(NamedTuple):
    """Amounts that are held; `oldest_ms` is the arrival of the oldest held event, or None."""

    keys: int
    bytes: int
    oldest_ms: int | None


class Windows:
    """The open windows of a partition, by key, in the order of their first events.

    No window closes before the position reaches the target (rule 4). The exception: if all done
    marks up to the target are known, the oldest windows close as far as the bounds require.

    Args:
        times: The time limits.
        bounds: The limits of memory.
        target: The end of H when this session began.
        position: The next offset to read.
        marks: The done marks by key, if they had to be read in advance (see `DoneMarks`).
    """

    def __init__(
        self,
        times: WindowTimes,
        bounds: HeldBounds,
        target: int,
        position: int,
        marks: Mapping[bytes, int] | None = None,
    ) -> None:
        self.position = position
        self._times = times
        self._bounds = bounds
        self.target = target
        self._windows: dict[bytes, Window] = {}
        self._bytes = 0
        self._returned: list[tuple[int, bytes]] = []  # windows that were put back, out of order
        self._by_burst: dict[bytes, set[bytes]] = {}  # keys that wait for the end of a burst
        self._due: list[
            tuple[int, int, bytes]
        ] = []  # lower bounds, at least one entry for each window
        self._recent: dict[bytes, int] = {}  # time (ms) until which a key is not quiet
        self._ended_bursts: dict[bytes, int] = {}
        self._marks = marks

    @property
    def needs_marks(self) -> bool:
        """Return whether the bounds are exceeded and the done marks are not known yet."""
        return self.is_catching_up and self.is_full and self._marks is None

    @property
    def must_close(self) -> bool:
        """Return whether windows must close before more records are read."""
        return self.is_full and (not self.is_catching_up or self._marks is not None)

    @property
    def is_catching_up(self) -> bool:
        """Return whether the position is before the end of H at the session's beginning."""
        return self.position < self.target

    @property
    def is_full(self) -> bool:
        """Return whether the bounds are exceeded."""
        return len(self._windows) > self._bounds.keys or self._bytes > self._bounds.bytes

    @property
    def is_empty(self) -> bool:
        return not self._windows

    @property
    def figures(self) -> Figures:
        oldest = self._oldest()
        first_ms = None if oldest is None else oldest.first_ms
        size = self._bytes + _RECENT * len(self._recent)
        return Figures(len(self._windows), size, first_ms)

    # ---- reading H

    def read(self, records: Sequence[HeldRecord], position: int, now_ms: int) -> int:
        """Take records in their order; return the number of foreign records."""
        foreign = 0
        for record in records:
            if type(record) is HeldEvent:
                self._take(record, now_ms)
            elif type(record) is DoneMark:
                self._mark(record)
            elif type(record) is BurstEnd:
                self._end_burst(record.burst, now_ms)
            else:
                foreign += 1
        self.position = position
        if not self.is_catching_up:
            self._marks = None  # the windows are past all of these marks
        if self._recent:
            self._forget_quiet()
        return foreign

    def _take(self, held: HeldEvent, now_ms: int) -> None:
        if self._marks is not None and held.offset <= self._marks.get(held.key, -1):
            return
        if held.arrived_ms > now_ms:  # a gateway whose clock is ahead
            held = held._replace(arrived_ms=now_ms)
        window = self._windows.get(held.key)
        if window is None:
            window = self._windows[held.key] = Window(held)
            window.is_due |= self._is_leading(held)
            must_plan = True
        else:
            self._bytes -= window.cost
            window.take(held)
            must_plan = held.is_forced
        if held.burst is not None and held.burst not in self._ended_bursts:
            must_plan |= not window.bursts  # the burst limit may be earlier than the quiet time
            window.hold(held.burst, held.arrived_ms)
            self._by_burst.setdefault(held.burst, set()).add(held.key)
        self._bytes += window.cost
        if must_plan:
            self._plan(window)
        if self._times.is_leading:
            self._note_recent(held)

    def _mark(self, mark: DoneMark) -> None:
        """Drop events that a former owner emitted; a mark follows its event in H (rule 6)."""
        window = self._windows.get(mark.key)
        if window is None or window.first > mark.done:
            return
        if window.last.offset <= mark.done:
            self._remove(window)
        else:
            self._bytes -= window.cost
            window.forget_superseded()  # counted by the owner that wrote the mark
            self._bytes += window.cost

    def _end_burst(self, burst: bytes, now_ms: int) -> None:
        self._ended_bursts.pop(burst, None)
        while len(self._ended_bursts) >= _BURSTS_REMEMBERED:
            del self._ended_bursts[next(iter(self._ended_bursts))]
        self._ended_bursts[burst] = now_ms
        for key in self._by_burst.pop(burst, ()):
            window = self._windows[key]
            self._bytes -= window.cost
            window.release(burst)
            self._bytes += window.cost
            self._plan(window)

    def _is_leading(self, held: HeldEvent) -> bool:
        """Return whether this is the first event of a quiet key and not part of a burst."""
        is_quiet = self._recent.get(held.key, -1) <= held.arrived_ms
        return self._times.is_leading and is_quiet and held.burst is None

    def _note_recent(self, held: HeldEvent) -> None:
        recent = self._recent
        recent.pop(held.key, None)
        recent[held.key] = held.arrived_ms + self._times.quiet

    def _forget_quiet(self) -> None:
        """Forget keys that are quiet at the newest arrival, and the oldest over the limit."""
        recent = self._recent
        now_ms = next(reversed(recent.values())) - self._times.quiet
        too_many = len(recent) - 2 * self._bounds.keys
        gone = []
        for index, (key, until_ms) in enumerate(recent.items()):
            if until_ms > now_ms and index >= too_many:
                break
            gone.append(key)
        for key in gone:
            del recent[key]

    # ---- closing windows

    def take_due(self, now_ms: int, max_records: int, max_bytes: int) -> list[Window]:
        """Close due windows and, if the bounds are exceeded, also the oldest ones.

        Args:
            now_ms: The current time.
            max_records: Maximum number of windows to close.
            max_bytes: Bytes after which no further window closes.
        """
        if self.is_catching_up and not self.must_close:
            return []
        closed: list[Window] = []
        oldest: Iterator[Window] | None = None
        size = 0
        while len(closed) < max_records and size < max_bytes:
            # While catching up, no window closes by time, because a later event may follow.
            window = None if self.is_catching_up else self._next_due(now_ms)
            if window is None and self.is_full:
                # Copied at once: a dict is slow to find its first entry behind many deleted ones.
                oldest = oldest or iter(list(islice(self._windows.values(), max_records)))
                window = next((candidate for candidate in oldest if self._is_open(candidate)), None)
            if window is None:
                break
            self._remove(window)
            size += window.last.size
            closed.append(window)
        return closed

    def _is_open(self, window: Window) -> bool:
        return self._windows.get(window.last.key) is window

    def put_back(self, windows: Sequence[Window], not_before_ms: int) -> None:
        """Reopen windows that could not be emitted, for example because Redis is unavailable.

        Args:
            windows: The windows.
            not_before_ms: The earliest time at which they may close.
        """
        for window in windows:
            key = window.last.key
            later = self._windows.get(key)
            if later is not None:
                self._bytes -= later.cost
                later.absorb(window)
                window = later
            window.not_before_ms = not_before_ms
            window.planned_ms = None
            self._windows[key] = window
            self._bytes += window.cost
            for burst in window.bursts:
                self._by_burst.setdefault(burst, set()).add(key)
            heappush(self._returned, (window.first, key))
            self._plan(window)

    def next_due_ms(self) -> int | None:
        """Return the earliest time at which a window may be due; None if none can be."""
        if self.must_close:
            return 0
        if self.is_catching_up or not self._windows:
            return None
        return self._due[0][0]

    def low_water(self) -> int:
        """Return the offset that the group may commit: the first open event (rule 5)."""
        oldest = self._oldest()
        return self.position if oldest is None else oldest.first

    def _oldest(self) -> Window | None:
        """Return the oldest window: the first in order, or an older one that was put back."""
        while self._returned:
            first, key = self._returned[0]
            window = self._windows.get(key)
            if window is not None and window.first == first:
                break
            heappop(self._returned)
        oldest = next(iter(self._windows.values()), None)
        if oldest is None or not self._returned:
            return oldest
        return min(oldest, self._windows[self._returned[0][1]], key=lambda window: window.first)

    def _plan(self, window: Window) -> None:
        due_ms = window.due_ms(self._times)
        if window.planned_ms is not None and window.planned_ms <= due_ms:
            return  # its next check is early enough
        window.planned_ms = due_ms
        heappush(self._due, (due_ms, window.first, window.last.key))
        if len(self._due) > 64 + 4 * len(self._windows):
            self._due = [
                (planned.planned_ms or 0, planned.first, key)
                for key, planned in self._windows.items()
            ]
            heapify(self._due)

    def _next_due(self, now_ms: int) -> Window | None:
        """Return the next due window.

        The entries are lower bounds: an event restarts the quiet time without updating them.
        """
        while self._due and self._due[0][0] <= now_ms:
            _, first, key = heappop(self._due)
            window = self._windows.get(key)
            if window is None or window.first != first:
                continue
            window.planned_ms = None
            if window.due_ms(self._times) <= now_ms:
                return window
            self._plan(window)
        return None

    def _remove(self, window: Window) -> None:
        key = window.last.key
        del self._windows[key]
        self._bytes -= window.cost
        for burst in window.bursts:
            keys = self._by_burst[burst]
            keys.discard(key)
            if not keys:
                del self._by_burst[burst]


# ---- done marks of a held partition


class DoneMarks:
    """The newest done mark of each key, from a range of H that is too long to hold.

    Only events that were emitted while older windows were open have marks, so there are far fewer
    marks than events.

    Args:
        limit: Maximum number of keys.
    """

    def __init__(self, limit: int) -> None:
        self.by_key: dict[bytes, int] = {}
        self._limit = limit

    @property
    def are_too_many(self) -> bool:
        return len(self.by_key) > self._limit

    def read(self, records: Sequence[HeldRecord]) -> None:
        """Take the marks among these records."""
        for record in records:
            if type(record) is DoneMark:
                self.by_key[record.key] = max(record.done, self.by_key.get(record.key, -1))


def marks_of(emitted: Sequence[Window], low_water: int, topic_id: str) -> list[DoneMark]:
    """Return the done marks of a transaction: emitted events that will be read again (rule 6)."""
    return [
        DoneMark(window.last.key, window.last.offset, topic_id)
        for window in emitted
        if window.last.offset >= low_water
    ]
