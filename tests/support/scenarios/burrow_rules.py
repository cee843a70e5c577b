"""The rules of LinkedIn's Burrow for one partition, told the time, so that it can be compared.

After `core/internal/evaluator/caching.go` (calculatePartitionStatus) and
`core/internal/storage/inmemory.go` (mergeFrequentCommitIntoPrevious) of github.com/linkedin/Burrow,
commit ced55ba (Apache License 2.0), with what its config/burrow.toml sets: 10 intervals,
min-distance 1 s, allowed-lag 0; end offsets are refreshed every 10 s, at each poll.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise

INTERVALS = 10
MIN_DISTANCE_MS = 1_000


@dataclass
class Stored:
    offset: int
    at_ms: int
    lag: int


class Burrow:
    """One partition of one group."""

    def __init__(self) -> None:
        self.offsets: deque[Stored] = deque(maxlen=INTERVALS)
        self.ends: deque[int] = deque(maxlen=INTERVALS)

    def refreshed(self, end: int) -> None:
        self.ends.append(end)

    def committed(self, offset: int, at_ms: int) -> None:
        if not self.ends:
            return  # a topic that it does not know yet
        lag = max(0, self.ends[-1] - offset)
        if self.offsets and at_ms - self.offsets[-1].at_ms < MIN_DISTANCE_MS:
            self.offsets[-1] = Stored(offset, self.offsets[-1].at_ms, lag)
        else:
            self.offsets.append(Stored(offset, at_ms, lag))

    def state(self, now_ms: int) -> str:
        """The partition's status."""
        offsets = list(self.offsets)
        if not offsets or max(0, self.ends[-1] - offsets[-1].offset) == 0:
            return "OK"
        first, last = offsets[0], offsets[-1]
        recently_zero = any(end <= last.offset for end in self.ends)
        if now_ms - last.at_ms > last.at_ms - first.at_ms and not recently_zero:
            return "STOP"
        pairs = list(pairwise(offsets))
        for number, (before, after) in enumerate(pairs):
            if after.offset < before.offset:
                if not any(one.offset >= before.offset for one in offsets[number + 1 :]):
                    return "REWIND"
                break
        if any(one.lag == 0 for one in offsets):
            return "OK"
        if len({one.offset for one in offsets}) == 1:
            return "STALL"
        return "OK" if any(after.lag < before.lag for before, after in pairs) else "WARN"
