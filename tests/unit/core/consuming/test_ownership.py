"""Terms of ownership: what was done for a partition counts in its own term alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.consuming.ownership import Owned, Ownership


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
