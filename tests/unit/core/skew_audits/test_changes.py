"""What became of topics since an earlier audit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from headgate.core.skew_audits.changes import (
    MAX_TIMES,
    Change,
    change,
    changes,
    chosen,
    times,
)
from headgate.core.skew_audits.summary import AuditSummary, summary_of
from support.scenarios.skew_summaries import SUMMARIES, published

OPPOSITE = {
    Change.WORSE: Change.BETTER, Change.BETTER: Change.WORSE, Change.SAME: Change.SAME,
}  # fmt: skip


def audit(number: int) -> AuditSummary:
    found = summary_of(published(number))
    assert found is not None
    return found


def newest_first(audits: list[AuditSummary]) -> list[AuditSummary]:
    return sorted(audits, key=lambda one: one.generated_at, reverse=True)


TIMES = some.none() | some.builds(lambda one: one.generated_at, SUMMARIES)


@given(SUMMARIES, SUMMARIES)
def test_the_other_way_round_it_is_the_opposite(one: AuditSummary, other: AuditSummary) -> None:
    assert change(one, one) is Change.SAME
    assert change(other, one) is OPPOSITE[change(one, other)]


@given(some.lists(SUMMARIES, min_size=1, max_size=5).map(newest_first), TIMES)
def test_every_topic_has_one_change_that_its_audits_bear_out(
    audits: list[AuditSummary], since: str | None
) -> None:
    found = changes({"orders": audits, "none": []}, since)
    assert set(found) == {"orders"}
    newest, earlier = audits[0], audits[1:]
    if since is not None:
        earlier = [one for one in earlier if one.generated_at <= since]
    if found["orders"] is Change.GONE:
        assert since is not None
        assert newest.generated_at <= since
    elif found["orders"] is Change.NEW:
        assert earlier == []
    else:
        assert found["orders"] is change(earlier[0], newest)


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
def test_what_is_worse(fields: dict[str, object], expected: str) -> None:
    before = audit(1)
    assert change(before, before._replace(**fields)) == expected  # type: ignore[arg-type]


def test_since_a_time_topics_are_new_or_gone() -> None:
    audits = {
        "kept": [audit(30), audit(20), audit(10)],
        "new": [audit(30)],
        "gone": [audit(20), audit(10)],
    }
    assert changes(audits) == {"kept": "same", "new": "new", "gone": "same"}
    since = audit(20).generated_at
    assert changes(audits, since) == {"kept": "same", "new": "new", "gone": "gone"}
    made = [audit(20).generated_at, audit(10).generated_at]
    assert times(audits.values()) == made
    many = [[audit(number)] for number in range(10, 10 + MAX_TIMES + 5)]
    assert len(times(many)) == MAX_TIMES


def test_which_two_are_compared() -> None:
    audits = newest_first([audit(number) for number in (10, 20, 30)])
    newest, middle, oldest = audits
    assert chosen(audits, None, None) == (middle, newest)
    assert chosen(audits, None, middle.generated_at) == (oldest, middle)
    assert chosen(audits, oldest.generated_at, None) == (oldest, newest)
    assert chosen(audits, newest.generated_at, oldest.generated_at) == (newest, oldest)
    for before, after in ((None, oldest.generated_at), ("then", None), (None, "then")):
        assert chosen(audits, before, after) is None
    assert chosen([newest], None, None) is None
    assert chosen([], None, None) is None
