"""What differs between two audits."""

from __future__ import annotations

import pytest
from hypothesis import given

from headgate.core.skew_audits.comparison import Row, compare
from headgate.core.skew_audits.summary import AuditSummary, Load, summary_of
from support.scenarios.skew_summaries import SUMMARIES, published

SWAPPED = {"new": "gone", "gone": "new", "more": "less", "less": "more", "same": "same"}


@given(SUMMARIES)
def test_nothing_differs_from_itself(one: AuditSummary) -> None:
    found = compare(one, one)
    assert found.is_same
    assert (found.came, found.went, found.stayed) == ((), (), one.diagnoses)
    assert all(row.change == "same" for row in (*found.keys, *found.producers))
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
        assert [SWAPPED[row.change] for row in rows] == [row.change for row in others]
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
    was = one._replace(keys=(Load("a", 5, 60, 0.6), Load("b", 5, 10, 0.1), Load("c", 1, 5, 0.05)))
    now = one._replace(
        records=30, useful=4, diagnoses=("chatty", "popular"),
        keys=(Load("d", 5, 70, 0.7), Load("a", 5, 20, 0.2), Load("b", 1, 30, 0.3)),
    )  # fmt: skip
    found = compare(was, now)
    assert (found.came, found.went, found.stayed) == (("chatty",), (), ("popular",))
    assert found.keys == (
        Row("d", None, 0.7), Row("a", 0.6, 0.2), Row("b", 0.1, 0.3), Row("c", 0.05, None)
    )  # fmt: skip
    assert [row.change for row in found.keys] == ["new", "less", "more", "gone"]
    figures = {figure.name: figure for figure in found.figures}
    assert (figures["records"].difference, figures["records"].ratio) == (20, 3.0)
    assert figures["useful_partitions"].difference is None
    assert figures["records_per_s"].before == pytest.approx(10 / 4200)
    assert not found.is_same
