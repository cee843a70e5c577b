"""The events of one topic that wait to be sent. A lane is what an order hangs on: a key, as a rule.

Of a lane only one request is under way at a time; what waits in it goes when that has ended.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from headgate_client.core.encode import Part
from headgate_client.outcomes import Outcome
from headgate_client.settings import Limits


class Entry:
    """An event that a producer has taken.

    size: what it counts in the buffer.  epoch: how many times `flush` was called before.
    """

    __slots__ = ("added_s", "done", "epoch", "lane", "part", "size")

    def __init__(
        self,
        part: Part,
        lane: Hashable,
        added_s: float,
        epoch: int,
        done: Callable[[Outcome], None],
    ) -> None:
        self.part = part
        self.lane = lane
        self.size = size_of(part)
        self.added_s = added_s
        self.epoch = epoch
        self.done = done


def size_of(part: Part) -> int:
    """Return about what an event takes in memory while it waits."""
    return len(part.text) + 500  # of objects; measured in tests/unit/clients


class _Lane:
    __slots__ = ("entries", "name", "size", "under_way")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.entries: deque[Entry] = deque()
        self.size = 0  # of what waits
        self.under_way = 0  # events


class Topic:
    """The lanes of one topic. held_until_s: nothing new is tried before."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held_until_s = 0.0
        self._lanes: dict[Hashable, _Lane] = {}
        self._ready: deque[_Lane] = deque()  # what waits in them may go
        self._ready_events = self._ready_size = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits here, or is under way."""
        return not self._lanes

    def add(self, entry: Entry, limits: Limits) -> bool:
        """Take an event; return whether something may go earlier than before."""
        lane = self._lanes.get(entry.lane)
        is_first = False
        if lane is None:
            lane = self._lanes[entry.lane] = _Lane(entry.lane)
            is_first = not self._ready
            self._ready.append(lane)
        size = entry.size
        lane.entries.append(entry)
        lane.size += size
        if lane.under_way:
            return False
        self._ready_events += 1
        self._ready_size += size
        fills_now = self._ready_size >= limits.max_bytes > self._ready_size - size
        return is_first or fills_now or self._ready_events == limits.max_events

    def due_s(self, limits: Limits, linger_s: float) -> float:
        """Return when the next request goes; infinity if nothing may go."""
        if not self._ready:
            return math.inf
        if self._ready_events >= limits.max_events or self._ready_size >= limits.max_bytes:
            return self.held_until_s
        return max(self.held_until_s, self._ready[0].entries[0].added_s + linger_s)

    def take(self, limits: Limits, one_per_lane: bool) -> list[Entry]:
        """Take the events of the next request, all of one form; their lanes wait for its end."""
        taken: list[Entry] = []
        size = 0
        while self._ready:
            lane = self._ready[0]
            while lane.entries and not (one_per_lane and lane.under_way):
                entry = lane.entries[0]
                size += len(entry.part.text)
                if taken and not _goes_with(entry, taken, size, limits):
                    break
                if not lane.under_way:
                    self._leave(lane)
                lane.under_way += 1
                lane.size -= entry.size
                taken.append(lane.entries.popleft())
            if not lane.under_way:
                break  # full, or of another form
            self._ready.popleft()
        return taken

    def end(self, entry: Entry) -> None:
        """Let the lane of an event go on that has ended."""
        lane = self._lanes[entry.lane]
        lane.under_way -= 1
        if lane.under_way:
            return
        if not lane.entries:
            del self._lanes[lane.name]
            return
        self._ready.append(lane)
        self._ready_events += len(lane.entries)
        self._ready_size += lane.size

    def waiting(self) -> Iterator[Entry]:
        """Yield what was never sent."""
        for lane in self._lanes.values():
            yield from lane.entries

    def _leave(self, lane: _Lane) -> None:
        self._ready_events -= len(lane.entries)
        self._ready_size -= lane.size


def _goes_with(entry: Entry, taken: list[Entry], size: int, limits: Limits) -> bool:
    is_full = len(taken) == limits.max_events or size > limits.max_bytes
    return not is_full and entry.part.form == taken[0].part.form
