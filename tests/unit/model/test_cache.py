"""The bounded cache."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.cache import BoundedCache


def test_a_full_cache_is_emptied_before_the_next_entry() -> None:
    cache = BoundedCache[str, int](2)
    assert [cache.put("a", 1), cache.put("b", 2)] == [1, 2]
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, 2, None)
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (None, None, 3)


@given(st.lists(st.integers(0, 20)), st.integers(1, 5))
def test_it_is_bounded_and_never_wrong(keys: list[int], limit: int) -> None:
    cache = BoundedCache[int, int](limit)
    for key in keys:
        cached = cache.get(key)
        assert cached in (None, -key)
        assert cache.put(key, -key) == -key == cache.get(key)
        assert len(cache) <= limit
