"""Coalescing: the windows of one held partition in one session of its owner.

The rules are those of docs/design/coalescing-protocol.md.

Told the time; it forgets everything with its owner's term. What it decides: which window closes
when, how far the group's offset may go, and which done marks must be written.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import NamedTuple

from headgate.core.coalescing.held import BurstEnd, DoneMark, HeldEvent, HeldRecord
from headgate.core.coalescing.window import HeldBounds, Window, WindowTimes

_BURSTS_REMEMBERED = 10_000
_RECENT = 176  # bytes of memory of a key that counts as not quiet


class Figures(NamedTuple):
    """What is held. oldest_ms: the arrival of the oldest held event; None if there is none."""

    keys: int
    bytes: int
    oldest_ms: int | None


class Windows:
    """The open windows of a partition, by key, in the order of their first events.

    position: the next offset to read.  target: the end of H when this session began; until the
    position is there no window closes (rule 4), unless all done marks up to it are known: then
    the oldest do as far as the bounds ask for it.
    marks: these, where they had to be read beforehand; by key, see `DoneMarks`.
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
        self._returned: list[tuple[int, bytes]] = []  # of those that were put back: not in order
        self._by_burst: dict[bytes, set[bytes]] = {}  # the keys that wait for a burst's end
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
        """Whether H was not yet read to where it ended when this session began."""
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
        oldest = self._oldest()
        first_ms = None if oldest is None else oldest.first_ms
        size = self._bytes + _RECENT * len(self._recent)
        return Figures(len(self._windows), size, first_ms)

    # ---- reading H

    def read(self, records: Sequence[HeldRecord], position: int, now_ms: int) -> int:
        """Take records in their order; returns how many no gateway wrote."""
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
            self._marks = None  # all behind: theirs is done
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
            must_plan = held.forced
        if held.burst is not None and held.burst not in self._ended_bursts:
            must_plan |= not window.bursts  # a burst's limit may come before the quiet time's end
            window.hold(held.burst, held.arrived_ms)
            self._by_burst.setdefault(held.burst, set()).add(held.key)
        self._bytes += window.cost
        if must_plan:
            self._plan(window)
        if self._times.is_leading:
            self._note_recent(held)

    def _mark(self, mark: DoneMark) -> None:
        """The mark lies behind its event (rule 6): what a former owner has emitted is done."""
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
        """The first event of a quiet key; a burst asked for one record in the end."""
        is_quiet = self._recent.get(held.key, -1) <= held.arrived_ms
        return self._times.is_leading and is_quiet and held.burst is None

    def _note_recent(self, held: HeldEvent) -> None:
        recent = self._recent
        recent.pop(held.key, None)
        recent[held.key] = held.arrived_ms + self._times.quiet

    def _forget_quiet(self) -> None:
        """Keys that are quiet again by the newest arrival, and the oldest of too many."""
        recent = self._recent
        now_ms = next(reversed(recent.values())) - self._times.quiet
        too_many = len(recent) - 2 * self._bounds.keys
        gone = []
        for place, (key, until_ms) in enumerate(recent.items()):
            if until_ms > now_ms and place >= too_many:
                break
            gone.append(key)
        for key in gone:
            del recent[key]

    # ---- closing windows

    def take_due(self, now_ms: int, max_records: int, max_bytes: int) -> list[Window]:
        """Close what is due, at most so much at a time; when full also the oldest (never lost)."""
        if self.is_catching_up and not self.must_close:
            return []
        closed: list[Window] = []
        oldest: Iterator[Window] | None = None
        size = 0
        while len(closed) < max_records and size < max_bytes:
            # While it catches up the clocks close nothing: a later event may be read yet.
            window = None if self.is_catching_up else self._next_due(now_ms)
            if window is None and self.is_full:
                # All at once: a dict is slow to find its first entry behind others that are gone.
                oldest = oldest or iter(list(islice(self._windows.values(), max_records)))
                window = next((one for one in oldest if self._is_open(one)), None)
            if window is None:
                break
            self._remove(window)
            size += window.last.size
            closed.append(window)
        return closed

    def _is_open(self, window: Window) -> bool:
        return self._windows.get(window.last.key) is window

    def put_back(self, windows: Sequence[Window], not_before_ms: int) -> None:
        """They could not be emitted (Redis away and the topic waits for it): open again."""
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
        """When something may be due, at the earliest; None: not before something is read."""
        if self.must_close:
            return 0
        if self.is_catching_up or not self._windows:
            return None
        return self._due[0][0]

    def low_water(self) -> int:
        """How far the group's offset may go: the first event of the open windows (rule 5)."""
        oldest = self._oldest()
        return self.position if oldest is None else oldest.first

    def _oldest(self) -> Window | None:
        """Of those in order the first, unless one that was put back is older."""
        while self._returned:
            first, key = self._returned[0]
            window = self._windows.get(key)
            if window is not None and window.first == first:
                break
            heappop(self._returned)
        oldest = next(iter(self._windows.values()), None)
        if oldest is None or not self._returned:
            return oldest
        return min(oldest, self._windows[self._returned[0][1]], key=lambda one: one.first)

    def _plan(self, window: Window) -> None:
        due_ms = window.due_ms(self._times)
        if window.planned_ms is not None and window.planned_ms <= due_ms:
            return  # it is looked at by then
        window.planned_ms = due_ms
        heappush(self._due, (due_ms, window.first, window.last.key))
        if len(self._due) > 64 + 4 * len(self._windows):
            self._due = [
                (one.planned_ms or 0, one.first, key) for key, one in self._windows.items()
            ]
            heapify(self._due)

    def _next_due(self, now_ms: int) -> Window | None:
        """The entries are lower bounds: an event restarts the quiet time without touching them."""
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
