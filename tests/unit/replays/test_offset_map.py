"""Records of the map topic: written, read, and folded into what is known of a partition."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.replays.offset_map import (
    MAP_PARTITIONS,
    Layout,
    MapAddress,
    MapEntry,
    NewerMapError,
    PartitionMap,
    Removed,
    block_record,
    gap_record,
    layout_record,
    map_partition,
    read_bytes,
    read_entry,
    segment_key,
    segment_record,
    segment_records,
)
from headgate.replays.packed import BLOCK_SEGMENTS, Block, MapError, pack, unpack_columns
from headgate.replays.segments import (
    FOREIGN,
    NO_RECORDS,
    RECREATED,
    RETENTION,
    Gap,
    Result,
    Segment,
)
from support.scale import examples

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
        read_entry(key, b"\x03" + value[1:])
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


class MapLog:
    """What a mirror writes of a partition to the map topic, and the naive list of its records.

    Chunks of segments with markers and holes on either side, chunks without a record, losses,
    records of others, copiers that begin anew, more partitions, a topic that is recreated, and
    retention of the target.
    """

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.log: list[tuple[bytes, bytes | None]] = []
        self.pairs: list[tuple[int, int]] = []  # source and target of what is mapped and not gone
        self.newest: tuple[Segment, ...] = ()
        self.seen = PartitionMap(is_outline=True)
        self.layout, self.ids = 0, ("a", "b")
        self.late: list[tuple[tuple[str, str], list[bytes], int]] = []
        self.source = self.target = 0
        self.open()

    @property
    def place(self) -> MapAddress:
        return ORDERS._replace(layout=self.layout)

    def write(self, *records: tuple[bytes, bytes | None]) -> None:
        for record in records:
            self.log.append(record)
            entry = read_entry(*record)
            if entry is not None:
                self.seen.apply(entry)

    def open(self) -> None:
        self.layout += 1
        self.newest = ()
        self.write(layout_record(self.place, Layout(4, *self.ids, at_ms=1)))

    def copy(self) -> None:
        """One transaction."""
        segments = []
        for _ in range(self.chance.choice([1, 1, 2, 5, 120, 300])):
            count = self.chance.choice([1, 2, 3, 20])
            source, target = self.source, self.target
            self.pairs += [(source + at, target + at) for at in range(count)]
            self.source += count + self.chance.choice([0, 0, 1, 4])
            self.target += count + self.chance.choice([0, 0, 1])
            time_ms = self.chance.randint(0, 100_000)
            segments.append(Segment(source, target, count, self.source, time_ms, time_ms))
        self.target += 1  # the marker
        records, self.newest = segment_records(self.place, self.newest, segments)
        self.write(*records)

    def gap(self) -> None:
        reason = self.chance.choice([NO_RECORDS, RETENTION, FOREIGN])
        length = 0 if reason == FOREIGN else self.chance.randint(1, 9)
        self.target += self.chance.randint(0, 2)
        self.write(gap_record(self.place, Gap(self.source, self.source + length, reason, 1)))
        self.source += length

    def restart(self) -> None:
        """Another copier knows what the driver has read."""
        self.newest = tuple(self.seen.table.newest())

    def grow(self) -> None:
        self.open()

    def recreate(self) -> None:
        self.write(gap_record(self.place, Gap(self.source, self.source, RECREATED, 1)))
        self.ids = (f"a{self.layout}", "b")
        self.source, self.pairs = self.chance.randint(0, 5), []
        self.open()

    def expire(self) -> None:
        """The target's retention, and then the mirror's driver, which may know of it late."""
        every = [record.source for record in self.seen.table.records_from()]
        target_start = self.chance.choice([0, *(target for _, target in self.pairs)])
        gone = list(self.seen.table.passed(target_start))
        keys = [
            segment_key(ORDERS._replace(layout=layout), source)
            for source in gone
            for layout in range(1, self.layout + 1)
            if self.seen.layouts[layout][1:3] == self.ids
        ]
        self.late.append((self.ids, keys, every[len(gone)] if gone else 0))
        if self.chance.random() < 0.5:
            self.take_back()

    def take_back(self) -> None:
        for ids, keys, first in self.late:
            self.write(*((key, None) for key in keys))
            if ids == self.ids:
                self.pairs = [pair for pair in self.pairs if pair[0] >= first]
        self.late = []

    def compacted(self, end: int) -> list[tuple[int, tuple[bytes, bytes | None]]]:
        """The log with its offsets when the cleaner has looked at what is before `end`."""
        last = {key: at for at, (key, _) in enumerate(self.log[:end])}
        return [
            (at, record) for at, record in enumerate(self.log) if at >= end or last[record[0]] == at
        ]


def judge(found: PartitionMap, log: MapLog) -> None:
    """Every offset goes where its record is, and every hole to the record behind it."""
    table, pairs = found.table, log.pairs
    assert (found.newest, found.ids) == (log.layout, log.ids)
    assert table.source_end == log.source or table.position is None
    assert sum(one.records for one in table) == len(pairs)
    if not pairs:
        return
    (first, target), (_, last) = pairs[0], pairs[-1]
    by_source, by_target = dict(pairs), {target: source for source, target in pairs}
    assert table.source_start <= first
    assert (table.target_start, table.target_end) == (target, last + 1)
    for offset in (table.source_start - 1, log.source):
        assert table.to_target(offset).result is Result.OUT_OF_RANGE
    for offset in (target - 1, last + 1):
        assert table.to_source(offset).result is Result.OUT_OF_RANGE
    for known, begin, end, behind, translate in (
        (by_source, table.source_start, log.source, last + 1, table.to_target),
        (by_target, target, last + 1, pairs[-1][0] + 1, table.to_source),
    ):
        following = behind
        for offset in range(end - 1, begin - 1, -1):
            following = known.get(offset, following)
            result = Result.EXACT if offset in known else Result.NEXT
            assert translate(offset) == (offset, following, result)


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_whoever_reads_the_map_whenever_knows_where_each_record_is(seed: int) -> None:
    """As it was written, after compaction, after some of it, and when compaction comes between."""
    chance = random.Random(seed)
    log = MapLog(chance)
    steps = [log.copy] * 12 + [log.gap] * 3 + [log.restart] * 2 + [log.expire] * 2
    steps += [log.take_back, log.grow, log.recreate]
    for _ in range(chance.randint(1, 40)):
        chance.choice(steps)()
    ends = [0, len(log.log), chance.randint(0, len(log.log))]
    for end in ends:
        found = PartitionMap()
        for _, record in log.compacted(end):
            if (entry := read_entry(*record)) is not None:
                found.apply(entry)
        judge(found, log)
    begun, found = chance.randint(0, len(log.log)), PartitionMap()
    late = [record for at, record in log.compacted(ends[-1]) if at >= begun]
    for record in (*log.log[:begun], *late):
        if (entry := read_entry(*record)) is not None:
            found.apply(entry)
    judge(found, log)


def test_a_full_block_takes_one_record_and_takes_its_segments_records_back() -> None:
    segments = [Segment(10 * n, 11 * n, 10, 10 * n + 10, n, n) for n in range(BLOCK_SEGMENTS + 2)]
    newest = tuple(segments[: BLOCK_SEGMENTS - 1])
    records, rest = segment_records(ORDERS, newest, segments[BLOCK_SEGMENTS - 1 :])
    assert rest == tuple(segments[BLOCK_SEGMENTS:])
    assert records[0] == block_record(ORDERS, pack(segments[:BLOCK_SEGMENTS]))
    assert records[1:] == [
        *((segment_key(ORDERS, one.source), None) for one in segments[1 : BLOCK_SEGMENTS - 1]),
        *(segment_record(ORDERS, one) for one in rest),
    ]


@given(st.binary(max_size=60))
def test_a_block_that_is_broken_is_refused_or_read(value: bytes) -> None:
    with suppress(MapError):
        entry = read_entry(segment_key(ORDERS, 5), b"\x02" + value)
        assert entry is not None
        assert isinstance(entry.fact, Block)
        source, target, segments, *_, latest_ms, columns = entry.fact
        unpack_columns(columns, source, target, segments, latest_ms)
