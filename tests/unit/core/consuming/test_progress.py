"""The low-water mark of work that ends in any order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headgate.core.consuming.progress import PartitionProgress


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
