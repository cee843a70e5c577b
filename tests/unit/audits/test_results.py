"""What is kept of an audit, and for how long."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headgate.audits.results import (
    MAX_EARLIER,
    MAX_EARLIER_TIMES,
    MAX_ROWS,
    AuditSummary,
    LoadChange,
    NamedLoad,
    TopicChange,
    choose_pair,
    compare,
    earlier_times,
    summaries,
    summary_document,
    summary_of,
    topic_change,
    topic_changes,
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
    assert summary_of(json.loads(json.dumps(summary_document(one)))) == one


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
        assert summary_of(summary_document(one)) == one


def test_a_document_of_an_older_job_is_the_only_one() -> None:
    assert [one.records for one in summaries(published(3))] == [3]
    assert [one["records"] for one in with_earlier(published(4), published(3))["earlier"]] == [3]


def test_a_window_without_times_has_no_length() -> None:
    for window in ({"from": None, "to": "x"}, {"from": "2026-01-31T12:00:00Z", "to": "2026-01-31"}):
        found = summary_of(published(1) | {"window": window})
        assert found is not None
        assert found.seconds == 0.0


# What became of topics since an earlier audit.


OPPOSITE = {
    TopicChange.WORSE: TopicChange.BETTER,
    TopicChange.BETTER: TopicChange.WORSE,
    TopicChange.SAME: TopicChange.SAME,
}


def audit(number: int) -> AuditSummary:
    found = summary_of(published(number))
    assert found is not None
    return found


def newest_first(audits: list[AuditSummary]) -> list[AuditSummary]:
    return sorted(audits, key=lambda one: one.generated_at, reverse=True)


TIMES = some.none() | some.builds(lambda one: one.generated_at, SUMMARIES)


@given(SUMMARIES, SUMMARIES)
def test_the_other_way_round_it_is_the_opposite(one: AuditSummary, other: AuditSummary) -> None:
    assert topic_change(one, one) is TopicChange.SAME
    assert topic_change(other, one) is OPPOSITE[topic_change(one, other)]


@given(some.lists(SUMMARIES, min_size=1, max_size=5).map(newest_first), TIMES)
def test_every_topic_has_one_change_that_its_audits_bear_out(
    audits: list[AuditSummary], since: str | None
) -> None:
    found = topic_changes({"orders": audits, "none": []}, since)
    assert set(found) == {"orders"}
    newest, earlier = audits[0], audits[1:]
    if since is not None:
        earlier = [one for one in earlier if one.generated_at <= since]
    if found["orders"] is TopicChange.GONE:
        assert since is not None
        assert newest.generated_at <= since
    elif found["orders"] is TopicChange.NEW:
        assert earlier == []
    else:
        assert found["orders"] is topic_change(earlier[0], newest)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({}, "same"), ({"uneven_bytes": 2.7}, "same"), ({"uneven_bytes": 2.8}, "worse"),
     ({"uneven_bytes": 2.4}, "same"), ({"uneven_bytes": 2.2}, "better"),
     ({"uneven_records": 9.0}, "worse"),
     ({"diagnoses": ("popular", "chatty"), "uneven_bytes": 1.0}, "worse"),
     ({"diagnoses": (), "uneven_bytes": 9.0}, "better"),
     ({"diagnoses": ("chatty",)}, "same"),
     ({"diagnoses": ("chatty",), "uneven_bytes": 9.0}, "worse")],
)  # fmt: skip
def test_topic_change_follows_diagnoses_then_unevenness(
    fields: dict[str, object], expected: str
) -> None:
    before = audit(1)
    assert topic_change(before, before._replace(**fields)) == expected  # type: ignore[arg-type]


def test_since_a_time_topics_are_new_or_gone() -> None:
    audits = {
        "kept": [audit(30), audit(20), audit(10)],
        "new": [audit(30)],
        "gone": [audit(20), audit(10)],
    }
    assert topic_changes(audits) == {"kept": "same", "new": "new", "gone": "same"}
    since = audit(20).generated_at
    assert topic_changes(audits, since) == {"kept": "same", "new": "new", "gone": "gone"}
    made = [audit(20).generated_at, audit(10).generated_at]
    assert earlier_times(audits.values()) == made
    many = [[audit(number)] for number in range(10, 10 + MAX_EARLIER_TIMES + 5)]
    assert len(earlier_times(many)) == MAX_EARLIER_TIMES


def test_which_two_are_compared() -> None:
    audits = newest_first([audit(number) for number in (10, 20, 30)])
    newest, middle, oldest = audits
    assert choose_pair(audits, None, None) == (middle, newest)
    assert choose_pair(audits, None, middle.generated_at) == (oldest, middle)
    assert choose_pair(audits, oldest.generated_at, None) == (oldest, newest)
    assert choose_pair(audits, newest.generated_at, oldest.generated_at) == (newest, oldest)
    for before, after in ((None, oldest.generated_at), ("then", None), (None, "then")):
        assert choose_pair(audits, before, after) is None
    assert choose_pair([newest], None, None) is None
    assert choose_pair([], None, None) is None


# What differs between two audits.


SWAPPED = {"new": "gone", "gone": "new", "more": "less", "less": "more", "same": "same"}


@given(SUMMARIES)
def test_nothing_differs_from_itself(one: AuditSummary) -> None:
    found = compare(one, one)
    assert found.is_same
    assert (found.came, found.went, found.stayed) == ((), (), one.diagnoses)
    assert all(row.kind == "same" for row in (*found.keys, *found.producers))
    assert not any(figure.difference for figure in found.figures)


@given(SUMMARIES, SUMMARIES)
def test_the_other_way_round_every_sign_is_the_other(
    one: AuditSummary, other: AuditSummary
) -> None:
    there, back = compare(one, other), compare(other, one)
    for figure, swapped in zip(there.figures, back.figures, strict=True):
        assert (figure.name, figure.before, figure.after) == (
            swapped.name, swapped.after, swapped.before)  # fmt: skip
        if figure.difference is None:
            assert swapped.difference is None
        else:
            assert figure.difference == -(swapped.difference or 0)
    assert (there.came, there.went) == (back.went, back.came)
    assert set(there.stayed) == set(back.stayed)
    for rows, others in ((there.keys, back.keys), (there.producers, back.producers)):
        assert [row.name for row in rows] == [row.name for row in others]
        assert [row.difference for row in rows] == [-row.difference for row in others]
        assert [SWAPPED[row.kind] for row in rows] == [row.kind for row in others]
    assert there.is_same == back.is_same


@given(SUMMARIES, SUMMARIES)
def test_each_key_is_there_once_and_the_largest_change_first(
    one: AuditSummary, other: AuditSummary
) -> None:
    found = compare(one, other)
    names = [row.name for row in found.keys]
    assert len(names) == len(set(names))
    assert set(names) == {load.name for load in (*one.keys, *other.keys)}
    changes = [abs(row.difference) for row in found.keys]
    assert changes == sorted(changes, reverse=True)


def test_what_became_of_a_topic() -> None:
    one = summary_of(published(10))
    assert one is not None
    was = one._replace(
        keys=(NamedLoad("a", 5, 60, 0.6), NamedLoad("b", 5, 10, 0.1), NamedLoad("c", 1, 5, 0.05))
    )
    now = one._replace(
        records=30, useful_partitions=4, diagnoses=("chatty", "popular"),
        keys=(NamedLoad("d", 5, 70, 0.7), NamedLoad("a", 5, 20, 0.2), NamedLoad("b", 1, 30, 0.3)),
    )  # fmt: skip
    found = compare(was, now)
    assert (found.came, found.went, found.stayed) == (("chatty",), (), ("popular",))
    assert found.keys == (
        LoadChange("d", None, 0.7),
        LoadChange("a", 0.6, 0.2),
        LoadChange("b", 0.1, 0.3),
        LoadChange("c", 0.05, None),
    )
    assert [row.kind for row in found.keys] == ["new", "less", "more", "gone"]
    figures = {figure.name: figure for figure in found.figures}
    assert (figures["records"].difference, figures["records"].ratio) == (20, 3.0)
    assert figures["useful_partitions"].difference is None
    assert figures["records_per_s"].before == pytest.approx(10 / 4200)
    assert not found.is_same
