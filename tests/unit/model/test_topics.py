"""What a topic's settings mean together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.model.topics import TokenBucket, TopicState, with_settings

_FOREVER = str(2**63 - 1)
STATE = TopicState("orders", "main", b"1" * 16, 3)


def test_settings_are_read_by_their_kafka_names() -> None:
    found = with_settings(STATE, {"retention.ms": "60", "cleanup.policy": "compact,delete"})
    assert found == STATE._replace(retention_ms=60, cleanup_policy="compact,delete")
    assert with_settings(STATE, {}) == STATE
    assert with_settings(STATE, {"retention.ms": None}) == STATE, "a value that may not be seen"


@pytest.mark.parametrize(
    ("policy", "retention_ms", "kept_ms"),
    [
        ("delete", 600, 600), ("compact,delete", 600, 600), ("delete,compact", 600, 600),
        ("delete", -1, None), ("compact", 600, None), ("", 600, None),
    ],
)  # fmt: skip
def test_retention_by_time_needs_a_policy_that_deletes(
    policy: str, retention_ms: int, kept_ms: int | None
) -> None:
    rules = STATE._replace(cleanup_policy=policy, retention_ms=retention_ms).rules
    assert rules.kept_ms == kept_ms
    assert (rules.compacts, rules.deletes) == ("compact" in policy, "delete" in policy)


def test_records_are_compacted_after_the_lag_of_a_topic_that_compacts() -> None:
    lag = {"min.compaction.lag.ms": "3600000"}
    assert with_settings(STATE, lag).rules.compacted_after_ms is None
    compacted = with_settings(STATE, {**lag, "cleanup.policy": "compact"})
    assert compacted.rules.compacted_after_ms == 3_600_000


def test_kafka_checks_no_time_that_it_overwrites() -> None:
    limits = {"message.timestamp.before.max.ms": "7", "message.timestamp.after.max.ms": "8"}
    rules = with_settings(STATE, limits).rules
    assert (rules.is_stamped, rules.before_ms, rules.after_ms) == (False, 7, 8)
    stamped = with_settings(STATE, {**limits, "message.timestamp.type": "LogAppendTime"}).rules
    assert (stamped.is_stamped, stamped.before_ms, stamped.after_ms) == (True, None, None)


@pytest.mark.parametrize(
    ("settings", "before_ms", "after_ms"),
    [
        # Kafka 4: there is no common limit any more.
        ({"before": _FOREVER, "after": "3600000"}, None, 3_600_000),
        # Kafka 3.6 to 3.9: the common one is in force where the new one has its default.
        ({"before": _FOREVER, "after": _FOREVER, "difference": "60000"}, 60_000, 60_000),
        ({"before": "5", "after": _FOREVER, "difference": "60000"}, 5, 60_000),
        ({"before": _FOREVER, "after": "5", "difference": _FOREVER}, None, 5),
        # Kafka before 3.6 knows only the common one.
        ({"difference": "60000"}, 60_000, 60_000),
        ({"difference": _FOREVER}, None, None),
    ],
)
def test_the_older_limit_of_times_counts_where_kafka_reads_it(
    settings: dict[str, str], before_ms: int | None, after_ms: int | None
) -> None:
    found = {f"message.timestamp.{name}.max.ms": value for name, value in settings.items()}
    rules = with_settings(STATE, found).rules
    assert (rules.before_ms, rules.after_ms) == (before_ms, after_ms)


# Token buckets.


def test_a_second_s_quota_goes_at_once_and_comes_back_steadily() -> None:
    bucket = TokenBucket(10, now_s=0.0)
    assert bucket.wait(10, 0.0) == 0
    bucket.take(10)
    assert bucket.remaining() == 0
    assert bucket.wait(5, 0.0) == 0.5
    assert bucket.wait(5, 0.5) == 0
    assert bucket.wait(10, 100.0) == 0  # it never holds more than a second's worth
    bucket.take(10)
    assert bucket.wait(1, 100.0) > 0


def test_more_than_the_bucket_holds_is_lent() -> None:
    bucket = TokenBucket(10, now_s=0.0)
    assert bucket.wait(50, 0.0) == 0
    bucket.take(50)
    assert bucket.remaining() == 0
    assert bucket.wait(1, 0.0) == 4.1  # the debt of 40 first
    assert bucket.wait(50, 0.0) == 5.0  # a full bucket


def test_less_than_one_a_second_still_lets_single_events_through() -> None:
    bucket = TokenBucket(0.25, now_s=0.0)
    assert bucket.wait(1, 0.0) == 0
    bucket.take(1)
    assert bucket.wait(1, 0.0) == 4.0
    assert bucket.wait(1, 4.0) == 0


def test_a_clock_that_stands_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1, now_s=10.0)
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
    bucket, now, spent, largest = TokenBucket(per_second, now_s=0.0), 0.0, 0, 0
    for pause, tokens in steps:
        now += pause
        if bucket.wait(tokens, now) == 0:
            bucket.take(tokens)
            spent += tokens
            largest = max(largest, tokens)
    assert spent <= per_second * now + max(per_second, largest) + 1e-6


@given(st.integers(1, 1000), st.integers(1, 5000), st.integers(1, 5000))
def test_after_the_wait_it_is_let_through(per_second: int, first: int, then: int) -> None:
    bucket = TokenBucket(per_second, now_s=0.0)
    assert bucket.wait(first, 0.0) == 0
    bucket.take(first)
    wait = bucket.wait(then, 0.0)
    assert bucket.wait(then, wait + 1e-6) == 0
