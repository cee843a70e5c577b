"""The waiting events of one topic. A lane has the events of one ordering key, in their order.

Only one request of a lane is under way at a time. Its other events wait until that has ended.
"""

import math
from collections import deque
from collections.abc import Callable, Hashable, Iterator

from headgate_client.core.encode import Part
from headgate_client.outcomes import Outcome
from headgate_client.settings import Limits


class Entry:
    """An event that a producer has taken.

    size: bytes in the buffer.  epoch: number of calls of `flush` before.
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


OVERHEAD_BYTES = 3200  # of an event's objects, most of it its future; a test measures them


def size_of(part: Part) -> int:
    """Return the memory that an event takes while it waits, about."""
    return len(part.text) + OVERHEAD_BYTES


class _Lane:
    __slots__ = ("entries", "name", "size", "under_way")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.entries: deque[Entry] = deque()
        self.size = 0  # of what waits
        self.under_way = 0  # events


class Topic:
    """The lanes of one topic.

    Attributes:
        held_until_s: Time before which no new request is sent.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.held_until_s = 0.0
        self._lanes: dict[Hashable, _Lane] = {}
        self._ready: deque[_Lane] = deque()  # what waits in them may go
        self._ready_events = self._ready_size = 0

    @property
    def is_empty(self) -> bool:
        """Return whether no event waits or is under way."""
        return not self._lanes

    def add(self, entry: Entry, limits: Limits) -> bool:
        """Take an event; return whether a request is due earlier than before."""
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
        """Return the time of the next request; infinity if none may go."""
        if not self._ready:
            return math.inf
        if self._ready_events >= limits.max_events or self._ready_size >= limits.max_bytes:
            return self.held_until_s
        return max(self.held_until_s, self._ready[0].entries[0].added_s + linger_s)

    def take(self, limits: Limits, one_per_lane: bool) -> list[Entry]:
        """Take the events of the next request, all of one form. Their lanes wait for its end."""
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
        """Release the lane of an event that has ended."""
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
        """Yield the events that were never sent."""
        for lane in self._lanes.values():
            yield from lane.entries

    def _leave(self, lane: _Lane) -> None:
        self._ready_events -= len(lane.entries)
        self._ready_size -= lane.size


def _goes_with(entry: Entry, taken: list[Entry], size: int, limits: Limits) -> bool:
    is_full = len(taken) == limits.max_events or size > limits.max_bytes
    return not is_full and entry.part.form == taken[0].part.form
