"""Terms of ownership: what was done for a partition counts in its own term alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.consumer.ownership import Owned, Ownership, PartitionProgress


def test_a_partition_that_comes_back_begins_another_term() -> None:
    ownership = Ownership()
    (first,) = ownership.assign([("h", 0)])
    ownership.revoke_all()
    (second,) = ownership.assign([("h", 0)])
    assert not ownership.is_current(first)
    assert ownership.is_current(second)


def test_an_assignment_without_a_revocation_ends_the_terms_before_it() -> None:
    ownership = Ownership()
    (first,) = ownership.assign([("h", 0)])
    ownership.assign([("h", 0), ("h", 1)])
    assert (ownership.is_current(first), len(ownership)) == (False, 2)


def test_offsets_of_a_term_never_go_backwards() -> None:
    ownership = Ownership()
    (owned,) = ownership.assign([("h", 0)])
    ownership.committed(owned, 7)
    assert (ownership.may_commit(owned, 5), ownership.may_commit(owned, 7)) == (False, True)


def test_the_stuck_group_of_incident_b_cannot_be_made() -> None:
    """c1 works on 5; the partition moves; c2 commits 7; c1 then wants to commit 5."""
    c1, c2 = Ownership(), Ownership()
    (work,) = c1.assign([("p", 1)])
    c1.revoke_all()
    (other,) = c2.assign([("p", 1)])
    c2.committed(other, 7)
    assert not c1.may_commit(work, 5)
    (again,) = c1.assign([("p", 1)])  # also not when it comes back
    assert not c1.may_commit(work, 5)
    assert c1.may_commit(again, 7)


@given(st.lists(st.sampled_from(["assign", "revoke", "commit"]), max_size=30), st.data())
def test_only_the_newest_term_is_ever_current(steps: list[str], data: st.DataObject) -> None:
    ownership, seen, best = Ownership(), list[Owned](), 0
    for step in steps:
        if step == "assign":
            seen += ownership.assign([("h", 0)])
            best = 0
        elif step == "revoke":
            ownership.revoke_all()
        elif seen:
            offset = data.draw(st.integers(0, 20))
            if ownership.may_commit(seen[-1], offset):
                assert offset >= best
                best = offset
                ownership.committed(seen[-1], offset)
        assert [one for one in seen if ownership.is_current(one)] in ([], seen[-1:])


# The low-water mark of work that ends in any order.


def test_the_mark_stays_before_the_first_open_event() -> None:
    progress = PartitionProgress()
    assert progress.low_water is None
    for offset in (5, 7, 9):
        progress.enter(offset, offset)
        progress.passed(offset)
    assert not progress.done(7)
    assert progress.low_water == 5
    assert progress.done(5)
    assert progress.low_water == 9
    assert progress.done(9)
    assert progress.low_water == 10


def test_an_event_of_several_records_is_read_again_from_its_first() -> None:
    progress = PartitionProgress()
    progress.passed(3)
    progress.passed(4)
    progress.enter(5, 3)
    progress.passed(5)
    assert progress.low_water == 3
    progress.done(5)
    assert progress.low_water == 6


def test_what_holds_no_events_is_passed_when_it_was_read() -> None:
    progress = PartitionProgress()
    progress.reached(3)
    assert (progress.low_water, progress.first) == (3, 3)
    progress.enter(4, 4)
    progress.passed(4)
    progress.reached(9)
    assert progress.low_water == 4
    progress.done(4)
    assert progress.low_water == 9
    progress.reached(7)
    assert progress.low_water == 9


@given(st.data())
def test_the_mark_never_passes_what_is_open_and_never_goes_back(data: st.DataObject) -> None:
    gaps = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=30))
    progress, undone, mark, offset = PartitionProgress(), set[int](), -1, 0
    entered: list[int] = []
    for gap in gaps:
        offset += gap
        progress.enter(offset, offset)
        progress.passed(offset)
        entered.append(offset)
        undone.add(offset)
        for done in data.draw(st.lists(st.sampled_from(entered), max_size=4)):
            if done in undone:
                undone.discard(done)
                progress.done(done)
        now = progress.low_water
        assert now is not None
        assert now == (min(undone) if undone else offset + 1)
        assert now >= mark
        mark = now
    for rest in sorted(undone, reverse=True):
        progress.done(rest)
    assert progress.low_water == offset + 1
    assert len(progress) == 0
