"""Which keys have most of the weight: frequent items.

Misra and Gries, "Finding repeated elements" (1982), merged as by Agarwal and others,
"Mergeable summaries" (2012): a counter for each key that was seen; when there are more than `KEPT`,
the largest of those that are too many is taken off all, and whatever has nothing left goes. A key
that is not kept has at most as much weight as was taken off in all, and that is at most the total
by `KEPT`, since as much went off each of those that stay.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

KEPT: Final = 256  # so the weight of a key is off by at most 0.4 % of the total

_encode = msgspec.msgpack.encode


class HeavyKey(NamedTuple):
    """A key with its estimated weight: no less than the true one."""

    key: str
    weight: int


class _Written(msgspec.Struct, array_like=True):
    total: int
    taken_off: int
    counters: dict[str, int]


_decode = msgspec.msgpack.Decoder(_Written).decode


class HeavyKeys:
    """A sketch of keys with weights. total: of all that were seen.  taken_off: of each key."""

    __slots__ = ("_counters", "taken_off", "total")

    def __init__(self, data: bytes = b"") -> None:
        """data: what `serialise` gave."""
        self.total = 0
        self.taken_off = 0
        self._counters: dict[str, int] = {}
        if data:
            written = _decode(data)
            self.total, self.taken_off = written.total, written.taken_off
            self._counters = written.counters

    def __len__(self) -> int:
        """How many keys are kept: all that were seen while nothing was taken off."""
        return len(self._counters)

    def add(self, weights: Mapping[str, int]) -> None:
        """See keys with their weights, which are over 0."""
        counters, total = self._counters, 0
        for key, weight in weights.items():
            counters[key] = counters.get(key, 0) + weight
            total += weight
        self.total += total
        self._keep_heaviest()

    def merge(self, other: "HeavyKeys") -> None:
        """See all that another sketch has seen."""
        counters = self._counters
        for key, weight in other._counters.items():
            counters[key] = counters.get(key, 0) + weight
        self.total += other.total
        self.taken_off += other.taken_off
        self._keep_heaviest()

    def top(self, count: int) -> list[HeavyKey]:
        """The heaviest first."""
        rows: Iterable[tuple[str, int]] = self._counters.items()
        found = sorted(rows, key=lambda row: (-row[1], row[0]))[:count]
        return [HeavyKey(key, weight + self.taken_off) for key, weight in found]

    def serialise(self) -> bytes:
        """As bytes."""
        return _encode(_Written(self.total, self.taken_off, self._counters))

    def _keep_heaviest(self) -> None:
        counters = self._counters
        if len(counters) <= KEPT:
            return
        off = sorted(counters.values())[-1 - KEPT]
        self.taken_off += off
        self._counters = {key: weight - off for key, weight in counters.items() if weight > off}
