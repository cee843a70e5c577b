"""What is kept of an audit, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headgate.core.skew_audits.summary import (
    MAX_EARLIER,
    MAX_ROWS,
    AuditSummary,
    kept,
    summaries,
    summary_of,
    with_earlier,
)
from support.scenarios.skew_summaries import SUMMARIES, published

ANY_JSON = some.recursive(
    some.none() | some.booleans() | some.floats() | some.integers() | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner),
    max_leaves=5,
)


@given(SUMMARIES)
def test_what_is_kept_is_read_again_as_it_was(one: AuditSummary) -> None:
    assert summary_of(json.loads(json.dumps(kept(one)))) == one


def test_the_newest_are_kept_and_no_more() -> None:
    newest: dict[str, Any] | None = None
    for number in range(MAX_EARLIER + 5):
        newest = with_earlier(published(number), newest)
        found = [one.records for one in summaries(newest)]
        assert found == list(range(number, max(-1, number - MAX_EARLIER - 1), -1))


def test_what_is_kept_is_small() -> None:
    newest: dict[str, Any] | None = None
    for number in range(MAX_EARLIER + 1):
        newest = with_earlier(published(number, keys=50), newest)
    assert newest is not None
    assert all(len(one["top_keys"]) == MAX_ROWS for one in newest["earlier"])
    assert "findings" not in newest["earlier"][0]
    assert len(json.dumps(newest["earlier"])) < 60_000


@pytest.mark.parametrize(
    "other",
    [{}, {"topic": "orders"}, {"earlier": "none"}, {"earlier": [1, None, {}]},
     published(1) | {"window": None}, published(1) | {"top_keys": [{"key": "k"}]},
     published(1) | {"by_bytes": {}}, published(1) | {"records": "many"},
     published(1) | {"by_bytes": {"max_over_mean": float("nan")}}],
)  # fmt: skip
def test_what_another_release_wrote_is_left_out(other: dict[str, Any]) -> None:
    assert summaries(other) == []
    assert with_earlier(published(2), other)["earlier"] == []


@given(some.sampled_from(sorted(published(1))), ANY_JSON)
def test_whatever_stands_there_is_read_or_left_out(name: str, value: object) -> None:
    for one in summaries(published(1) | {name: value, "earlier": [value]}):
        assert summary_of(kept(one)) == one


def test_a_document_of_an_older_job_is_the_only_one() -> None:
    assert [one.records for one in summaries(published(3))] == [3]
    assert [one["records"] for one in with_earlier(published(4), published(3))["earlier"]] == [3]


def test_a_window_without_times_has_no_length() -> None:
    for window in ({"from": None, "to": "x"}, {"from": "2026-01-31T12:00:00Z", "to": "2026-01-31"}):
        found = summary_of(published(1) | {"window": window})
        assert found is not None
        assert found.seconds == 0.0
