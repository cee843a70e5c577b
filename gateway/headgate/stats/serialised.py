"""Serialised sketches as plain data, and what is asked of them.

The library that understands them (datasketches, and numpy with it) takes 13 MiB of memory. The
first question that needs it loads it: a parent that nobody asks for keys only passes bytes on.
"""

from typing import NamedTuple

import msgspec


class Sketched(msgspec.Struct, frozen=True):
    """Serialised sketches; empty bytes stand for a sketch that has seen nothing."""

    keys: bytes = b""
    top_events: bytes = b""
    top_bytes: bytes = b""
    sizes: bytes = b""


EMPTY = Sketched()


class Hot(NamedTuple):
    """A heavy key with its estimated weight (events or bytes)."""

    key: str
    weight: int


class EventSizes(NamedTuple):
    """Quantiles of event sizes in bytes."""

    p50: int
    p90: int
    p99: int
    max: int


def merge(one: Sketched, other: Sketched) -> Sketched:
    """Both together, each sketch as precise as one that had seen everything."""
    if EMPTY in (one, other):
        return one if other == EMPTY else other
    from headgate.stats import sketches

    return sketches.merge(one, other)


def cardinality(sketched: Sketched) -> int:
    """The estimated number of different keys."""
    if not sketched.keys:
        return 0
    from headgate.stats import sketches

    return sketches.cardinality(sketched.keys)


def top_events(sketched: Sketched, count: int) -> list[Hot]:
    """The keys with the most events, heaviest first."""
    return _top(sketched.top_events, count)


def top_bytes(sketched: Sketched, count: int) -> list[Hot]:
    """The keys with the most bytes, heaviest first."""
    return _top(sketched.top_bytes, count)


def keyed_events(sketched: Sketched) -> int:
    """How many events with a key the sketches have seen: what shares are shares of."""
    return _weight(sketched.top_events)


def keyed_bytes(sketched: Sketched) -> int:
    """How many bytes of events with a key the sketches have seen."""
    return _weight(sketched.top_bytes)


def quantiles(sketched: Sketched) -> EventSizes | None:
    """Sizes at the 50th, 90th and 99th percentile and the largest; None when nothing was seen."""
    if not sketched.sizes:
        return None
    from headgate.stats import sketches

    return sketches.quantiles(sketched.sizes)


def _top(data: bytes, count: int) -> list[Hot]:
    if not data:
        return []
    from headgate.stats import sketches

    return sketches.top(data, count)


def _weight(data: bytes) -> int:
    if not data:
        return 0
    from headgate.stats import sketches

    return sketches.weight(data)
