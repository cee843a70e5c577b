"""Streaming sketches of keys and sizes: fixed memory, mergeable over workers, from datasketches.

Figures (measured with the sizes below): key cardinality within 3.3 % (two standard errors of
HLL, lg_k 12); any key with more than 0.7 % of the weight is found, its count off by at most that
share of the total (frequent items, 512 counters); sizes off by at most 1.33 % of rank (KLL, k 200).
"""

from collections.abc import Mapping, Sequence

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

from headgate.stats.serialised import EventSizes, Hot, Sketched

_HLL_LG_K = 12  # 4 KiB when full; starts as a short list
_TOP_LG_K = 9  # at most 384 keys kept; starts with 8
_KLL_K = 200
_LARGEST = 2**31 - 1  # what its sketch of integers takes
_QUANTILES = (0.5, 0.9, 0.99, 1.0)


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


def cardinality(keys: bytes) -> int:
    """The estimated number of different keys."""
    return round(hll_sketch.deserialize(keys).get_estimate())


def weight(data: bytes) -> int:
    """How many events, or bytes, a sketch of heavy keys has seen."""
    return frequent_strings_sketch.deserialize(data).total_weight


def top(data: bytes, count: int) -> list[Hot]:
    """The heaviest keys, heaviest first."""
    # False negatives would hide a hot key; a false positive only shows a key that is nearly hot.
    rows = frequent_strings_sketch.deserialize(data).get_frequent_items(
        frequent_items_error_type.NO_FALSE_NEGATIVES
    )
    rows.sort(key=lambda row: (-row[1], row[0]))
    return [Hot(key, estimate) for key, estimate, _low, _high in rows[:count]]


def quantiles(sizes: bytes) -> EventSizes | None:
    """Sizes at the 50th, 90th and 99th percentile and the largest; None when nothing was seen."""
    sketch = kll_ints_sketch.deserialize(sizes)
    if sketch.is_empty():
        return None
    return EventSizes(*_ranks(sketch, _QUANTILES))


def _ranks(sketch: kll_ints_sketch, ranks: Sequence[float]) -> tuple[int, int, int, int]:
    p50, p90, p99, largest = (int(size) for size in sketch.get_quantiles(list(ranks)))
    return p50, p90, p99, largest
