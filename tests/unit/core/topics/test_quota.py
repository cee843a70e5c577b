"""Token buckets."""

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.topics.topic import TokenBucket


def test_a_second_s_quota_goes_at_once_and_comes_back_steadily() -> None:
    bucket = TokenBucket(10, now=0.0)
    assert bucket.wait(10, 0.0) == 0
    bucket.take(10)
    assert bucket.remaining() == 0
    assert bucket.wait(5, 0.0) == 0.5
    assert bucket.wait(5, 0.5) == 0
    assert bucket.wait(10, 100.0) == 0  # it never holds more than a second's worth
    bucket.take(10)
    assert bucket.wait(1, 100.0) > 0


def test_more_than_the_bucket_holds_is_lent() -> None:
    bucket = TokenBucket(10, now=0.0)
    assert bucket.wait(50, 0.0) == 0
    bucket.take(50)
    assert bucket.remaining() == 0
    assert bucket.wait(1, 0.0) == 4.1  # the debt of 40 first
    assert bucket.wait(50, 0.0) == 5.0  # a full bucket


def test_less_than_one_a_second_still_lets_single_events_through() -> None:
    bucket = TokenBucket(0.25, now=0.0)
    assert bucket.wait(1, 0.0) == 0
    bucket.take(1)
    assert bucket.wait(1, 0.0) == 4.0
    assert bucket.wait(1, 4.0) == 0


def test_a_clock_that_stands_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1, now=10.0)
    bucket.take(1)
    assert bucket.wait(1, 10.0) > 0
    assert bucket.wait(1, 9.0) > 0


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 50)), min_size=1, max_size=60),
)
def test_never_more_than_the_rate_and_one_burst(
    per_second: int, steps: list[tuple[float, int]]
) -> None:
    bucket, now, spent, largest = TokenBucket(per_second, now=0.0), 0.0, 0, 0
    for pause, tokens in steps:
        now += pause
        if bucket.wait(tokens, now) == 0:
            bucket.take(tokens)
            spent += tokens
            largest = max(largest, tokens)
    assert spent <= per_second * now + max(per_second, largest) + 1e-6


@given(st.integers(1, 1000), st.integers(1, 5000), st.integers(1, 5000))
def test_after_the_wait_it_is_let_through(per_second: int, first: int, then: int) -> None:
    bucket = TokenBucket(per_second, now=0.0)
    assert bucket.wait(first, 0.0) == 0
    bucket.take(first)
    wait = bucket.wait(then, 0.0)
    assert bucket.wait(then, wait + 1e-6) == 0
