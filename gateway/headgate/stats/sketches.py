"""Streaming sketches of keys and sizes: fixed memory, mergeable over workers, from datasketches.

Figures (measured with the sizes below): key cardinality within 3.3 % (two standard errors of
HLL, lg_k 12); any key with more than 0.7 % of the weight is found, its count off by at most that
share of the total (frequent items, 512 counters); sizes off by at most 1.33 % of rank (KLL, k 200).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from datasketches import (
    frequent_items_error_type,
    frequent_strings_sketch,
    hll_sketch,
    hll_union,
    kll_ints_sketch,
    tgt_hll_type,
)
from numpy.typing import NDArray

_HLL_LG_K = 12  # 4 KiB when full; starts as a short list
_TOP_LG_K = 9  # at most 384 keys kept; starts with 8
_KLL_K = 200
_LARGEST = 2**31 - 1  # what its sketch of integers takes
_QUANTILES = (0.5, 0.9, 0.99, 1.0)


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


class Sketches:
    """The live sketches of one window."""

    __slots__ = ("_keys", "_sizes", "_top_bytes", "_top_events")

    def __init__(self) -> None:
        self._keys = hll_sketch(_HLL_LG_K, tgt_hll_type.HLL_8)
        self._top_events = frequent_strings_sketch(_TOP_LG_K)
        self._top_bytes = frequent_strings_sketch(_TOP_LG_K)
        self._sizes = kll_ints_sketch(_KLL_K)

    def add_keys(self, keys: Mapping[str, tuple[int, int]]) -> None:
        """Fold key -> (events, bytes); one call for many events costs the distinct keys only."""
        for key, (events, size) in keys.items():
            self._keys.update(key)
            self._top_events.update(key, events)
            if size:
                self._top_bytes.update(key, size)

    def add_sizes(self, sizes: NDArray[np.int64]) -> None:
        """Fold event sizes in bytes; what goes straight to a blob store may be over 2 GiB."""
        self._sizes.update(np.minimum(sizes, _LARGEST).astype(np.int32))

    def serialise(self) -> Sketched:
        """The sketches as bytes."""
        if self._keys.is_empty():
            return Sketched(sizes=self._sizes.serialize())
        return Sketched(
            self._keys.serialize_compact(),
            self._top_events.serialize(),
            self._top_bytes.serialize(),
            self._sizes.serialize(),
        )


def merge(one: Sketched, other: Sketched) -> Sketched:
    """Both together, each sketch as precise as one that had seen everything."""
    return Sketched(
        _merge_keys(one.keys, other.keys),
        _merge_top(one.top_events, other.top_events),
        _merge_top(one.top_bytes, other.top_bytes),
        _merge_sizes(one.sizes, other.sizes),
    )


def _merge_keys(one: bytes, other: bytes) -> bytes:
    if not one or not other:
        return one or other
    union = hll_union(_HLL_LG_K)
    union.update(hll_sketch.deserialize(one))
    union.update(hll_sketch.deserialize(other))
    return union.get_result(tgt_hll_type.HLL_8).serialize_compact()


def _merge_top(one: bytes, other: bytes) -> bytes:
    if not one or not other:
        return one or other
    merged = frequent_strings_sketch.deserialize(one)
    merged.merge(frequent_strings_sketch.deserialize(other))
    return merged.serialize()


def _merge_sizes(one: bytes, other: bytes) -> bytes:
    if not one or not other:
        return one or other
    merged = kll_ints_sketch.deserialize(one)
    merged.merge(kll_ints_sketch.deserialize(other))
    return merged.serialize()


def cardinality(sketched: Sketched) -> int:
    """The estimated number of different keys."""
    return round(hll_sketch.deserialize(sketched.keys).get_estimate()) if sketched.keys else 0


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


def _weight(data: bytes) -> int:
    return frequent_strings_sketch.deserialize(data).total_weight if data else 0


def _top(data: bytes, count: int) -> list[Hot]:
    if not data:
        return []
    # False negatives would hide a hot key; a false positive only shows a key that is nearly hot.
    rows = frequent_strings_sketch.deserialize(data).get_frequent_items(
        frequent_items_error_type.NO_FALSE_NEGATIVES
    )
    rows.sort(key=lambda row: (-row[1], row[0]))
    return [Hot(key, estimate) for key, estimate, _low, _high in rows[:count]]


def quantiles(sketched: Sketched) -> EventSizes | None:
    """Sizes at the 50th, 90th and 99th percentile and the largest; None when nothing was seen."""
    if not sketched.sizes:
        return None
    sketch = kll_ints_sketch.deserialize(sketched.sizes)
    if sketch.is_empty():
        return None
    return EventSizes(*_ranks(sketch, _QUANTILES))


def _ranks(sketch: kll_ints_sketch, ranks: Sequence[float]) -> tuple[int, int, int, int]:
    p50, p90, p99, largest = (int(size) for size in sketch.get_quantiles(list(ranks)))
    return p50, p90, p99, largest
