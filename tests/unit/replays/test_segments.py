"""Tables of segments against a naive model: a dict of every record."""

from __future__ import annotations

import random
import sys
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.replays.packed import BLOCK_SEGMENTS, NO_TIMESTAMP, MapError, pack
from headgate.replays.segments import (
    NO_RECORDS,
    RETENTION,
    Gap,
    Result,
    Segment,
    SegmentTable,
    Translation,
    merge,
)


@st.composite
def histories(draw: st.DrawFn) -> list[Segment]:
    """Segments as a mirror writes them: holes on either side, some of them none."""
    source = draw(st.integers(0, 5))
    target = draw(st.integers(0, 5))
    segments = []
    for _ in range(draw(st.integers(0, 12))):
        count = draw(st.integers(1, 5))
        end = source + count + draw(st.integers(0, 3))
        times = draw(st.tuples(st.integers(-5, 50), st.integers(-5, 50)))
        segments.append(Segment(source, target, count, end, min(times), max(times)))
        source = end + draw(st.integers(0, 2))
        target += count + draw(st.integers(0, 3))
    return segments


def table_of(segments: list[Segment]) -> SegmentTable:
    table = SegmentTable()
    for one in segments:
        table.add(one)
    return table


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Segment], SegmentTable]:
    """Some segments, and a table of them: some in blocks, which may pack what was there before."""
    segments = draw(histories())
    table, begun = SegmentTable(), 0
    for at, segment in enumerate(segments):
        kind = draw(st.sampled_from(["alone", "alone", "block", "packed"]))
        if kind != "block":
            assert table.add(segment) == segment.records
        if kind == "alone":
            continue
        block = pack(segments[begun : at + 1])
        assert table.add_block(block) == (segment.records if kind == "block" else 0)
        begun = at + 1
    return segments, table


def naive(pairs: list[tuple[int, int]], offset: int, end: int) -> Translation:
    """pairs: (given, wanted) of every record, in order.  end: behind what is known."""
    if not pairs or not pairs[0][0] <= offset < end:
        return Translation(offset, None, Result.OUT_OF_RANGE)
    at = bisect_left(pairs, (offset, -1))
    if at == len(pairs):
        return Translation(offset, pairs[-1][1] + 1, Result.NEXT)
    given_offset, wanted = pairs[at]
    return Translation(offset, wanted, Result.EXACT if given_offset == offset else Result.NEXT)


def records(segments: list[Segment]) -> list[tuple[int, int]]:
    return [(one.source + i, one.target + i) for one in segments for i in range(one.records)]


@given(tables())
def test_every_offset_is_translated_as_the_naive_model_does_it(
    packed: tuple[list[Segment], SegmentTable],
) -> None:
    segments, table = packed
    pairs = records(segments)
    assert len(table) == len(segments)
    assert bool(table) is bool(segments)
    assert [one[:4] for one in table] == [
        (*one[:3], following.source) for one, following in pairwise(segments)
    ] + [one[:4] for one in segments[-1:]]
    back = [(target, source) for source, target in pairs]
    end = segments[-1].end if segments else 0
    target_end = back[-1][0] + 1 if back else 0
    assert (table.source_end, table.target_end) == (end, target_end)
    for offset in range(-2, end + 3):
        assert table.to_target(offset) == naive(pairs, offset, end)
    for offset in range(-2, target_end + 3):
        assert table.to_source(offset) == naive(back, offset, target_end)


@given(histories(), st.data())
def test_what_retention_took_is_out_of_range(segments: list[Segment], data: st.DataObject) -> None:
    table = table_of(segments)
    gone = data.draw(st.integers(0, len(segments)))
    for one in data.draw(st.permutations(segments[:gone])):
        table.remove(one.source)
    pairs, end = records(segments[gone:]), segments[-1].end if segments else 0
    for offset in range(end + 2):
        assert table.to_target(offset) == naive(pairs, offset, end)
    assert table.source_end == end


@given(histories(), st.data())
def test_what_the_mirror_has_yet_to_take_back_is_gone_all_the_same(
    segments: list[Segment], data: st.DataObject
) -> None:
    """The target's log begins somewhere; nobody has told the map."""
    table, pairs = table_of(segments), records(segments)
    taken = data.draw(st.integers(0, len(segments)))
    for one in segments[:taken]:  # of this the map was told
        table.remove(one.source)
    pairs = records(segments[taken:])
    begin = data.draw(st.integers(0, (pairs[-1][1] if pairs else 0) + 3))
    left = [(source, target) for source, target in pairs if target >= begin]
    found, end = table.kept(begin), segments[-1].end if segments else 0
    assert (found.source_end, found.position) == (table.source_end, table.position)
    assert sum(one.records for one in found) == len(left)
    if len(left) == len(pairs):
        assert found is table
        return
    after = max(source for source, target in pairs if target < begin) + 1
    assert found.source_start == after
    for offset in range(end + 2):
        if left and after <= offset < end:
            assert found.to_target(offset) == naive([(after - 1, -1), *left], offset, end)
        else:
            assert found.to_target(offset).result is Result.OUT_OF_RANGE
    back = [(target, source) for source, target in left]
    target_end = back[-1][0] + 1 if back else 0
    for offset in range(target_end + 2):
        assert found.to_source(offset) == naive(back, offset, target_end)


@given(tables(), st.data())
def test_records_are_counted_and_stretches_found_as_the_naive_model_does_it(
    packed: tuple[list[Segment], SegmentTable], data: st.DataObject
) -> None:
    segments, table = packed
    targets = [target for _, target in records(segments)]
    limit = (targets[-1] if targets else 0) + 3
    start, end = sorted(data.draw(st.tuples(st.integers(0, limit), st.integers(0, limit))))
    assert table.records_between(start, end) == sum(start <= one < end for one in targets)
    source = data.draw(st.integers(0, segments[-1].end + 1 if segments else 3))
    before = [one.target + one.records for one in segments if one.source < source]
    behind = [one.target for one in segments if one.source >= source]
    assert table.around(source) == (max(before, default=None), min(behind, default=None))


@given(tables(), st.integers(-6, 60_000))
def test_no_record_of_a_time_is_before_where_it_is_looked_for(
    packed: tuple[list[Segment], SegmentTable], time_ms: int
) -> None:
    segments, table = packed
    since = table.since(time_ms)
    right = [one.source for one in segments if one.latest_ms >= time_ms]
    if since is None:
        assert right == []
        return
    assert since <= min(right)
    near = next(one for one in segments if one.source == since)
    assert near.latest_ms > time_ms - 1000
    assert all(one.latest_ms < time_ms for one in segments if one.source < since)


@given(tables(), st.data())
def test_what_retention_took_of_records_is_gone_and_nothing_else(
    packed: tuple[list[Segment], SegmentTable], data: st.DataObject
) -> None:
    """A segment that is a part of a block has no record: taking that back means nothing."""
    segments, table = packed
    outline = SegmentTable(is_outline=True)
    begins = [record.source for record in table.records_from()]
    for source in data.draw(st.permutations([one.source for one in segments])):
        if source not in begins:
            table.remove(source)
    assert len(table) == len(segments)
    gone = data.draw(st.integers(0, len(begins)))
    for source in data.draw(st.permutations(begins[:gone])):
        table.remove(source)
        outline.remove(source)
    start = begins[gone] if gone < len(begins) else None
    pairs = records([one for one in segments if start is not None and one.source >= start])
    end = segments[-1].end if segments else 0
    for offset in range(end + 2):
        assert table.to_target(offset) == naive(pairs, offset, end)


def test_removing_many_keeps_the_rest() -> None:
    many = [Segment(11 * n, 11 * n, 10, 11 * n + 11, n, n) for n in range(5000)]
    table = table_of(many)
    for one in many[:3000]:
        table.remove(one.source)
    assert [one[:4] for one in table] == [(*one[:3], one.end) for one in many[3000:]]
    assert table.to_target(many[2999].source).result is Result.OUT_OF_RANGE
    # of a block of which a part is gone, the earliest is that of the whole
    assert table.times() == (3000 // BLOCK_SEGMENTS * BLOCK_SEGMENTS, 4999)
    for one in many[3000:]:
        table.remove(one.source)
    assert len(table) == 0
    assert table.times() is None
    assert table.position == many[-1].end


@given(histories(), st.data())
def test_a_record_that_comes_again_changes_nothing(
    segments: list[Segment], data: st.DataObject
) -> None:
    table = table_of(segments)
    before = list(table)
    for one in data.draw(st.permutations(segments)):
        table.add(one)
    assert list(table) == before


@given(histories())
def test_merged_segments_say_the_same(segments: list[Segment]) -> None:
    merged = merge(segments)
    assert records(merged) == records(segments)
    assert table_of(merged).source_end == table_of(segments).source_end
    for one, following in pairwise(merged):
        is_split = one.source + one.records != following.source
        assert is_split or one.target + one.records != following.target


def test_neighbours_merge_where_both_sides_continue() -> None:
    first = Segment(10, 100, 5, 15, 7, 9)
    assert merge([first, Segment(15, 105, 2, 18, 3, 8)]) == [Segment(10, 100, 7, 18, 3, 9)]
    for other in (Segment(15, 106, 2, 17, 3, 8), Segment(16, 105, 2, 18, 3, 8)):
        assert merge([first, other]) == [first, other]


@pytest.mark.parametrize(
    "wrong",
    [
        Segment(12, 200, 5, 17, 0, 0),  # copied twice
        Segment(20, 104, 5, 25, 0, 0),  # two records in one place
        Segment(20, 200, 0, 20, 0, 0),
        Segment(20, 200, 5, 24, 0, 0),
    ],
)
def test_a_map_that_contradicts_itself_is_refused(wrong: Segment) -> None:
    table = table_of([Segment(10, 100, 5, 15, 0, 0)])
    with pytest.raises(MapError):
        table.add(wrong)


def test_gaps_are_kept_with_their_reason() -> None:
    table = table_of([Segment(0, 0, 5, 5, 0, 0)])
    lost = Gap(5, 90, RETENTION, 1000)
    table.add_gap(lost)
    table.add_gap(lost)
    table.add_gap(Gap(90, 100, NO_RECORDS, 1000))
    assert table.gaps == [lost]
    assert table.position == 100
    assert table.to_target(50) == (50, 5, Result.NEXT)
    table.add(Segment(100, 6, 1, 101, 0, 0))
    assert table.to_target(50) == (50, 6, Result.NEXT)
    assert table.to_target(101).result is Result.OUT_OF_RANGE


def test_what_held_no_record_before_the_first_segment_was_read_all_the_same() -> None:
    """Compacted or aborted: translated to the next record, not told to be mirrored some day."""
    table = SegmentTable()
    for start, end in ((3, 3), (3, 5), (5, 7)):
        table.add_gap(Gap(start, end, NO_RECORDS, 1000))
    assert (table.source_start, table.source_end) == (3, 7)
    assert table.to_target(3).result is Result.OUT_OF_RANGE, "there is no record to go on with"
    table.add(Segment(7, 0, 5, 12, 0, 0))
    assert table.source_start == 3
    assert table.to_target(2).result is Result.OUT_OF_RANGE
    assert table.to_target(3) == (3, 0, Result.NEXT)
    assert table.to_target(7) == (7, 0, Result.EXACT)
    table.add(Segment(20, 6, 1, 21, 0, 0))
    table.remove(7)
    assert table.source_start == 20, "what went with retention is before what is mirrored"
    assert table.to_target(3).result is Result.OUT_OF_RANGE


def test_what_retention_took_is_no_part_of_what_was_read() -> None:
    table = SegmentTable()
    table.add_gap(Gap(0, 0, NO_RECORDS, 1000))
    table.add_gap(Gap(0, 90, RETENTION, 1000))
    table.add(Segment(90, 0, 5, 95, 0, 0))
    assert table.source_start == 90


def test_the_first_offset_of_a_time_counts_records_out_of_order() -> None:
    table = table_of([Segment(0, 0, 5, 5, 10, 90), Segment(5, 6, 5, 10, 20, 30)])
    assert table.since(25) == 0
    assert table.since(90) == 0
    assert table.since(91) is None
    assert table.times() == (10, 90)


def test_records_without_a_timestamp_are_of_no_time() -> None:
    none = Segment(0, 0, 5, 5, NO_TIMESTAMP, NO_TIMESTAMP)
    assert table_of([none]).times() is None
    table = table_of([none, Segment(5, 6, 5, 10, 20, 30)])
    assert table.times() == (20, 30)
    assert table.since(0) == 5
    (merged,) = merge([none, Segment(5, 5, 5, 10, 20, 30)])
    assert merged[4:] == (20, 30)


def test_an_outline_knows_where_blocks_begin_and_end_and_goes_on() -> None:
    segments = [Segment(11 * n, 12 * n, 10, 11 * n + 11, n, n) for n in range(30)]
    whole, outline = SegmentTable(), SegmentTable(is_outline=True)
    for table in (whole, outline):
        for first in (0, 10, 20):
            table.add_block(pack(segments[first : first + 10]))
        for source in (0, 12):  # the second is a part of a block
            table.remove(source)
        table.add(Segment(330, 360, 5, 335, 7, 9))
        assert [record.source for record in table.records_from()] == [110, 220, 330]
        assert (table.source_start, table.position) == (110, 335)
        assert (table.target_start, table.target_end) == (120, 365)
        assert (len(table), table.times()) == (21, (7, 29))
    assert outline.memory < whole.memory
    with pytest.raises(MapError, match="outline"):
        outline.to_target(111)


def test_what_a_copier_may_be_packing_is_not_taken_back() -> None:
    """The record of the first of them becomes the block's."""
    segments = [Segment(10 * n, 11 * n, 10, 10 * n + 10, n, n) for n in range(600)]
    table, singles = SegmentTable(), table_of(segments)
    for first in (0, 200):
        table.add_block(pack(segments[first : first + 200]))
    assert list(table.passed(10**6)) == [0]  # the newest stays
    for segment in segments[400:]:
        table.add(segment)
    assert list(table.passed(10**6)) == [0, 2000]
    assert list(table.passed(11 * 300)) == [0]
    assert list(singles.passed(10**6)) == [10 * n for n in range(600 - BLOCK_SEGMENTS)]


def test_a_block_that_contradicts_the_rest_is_refused() -> None:
    table = table_of([Segment(0, 0, 5, 5, 0, 0), Segment(10, 10, 5, 15, 0, 0)])
    with pytest.raises(MapError):  # it ends before what is there ends
        table.add_block(pack([Segment(0, 0, 5, 5, 0, 0)]))
    with pytest.raises(MapError):  # two records in one place
        table.add_block(pack([Segment(20, 12, 5, 25, 0, 0)]))
    again = pack([Segment(0, 0, 5, 10, 0, 0), Segment(10, 10, 5, 15, 0, 0)])
    assert [table.add_block(again), table.add_block(again)] == [0, 0]
    assert len(table) == 2


MANY = 10_000


def many_segments(count: int) -> SegmentTable:
    """As of a mirror that commits each minute: the marker of its transaction lies between."""
    chance, table, source, target = random.Random(7), SegmentTable(), 0, 0
    for number in range(count):
        records, jitter = chance.randint(1, 5000), chance.randint(0, 900)
        time_ms = 1_795_000_000_000 + number * 60_000 + jitter
        table.add(Segment(source, target, records, source + records, time_ms - 59_000, time_ms))
        source, target = source + records, target + records + 1
    return table


def test_a_segment_takes_at_most_4_bytes() -> None:
    table = many_segments(MANY)
    arrays = [getattr(table, name) for name in SegmentTable.__slots__]
    size = sum(map(sys.getsizeof, (*arrays, *table._columns)))
    assert size / MANY <= 4
    assert 0.9 <= table.memory / size <= 1.1


@pytest.mark.parametrize("direction", ["to_target", "to_source"])
def test_a_translation_takes_a_few_steps_however_many_segments_there_are(direction: str) -> None:
    """The goal is 5 us, which are some twenty lines of Python and a search in C."""
    offsets, found = range(0, 500_000, 50_000), []
    for count in (1_000, MANY):
        translate = getattr(many_segments(count), direction)
        for offset in offsets:
            translate(offset)  # unpacks
        found.append([steps(translate, offset) for offset in offsets])
    few, many = found
    assert few == many
    assert max(many) <= 32  # a call that is written on four lines counts as four


def steps(translate: Callable[[int], object], offset: int) -> int:
    """How many lines of Python that executes."""
    lines = 0

    def trace(_: FrameType, event: str, __: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        translate(offset)
    finally:
        sys.settrace(before)
    return lines
