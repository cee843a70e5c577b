"""Records of the map topic: written, read, and folded into what is known of a partition."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.core.replays.offset_map import (
    MAP_PARTITIONS,
    Layout,
    MapAddress,
    MapEntry,
    NewerMapError,
    PartitionMap,
    Removed,
    gap_record,
    layout_record,
    map_partition,
    read_bytes,
    read_entry,
    segment_key,
    segment_record,
)
from headgate.core.replays.segments import RECREATED, RETENTION, Gap, MapError, Result, Segment

BIG = st.integers(0, 2**62)
PLACES = st.builds(
    MapAddress, st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 9999),
    st.integers(1, 300),
)  # fmt: skip
ORDERS = MapAddress("orders", 3, 1)


@given(PLACES, BIG, BIG, st.integers(1, 2**31 - 1), BIG, st.integers(-(2**40), 2**53), BIG)
def test_segments_come_back(
    place: MapAddress, source: int, target: int, count: int, hole: int, earliest: int, spread: int
) -> None:
    segment = Segment(source, target, count, source + count + hole, earliest, earliest + spread)
    key, value = segment_record(place, segment)
    assert read_entry(key, value) == MapEntry(place, segment)
    assert key == segment_key(place, source)
    assert read_entry(key, None) == MapEntry(place, Removed(source))


@given(PLACES, BIG, BIG, BIG, st.sampled_from([RETENTION, RECREATED, "späte Frist"]))
def test_gaps_come_back(
    place: MapAddress, source: int, length: int, at_ms: int, reason: str
) -> None:
    gap = Gap(source, source + length, reason, at_ms)
    key, value = gap_record(place, gap)
    assert read_entry(key, value) == MapEntry(place, gap)
    assert read_entry(key, None) is None


@given(PLACES, st.integers(1, 9999), BIG)
def test_layouts_come_back(place: MapAddress, partitions: int, at_ms: int) -> None:
    layout = Layout(partitions, "abcdefghijklmnopqrstuv", "_-AB", at_ms)
    assert read_entry(*layout_record(place, layout)) == MapEntry(place, layout)


def test_a_segment_is_compact() -> None:
    segment = Segment(
        987_654_321, 987_860_000, 5000, 987_659_321, 1_795_000_000_000, 1_795_000_012_345
    )
    key, value = segment_record(ORDERS, segment)
    assert len(key) + len(value) <= 35


@given(st.binary(max_size=30), st.none() | st.binary(max_size=30))
def test_what_is_not_the_mirrors_is_refused_or_read(key: bytes, value: bytes | None) -> None:
    with suppress(MapError):
        read_entry(key, value)


@pytest.mark.parametrize("key", [None, b"", b"X\x01\x01a", b"S\x80", b"S\x01\x01\x01\xff"])
def test_foreign_records_are_refused(key: bytes | None) -> None:
    with pytest.raises(MapError):
        read_entry(key, b"\x01\x00\x01\x00\x00\x00")


def test_what_a_later_version_wrote_names_whose_map_it_is() -> None:
    key, value = segment_record(ORDERS, Segment(0, 0, 1, 1, 0, 0))
    with pytest.raises(NewerMapError, match="later version") as caught:
        read_entry(key, b"\x02" + value[1:])
    assert (caught.value.topic, caught.value.partition) == (ORDERS.topic, ORDERS.partition)
    for older in (b"", b"\x00" + value[1:]):
        with pytest.raises(MapError) as other:
            read_entry(key, older)
        assert not isinstance(other.value, NewerMapError)


def test_neighbours_are_spread_over_the_map_topic() -> None:
    assert {map_partition("orders", n) for n in range(MAP_PARTITIONS)} == set(range(MAP_PARTITIONS))
    assert map_partition("orders", 0) == 14  # for good: it is where the records are


def folded(*entries: MapEntry) -> PartitionMap:
    found = PartitionMap()
    for one in entries:
        found.apply(one)
    return found


FIRST = MapEntry(ORDERS, Layout(4, "source-a", "target-a", 1))


def test_a_segment_needs_its_layout() -> None:
    with pytest.raises(MapError):
        folded(MapEntry(ORDERS, Segment(0, 0, 1, 1, 0, 0)))
    assert PartitionMap().table.position is None


def test_another_partition_count_goes_on_where_the_layout_before_it_ended() -> None:
    more = ORDERS._replace(layout=2)
    found = folded(
        FIRST,
        MapEntry(ORDERS, Segment(0, 0, 10, 11, 5, 6)),
        MapEntry(more, Layout(6, "source-a", "target-a", 2)),
    )
    assert (found.newest, found.table.position) == (2, 11)
    found.apply(MapEntry(more, Segment(11, 11, 10, 21, 7, 8)))
    assert found.table.to_target(10) == (10, 11, Result.NEXT)
    assert found.table.to_target(3) == (3, 3, Result.EXACT)
    assert found.table.to_source(20) == (20, 20, Result.EXACT)


def test_a_topic_that_was_recreated_begins_a_table_of_its_own() -> None:
    again = ORDERS._replace(layout=2)
    found = folded(
        FIRST,
        MapEntry(ORDERS, Segment(0, 0, 10, 11, 5, 6)),
        MapEntry(ORDERS, Gap(11, 11, RECREATED, 9)),
        MapEntry(again, Layout(4, "source-b", "target-a", 2)),
    )
    assert found.table.position is None
    found.apply(MapEntry(again, Segment(0, 11, 10, 10, 7, 8)))
    assert found.table.to_target(3) == (3, 14, Result.EXACT)
    assert found.table.to_source(3).result is Result.OUT_OF_RANGE  # of the deleted topic
    old, new = found.tables()
    assert old[1].gaps == [Gap(11, 11, RECREATED, 9)]
    assert old[1].to_source(3) == (3, 3, Result.EXACT)
    assert new[0].source_id == "source-b"


def test_removed_segments_of_an_old_layout_are_of_its_table() -> None:
    again = ORDERS._replace(layout=2)
    found = folded(
        FIRST,
        MapEntry(ORDERS, Segment(0, 0, 10, 11, 5, 6)),
        MapEntry(again, Layout(4, "source-b", "target-a", 2)),
        MapEntry(again, Segment(0, 11, 10, 10, 7, 8)),
        MapEntry(ORDERS, Removed(0)),
    )
    assert found.table.to_target(3).result is Result.EXACT
    assert len(found.tables()[0][1]) == 0


def test_the_bytes_of_a_transaction_are_in_a_header() -> None:
    assert read_bytes([("hg-read-bytes", b"1729")]) == 1729
    for headers in ([], [("hg-read-bytes", None)], [("hg-read-bytes", b"-1")], [("other", b"5")]):
        assert read_bytes(headers) == 0  # type: ignore[arg-type]
