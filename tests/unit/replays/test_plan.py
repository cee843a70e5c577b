"""Plans against a model that looks at each single offset."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from headgate.replays.plan import BACKFILL, INGEST, Logs, Piece, pieces_of, plan_partition, shown
from headgate.replays.segments import FOREIGN, NO_RECORDS, RETENTION, Gap, Segment, SegmentTable


class World(NamedTuple):
    """A mirrored partition: source offset -> target offset of each mirrored record."""

    table: SegmentTable
    places: dict[int, int]
    first: int
    last: int
    lost: frozenset[int]
    strangers: frozenset[int]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    first = source = draw(st.integers(0, 30))
    target = draw(st.integers(0, 10))
    table, places, lost, strangers = SegmentTable(), dict[int, int](), set[int](), set[int]()
    if head := draw(st.integers(0, 4)):  # read, and nothing was there
        source += head
        table.add_gap(Gap(first, source, NO_RECORDS, 0))
    for _ in range(draw(st.integers(0, 6))):
        records, hole = draw(st.integers(1, 6)), draw(st.integers(0, 3))
        table.add(Segment(source, target, records, source + records + hole, 0, 0))
        places |= {source + step: target + step for step in range(records)}
        source += records + hole
        target += records + draw(st.integers(0, 2))
        if draw(st.integers(0, 4)) == 0:  # something else writes, too
            table.add_gap(Gap(source, source, FOREIGN, 0))
            some = draw(st.integers(1, 3))
            strangers |= set(range(target, target + some))
            target += some
        if draw(st.integers(0, 4)) == 0:
            wide = draw(st.integers(1, 4))
            table.add_gap(Gap(source, source + wide, RETENTION, 0))
            lost |= set(range(source, source + wide))
            source += wide
    return World(table, places, first, source, frozenset(lost), frozenset(strangers))


@given(worlds(), st.data())
def test_every_offset_is_read_once_or_said_to_be_lost(world: World, data: st.DataObject) -> None:
    ingest_start = data.draw(st.integers(0, world.last + 5))
    ingest_end = data.draw(st.integers(max(ingest_start, world.last), world.last + 20))
    backfill_start = data.draw(st.integers(0, 20))
    start = data.draw(st.integers(0, ingest_end))
    end = data.draw(st.integers(start, ingest_end))
    logs = Logs(ingest_start, ingest_end, backfill_start)
    plan = plan_partition(3, start, end, world.table, logs)

    taken = [source for source, target in world.places.items() if target < backfill_start]
    first = max(taken) + 1 if taken else world.first  # up to there retention took it
    mirrored = set(range(max(start, first), min(end, world.last)))
    outside = set(range(start, end)) - mirrored
    cold = {one for one in outside if ingest_start <= one < ingest_end}
    targets = {world.places[one] for one in mirrored if one in world.places}
    there = {one for one in targets if one >= backfill_start}

    read_cold = [
        offset for one in plan.pieces if one.tier == INGEST for offset in range(one.start, one.end)
    ]
    read_warm = [
        offset
        for one in plan.pieces
        if one.tier == BACKFILL
        for offset in range(one.start, one.end)
        if offset in set(world.places.values())
    ]
    seen = {offset for one in plan.pieces if one.tier == BACKFILL for offset in range(*one[1:])}
    assert not seen & world.strangers
    between = set(range(plan.target_start, plan.target_end)) & world.strangers
    assert between <= {offset for start, end in plan.foreign for offset in range(start, end)}
    assert sorted(read_cold) == sorted(cold)
    assert sorted(read_warm) == sorted(there)
    assert plan.records == len(there)
    assert plan.cold == len(cold)
    assert targets == there
    assert plan.lost == len(outside - cold) + len(world.lost & mirrored)


def test_pieces_survive_their_json() -> None:
    table = SegmentTable()
    table.add(Segment(10, 0, 5, 16, 0, 0))
    plan = plan_partition(2, 4, 20, table, Logs(6, 30, 1))
    wanted = (Piece(INGEST, 6, 11), Piece(BACKFILL, 1, 5), Piece(INGEST, 16, 20))
    assert pieces_of(shown([plan])) == {2: wanted}
    assert (plan.records, plan.cold, plan.lost) == (4, 9, 2)


def test_where_reading_goes_on_when_nothing_is_in_the_range() -> None:
    table = SegmentTable()
    table.add(Segment(10, 100, 5, 20, 0, 0))
    table.add(Segment(20, 107, 5, 25, 0, 0))
    logs = Logs(0, 30, 0)
    assert plan_partition(0, 16, 16, table, logs).target_start == 107
    assert plan_partition(0, 25, 25, table, logs).target_start == 112


def test_a_consumer_is_told_no_place_before_the_log() -> None:
    """It would be out of range there, and begin at the log's end where it resets to the latest."""
    table = SegmentTable()
    table.add(Segment(10, 100, 5, 20, 0, 0))
    expired = Logs(0, 30, 106)  # all of it; 105 was the marker
    plan = plan_partition(0, 20, 20, table, expired)
    assert (plan.target_start, plan.target_end, plan.pieces) == (106, 106, ())
    plan = plan_partition(0, 10, 20, table, expired)
    assert (plan.target_start, plan.target_end) == (106, 106)
    assert (plan.records, plan.cold, plan.pieces) == (0, 5, (Piece(INGEST, 10, 15),))
    plan = plan_partition(0, 10, 20, table, expired._replace(ingest_start=15))
    assert (plan.target_start, plan.target_end, plan.pieces) == (106, 106, ())
    assert (plan.records, plan.cold, plan.lost) == (0, 0, 5)
