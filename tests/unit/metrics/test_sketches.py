"""Sketches beside what counts everything, one by one and merged."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.metrics.sketches import KEPT, DistinctKeys, HeavyKeys, Sizes

RANKS = (0.0, 0.5, 0.9, 0.99, 1.0)
sizes_seen = st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**40)), min_size=1)
# More keys than are kept, some of them heavy.
weighed = st.lists(
    st.tuples(st.integers(0, 4 * KEPT).map(lambda n: f"k{n**2 // KEPT}"), st.integers(1, 50)),
    max_size=6 * KEPT,
)


def kept(weights: list[tuple[str, int]]) -> HeavyKeys:
    sketch = HeavyKeys()
    for start in range(0, len(weights), 100):
        some: Counter[str] = Counter()
        for key, weight in weights[start : start + 100]:
            some[key] += weight
        sketch.add(some)
    return sketch


@given(weighed, weighed)
@settings(deadline=None)
def test_heavy_keys_are_found_within_their_error(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    merged = HeavyKeys(kept(one).serialise())
    merged.merge(HeavyKeys(kept(other).serialise()))
    true: Counter[str] = Counter()
    for key, weight in one + other:
        true[key] += weight
    assert merged.total == true.total()
    assert len(merged) <= KEPT
    assert merged.taken_off <= merged.total / KEPT
    found = dict(merged.top(KEPT))
    for key, weight in true.items():
        if key in found:
            assert weight <= found[key] <= weight + merged.taken_off
        else:
            assert weight <= merged.taken_off
    if len(true) <= KEPT:
        assert found == true


@given(sizes_seen, sizes_seen)
@settings(deadline=None)
def test_sizes_at_a_rank_are_right_to_the_eighth_bit(one: list[int], other: list[int]) -> None:
    merged = Sizes()
    for some in (one, other):
        sketch = Sizes()
        sketch.add(Counter(some))
        merged.merge(Sizes(sketch.serialise()))
    every = sorted(one + other)
    assert merged.largest == every[-1]
    for rank, found in zip(RANKS, merged.quantiles(RANKS), strict=True):
        place = max(0, -int(-rank * len(every) // 1) - 1)  # the first that so many do not exceed
        assert abs(found - every[place]) <= every[place] / 256


def test_empty_sketch_has_no_quantiles() -> None:
    assert Sizes().quantiles(RANKS) == []


@pytest.mark.parametrize("count", [0, 1, 10, 300, 3_000, 30_000, 300_000])
def test_different_keys_are_counted_within_four_standard_errors(count: int) -> None:
    parts = [DistinctKeys(), DistinctKeys()]
    for number in range(count):
        parts[number % 2].add([b"key-%d" % number])
        parts[number // 2 % 2].add([b"key-%d" % number])
    merged = DistinctKeys(parts[0].serialise())
    merged.merge(DistinctKeys(parts[1].serialise()))
    assert merged.count() == pytest.approx(count, rel=4 * 1.04 / 64)
    again = DistinctKeys()
    again.add([b"key-%d" % number for number in range(count)])
    assert merged.serialise() == again.serialise()  # the same whoever saw what
