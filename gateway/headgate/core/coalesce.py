"""Coalescing: the windows of one held partition in one life of its owner (9-coalescer-model).

Told the time; it forgets everything with its owner's term. What it decides: which window closes
when, how far the group's offset may go, and which done marks must be written.
"""

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from headgate.core.held import BurstEnd, Held, HeldRecord, Mark
from headgate.core.window import Bounds, Times, Window

_BURSTS_REMEMBERED = 10_000


class Figures(NamedTuple):
    """What is held. oldest_ms: the arrival of the oldest held event; None if there is none."""

    keys: int
    bytes: int
    oldest_ms: int | None


class Windows:
    """The open windows of a partition, by key, in the order of their first events.

    position: the next offset to read.  target: the end of H when this life began; until the
    position is there no window closes (rule 4), unless all done marks up to it are known: then
    the oldest do as far as the bounds ask for it.
    marks: these, where they had to be read beforehand; by key, see `DoneMarks`.
    """

    def __init__(
        self,
        times: Times,
        bounds: Bounds,
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
        self._due: list[tuple[int, int, bytes]] = []  # lower bounds, one entry a window or more
        self._recent: dict[bytes, int] = {}  # until when (ms) a key counts as not quiet
        self._ended_bursts: dict[bytes, int] = {}
        self._marks = marks

    @property
    def needs_marks(self) -> bool:
        """More is held than the bounds allow, and whether it may be emitted is not known yet."""
        return self.is_catching_up and self.is_full and self._marks is None

    @property
    def must_close(self) -> bool:
        """Read no more until windows have closed."""
        return self.is_full and (not self.is_catching_up or self._marks is not None)

    @property
    def is_catching_up(self) -> bool:
        """Whether H was not yet read to where it ended when this life began."""
        return self.position < self.target

    @property
    def is_full(self) -> bool:
        """Whether the bounds are exceeded."""
        return len(self._windows) > self._bounds.keys or self._bytes > self._bounds.bytes

    @property
    def is_empty(self) -> bool:
        return not self._windows

    @property
    def figures(self) -> Figures:
        oldest = next(iter(self._windows.values()), None)
        first_ms = None if oldest is None else oldest.first_ms
        return Figures(len(self._windows), self._bytes, first_ms)

    # ---- reading H

    def read(self, records: Sequence[HeldRecord], position: int, now_ms: int) -> int:
        """Take records in their order; returns how many no gateway wrote."""
        foreign = 0
        for record in records:
            if type(record) is Held:
                self._take(record, now_ms)
            elif type(record) is Mark:
                self._mark(record)
            elif type(record) is BurstEnd:
                self._end_burst(record.burst, now_ms)
            else:
                foreign += 1
        self.position = position
        if not self.is_catching_up:
            self._marks = None  # all behind: theirs is done
        return foreign

    def _take(self, held: Held, now_ms: int) -> None:
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
            self._bytes -= window.last.size
            window.take(held)
            must_plan = held.forced
        self._bytes += held.size
        if held.burst is not None and held.burst not in self._ended_bursts:
            must_plan |= not window.bursts  # a burst's limit may come before the quiet time's end
            window.hold(held.burst, held.arrived_ms)
        if must_plan:
            self._plan(window)
        if self._times.is_leading:
            self._note_recent(held)

    def _mark(self, mark: Mark) -> None:
        """The mark lies behind its event (rule 6): what a former owner has emitted is done."""
        window = self._windows.get(mark.key)
        if window is None or window.first > mark.done:
            return
        if window.last.offset <= mark.done:
            self._remove(window)
        else:
            window.superseded.clear()  # counted by the owner that wrote the mark

    def _end_burst(self, burst: bytes, now_ms: int) -> None:
        self._ended_bursts.pop(burst, None)
        while len(self._ended_bursts) >= _BURSTS_REMEMBERED:
            del self._ended_bursts[next(iter(self._ended_bursts))]
        self._ended_bursts[burst] = now_ms
        for window in self._windows.values():
            if burst in window.bursts:
                window.bursts.discard(burst)
                window.is_due |= not window.bursts
                self._plan(window)

    def _is_leading(self, held: Held) -> bool:
        """The first event of a quiet key; a burst asked for one record in the end."""
        is_quiet = self._recent.get(held.key, -1) <= held.arrived_ms
        return self._times.is_leading and is_quiet and held.burst is None

    def _note_recent(self, held: Held) -> None:
        recent = self._recent
        recent.pop(held.key, None)
        recent[held.key] = held.arrived_ms + self._times.quiet
        while len(recent) > 2 * self._bounds.keys:
            del recent[next(iter(recent))]

    # ---- closing windows

    def take_due(self, now_ms: int, most_records: int, most_bytes: int) -> list[Window]:
        """Close what is due, at most so much at a time; when full also the oldest (never lost)."""
        if self.is_catching_up and not self.must_close:
            return []
        closed: list[Window] = []
        size = 0
        while len(closed) < most_records and size < most_bytes:
            # While it catches up the clocks close nothing: a later event may be read yet.
            window = None if self.is_catching_up else self._next_due(now_ms)
            if window is None and self.is_full:
                window = next(iter(self._windows.values()), None)
            if window is None:
                break
            self._remove(window)
            size += window.last.size
            closed.append(window)
        return closed

    def put_back(self, windows: Sequence[Window], not_before_ms: int) -> None:
        """They could not be emitted (Redis away and the topic waits for it): open again."""
        earlier: dict[bytes, Window] = {}
        for window in windows:
            later = self._windows.pop(window.last.key, None)
            if later is not None:
                later.absorb(window)
                window = later
            else:
                self._bytes += window.last.size
            window.not_before_ms = not_before_ms
            earlier[window.last.key] = window
            self._plan(window)
        merged = sorted((earlier | self._windows).values(), key=lambda one: one.first)
        self._windows = {window.last.key: window for window in merged}

    def next_due_ms(self) -> int | None:
        """When something may be due, at the earliest; None: not before something is read."""
        if self.must_close:
            return 0
        if self.is_catching_up or not self._windows:
            return None
        return self._due[0][0]

    def low_water(self) -> int:
        """How far the group's offset may go: the first event of the open windows (rule 5)."""
        oldest = next(iter(self._windows.values()), None)
        return self.position if oldest is None else oldest.first

    def _plan(self, window: Window) -> None:
        heappush(self._due, (window.due_ms(self._times), window.first, window.last.key))
        if len(self._due) > 64 + 4 * len(self._windows):
            self._due = [
                (one.due_ms(self._times), one.first, one.last.key) for one in self._windows.values()
            ]
            heapify(self._due)

    def _next_due(self, now_ms: int) -> Window | None:
        """The entries are lower bounds: an event restarts the quiet time without touching them."""
        while self._due and self._due[0][0] <= now_ms:
            _, first, key = heappop(self._due)
            window = self._windows.get(key)
            if window is None or window.first != first:
                continue
            if window.due_ms(self._times) <= now_ms:
                return window
            self._plan(window)
        return None

    def _remove(self, window: Window) -> None:
        del self._windows[window.last.key]
        self._bytes -= window.last.size


class DoneMarks:
    """The done marks of a stretch of H that is too long to be held: of each key the newest.

    Only what is emitted while older windows are open is marked, so there are far fewer of them
    than of events. most: how many keys at most.
    """

    def __init__(self, most: int) -> None:
        self.by_key: dict[bytes, int] = {}
        self._most = most

    @property
    def are_too_many(self) -> bool:
        return len(self.by_key) > self._most

    def read(self, records: Sequence[HeldRecord]) -> None:
        """Take the marks among these records."""
        for record in records:
            if type(record) is Mark:
                self.by_key[record.key] = max(record.done, self.by_key.get(record.key, -1))


def marks_of(emitted: Sequence[Window], low_water: int, topic_id: str) -> list[Mark]:
    """The done marks of a transaction: emitted events that will be read again (rule 6)."""
    return [
        Mark(window.last.key, window.last.offset, topic_id)
        for window in emitted
        if window.last.offset >= low_water
    ]
