"""Sketches of a producer's keys and sizes: live, as bytes, and what is asked of them.

Figures: different keys within 3.3 % (two standard errors), and exactly while there are few; any key
with more than 0.4 % of the weight is found, its weight off by at most that share of the total;
sizes off by at most 0.4 %.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from headgate.core.sketches.distinct import DistinctKeys
from headgate.core.sketches.heavy import HeavyKey, HeavyKeys
from headgate.core.sketches.sizes import Sizes

_QUANTILES = (0.5, 0.9, 0.99)


class Sketched(msgspec.Struct, frozen=True):
    """Sketches as bytes; empty bytes stand for a sketch that has seen nothing."""

    keys: bytes = b""
    top_events: bytes = b""
    top_bytes: bytes = b""
    sizes: bytes = b""


EMPTY = Sketched()


class EventSizes(NamedTuple):
    """Quantiles of event sizes in bytes."""

    p50: int
    p90: int
    p99: int
    max: int


class Sketches:
    """The live sketches of one window. seen: what others have seen before."""

    __slots__ = ("_keys", "_sizes", "_top_bytes", "_top_events")

    def __init__(self, seen: Sketched = EMPTY) -> None:
        self._keys = DistinctKeys(seen.keys)
        self._top_events = HeavyKeys(seen.top_events)
        self._top_bytes = HeavyKeys(seen.top_bytes)
        self._sizes = Sizes(seen.sizes)

    def add_keys(self, keys: Mapping[str, tuple[int, int]]) -> None:
        """Fold key -> (events, bytes); one call for many events costs the distinct keys only."""
        self._keys.add([key.encode() for key in keys])
        self._top_events.add({key: events for key, (events, _) in keys.items()})
        self._top_bytes.add({key: size for key, (_, size) in keys.items() if size})

    def add_sizes(self, counts: Mapping[int, int]) -> None:
        """Fold event sizes in bytes, with how often each was there."""
        self._sizes.add(counts)

    def merge(self, other: "Sketches") -> None:
        """See all that others have seen."""
        self._keys.merge(other._keys)
        self._top_events.merge(other._top_events)
        self._top_bytes.merge(other._top_bytes)
        self._sizes.merge(other._sizes)

    def serialise(self) -> Sketched:
        """As bytes."""
        if not self._top_events.total:
            return Sketched(sizes=self._sizes.serialise())
        return Sketched(
            self._keys.serialise(),
            self._top_events.serialise(),
            self._top_bytes.serialise(),
            self._sizes.serialise(),
        )


def merge(one: Sketched, other: Sketched) -> Sketched:
    """Both together, each sketch as precise as one that had seen everything."""
    if EMPTY in (one, other):
        return one if other == EMPTY else other
    both = Sketches(one)
    both.merge(Sketches(other))
    return both.serialise()


def cardinality(sketched: Sketched) -> int:
    """The number of different keys: estimated, unless all of them are kept."""
    heavy = HeavyKeys(sketched.top_events)
    return DistinctKeys(sketched.keys).count() if heavy.taken_off else len(heavy)


def top_events(sketched: Sketched, count: int) -> list[HeavyKey]:
    """The keys with the most events, heaviest first."""
    return HeavyKeys(sketched.top_events).top(count)


def top_bytes(sketched: Sketched, count: int) -> list[HeavyKey]:
    """The keys with the most bytes, heaviest first."""
    return HeavyKeys(sketched.top_bytes).top(count)


def keyed_events(sketched: Sketched) -> int:
    """How many events with a key the sketches have seen: what shares are shares of."""
    return HeavyKeys(sketched.top_events).total


def keyed_bytes(sketched: Sketched) -> int:
    """How many bytes of events with a key the sketches have seen."""
    return HeavyKeys(sketched.top_bytes).total


def quantiles(sketched: Sketched) -> EventSizes | None:
    """Sizes at the 50th, 90th and 99th percentile and the largest; None when nothing was seen."""
    sizes = Sizes(sketched.sizes)
    if not sketched.sizes:
        return None
    p50, p90, p99 = sizes.quantiles(_QUANTILES)
    return EventSizes(p50, p90, p99, sizes.largest)
