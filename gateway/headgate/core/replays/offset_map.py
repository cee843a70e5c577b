"""The records of the map topic `headgate.offsets`, and all that they say of one partition.

A record of the mirror's tells of a segment, a gap or a layout. The topic is compacted; a record
without value takes its segment back, since retention removed the records on the target.

    key    kind 1 byte (S, G, L) · layout varint · partition varint · source varint (not in L) ·
           topic UTF-8
    value  version 1 byte (1), then
      S    target varint · records varint · end - source - records varint ·
           earliest_ms zigzag varint · latest_ms - earliest_ms varint
      G    end - source varint · at_ms varint · reason UTF-8
      L    partitions varint · at_ms varint · source id, a blank, target id UTF-8

    header hg-read-bytes, on one record of a transaction: the bytes that were read from the source's
           brokers for it, in decimal digits; nothing but the mirror's progress rests on it

varint: unsigned, base 128, little end first (as in Kafka's own records). A topic's id is Kafka's,
as its tools show it. A segment of 5,000 records takes about 35 bytes beside Kafka's own framing.
"""

from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

from headgate.core.replays.segments import Gap, MapError, Segment, SegmentTable

MAP_TOPIC = "headgate.offsets"
MAP_PARTITIONS = 16  # for good: which of them a topic's partition has depends on it
READ_BYTES = "hg-read-bytes"
_VERSION = b"\x01"


class MapAddress(NamedTuple):
    """Whose map a record belongs to. layout: counts a topic's layouts, from 1."""

    topic: str
    partition: int
    layout: int


class Layout(NamedTuple):
    """An era of a topic: the same topic on both sides, with the same number of partitions.

    source_id, target_id: Kafka's ids of the two topics, which deleting and creating changes.
    at_ms: when it was opened.
    """

    partitions: int
    source_id: str
    target_id: str
    at_ms: int


class Removed(NamedTuple):
    """The segment that begins at this source offset is gone from the target."""

    source: int


class NewerMapError(MapError):
    """The mirror of a later version wrote of a partition. What its map would say without that is
    wrong: a segment that is not read looks like a hole."""

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"the offset map of {topic} [{partition}] is of a later version than this one: "
            "upgrade what reads it"
        )
        self.topic = topic
        self.partition = partition


class MapEntry(NamedTuple):
    """What a record of the map topic says. read_bytes: for its transaction; 0 = it does not say."""

    place: MapAddress
    fact: Segment | Gap | Layout | Removed
    read_bytes: int = 0


def map_partition(topic: str, partition: int) -> int:
    """The partition of the map topic that has all records of this partition's map."""
    return (crc32(topic.encode()) + partition) % MAP_PARTITIONS


def segment_record(place: MapAddress, segment: Segment) -> tuple[bytes, bytes]:
    """Key and value."""
    value = bytearray(_VERSION)
    hole = segment.end - segment.source - segment.records
    for number in (segment.target, segment.records, hole):
        _put(value, number)
    _put(value, _zigzag(segment.earliest_ms))
    _put(value, segment.latest_ms - segment.earliest_ms)
    return segment_key(place, segment.source), bytes(value)


def segment_key(place: MapAddress, source: int) -> bytes:
    """The key of the segment that begins there; with no value it takes the segment back."""
    return _key(b"S", place, source)


def gap_record(place: MapAddress, gap: Gap) -> tuple[bytes, bytes]:
    """Key and value."""
    value = bytearray(_VERSION)
    _put(value, gap.end - gap.source)
    _put(value, gap.at_ms)
    return _key(b"G", place, gap.source), bytes(value) + gap.reason.encode()


def layout_record(place: MapAddress, layout: Layout) -> tuple[bytes, bytes]:
    """Key and value."""
    value = bytearray(_VERSION)
    _put(value, layout.partitions)
    _put(value, layout.at_ms)
    ids = f"{layout.source_id} {layout.target_id}"
    return _key(b"L", place, None), bytes(value) + ids.encode()


def read_bytes(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """How many bytes were read for a record's transaction, if its headers say so."""
    found = dict(headers).get(READ_BYTES) or b""
    return int(found) if found.isdigit() else 0


def read_entry(key: bytes | None, value: bytes | None) -> MapEntry | None:
    """What a record says; None: a gap or layout that was taken back. Raises MapError."""
    try:
        return _read(key or b"", value)
    except NewerMapError:
        raise
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise MapError(f"{MAP_TOPIC} has a record that is not the mirror's: {key!r}") from error


def _read(key: bytes, value: bytes | None) -> MapEntry | None:
    kind, at = key[:1], 1
    if kind not in (b"S", b"G", b"L"):
        raise MapError("unknown kind")
    layout, at = _get(key, at)
    partition, at = _get(key, at)
    source, at = (0, at) if kind == b"L" else _get(key, at)
    place = MapAddress(key[at:].decode(), partition, layout)
    if value is not None and value[:1] != _VERSION:
        raise NewerMapError(place.topic, partition) if value > _VERSION else MapError("no version")
    if value is None:
        return MapEntry(place, Removed(source)) if kind == b"S" else None
    if kind == b"S":
        return MapEntry(place, _segment(source, value))
    first, at = _get(value, 1)
    at_ms, at = _get(value, at)
    text = value[at:].decode()
    if kind == b"G":
        return MapEntry(place, Gap(source, source + first, text, at_ms))
    source_id, target_id = text.split(" ")
    return MapEntry(place, Layout(first, source_id, target_id, at_ms))


def _segment(source: int, value: bytes) -> Segment:
    target, at = _get(value, 1)
    count, at = _get(value, at)
    hole, at = _get(value, at)
    earliest, at = _get(value, at)
    spread, _ = _get(value, at)
    earliest_ms = (earliest >> 1) ^ -(earliest & 1)
    return Segment(source, target, count, source + count + hole, earliest_ms, earliest_ms + spread)


def _key(kind: bytes, place: MapAddress, source: int | None) -> bytes:
    key = bytearray(kind)
    _put(key, place.layout)
    _put(key, place.partition)
    if source is not None:
        _put(key, source)
    return bytes(key) + place.topic.encode()


def _zigzag(number: int) -> int:
    return number << 1 if number >= 0 else (-number << 1) - 1


def _put(out: bytearray, number: int) -> None:
    if number < 0:
        raise MapError(f"{number} is below 0")
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def _get(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


class PartitionMap:
    """All that is known of one partition, folded from its records in the order of the map topic.

    One table for each pair of topics: a layout that has merely another number of partitions goes
    on in both logs where the one before it ended. Offsets mean the newest layout's two topics;
    what belongs to a deleted topic is out of range.
    is_newer: a later version has written some of it, so that nothing may be concluded.
    """

    def __init__(self) -> None:
        self.is_newer = False
        self.layouts: dict[int, Layout] = {}
        self._tables: dict[tuple[str, str], SegmentTable] = {}
        self._none = SegmentTable()

    def apply(self, entry: MapEntry) -> None:
        """Fold one record. Raises MapError when it contradicts those before it."""
        place, fact = entry.place, entry.fact
        if isinstance(fact, Layout):
            self.layouts[place.layout] = fact
            self._tables.setdefault(_ids(fact), SegmentTable())
            return
        if place.layout not in self.layouts:
            raise MapError(f"layout {place.layout} of {place.topic} has segments and no record")
        table = self._tables[_ids(self.layouts[place.layout])]
        if isinstance(fact, Segment):
            table.add(fact)
        elif isinstance(fact, Gap):
            table.add_gap(fact)
        else:
            table.remove(fact.source)

    @property
    def newest(self) -> int:
        """The number of the newest layout; 0 = there is none."""
        return max(self.layouts, default=0)

    @property
    def ids(self) -> tuple[str, str]:
        """Kafka's ids of the newest layout's two topics; empty when there is none."""
        newest = self.layouts.get(self.newest)
        return ("", "") if newest is None else _ids(newest)

    @property
    def is_alone(self) -> bool:
        """Whether no older topic of the source had the same target: it has what is mapped alone."""
        target_id = self.ids[1]
        older = {
            layout.source_id for layout in self.layouts.values() if layout.target_id == target_id
        }
        return len(older) == 1

    @property
    def target_end(self) -> int | None:
        """Where the mirror's own records end on the newest target; None: it is not known, as the
        segments of an older topic of the source have been taken back."""
        if len(self.table):
            return self.table.target_end
        same = [table for layout, table in self.tables() if layout.target_id == self.ids[1]]
        ends = [table.target_end for table in same if len(table)]
        return max(ends, default=0 if len(same) <= 1 else None)

    @property
    def table(self) -> SegmentTable:
        """The segments between both topics as they are in the newest layout."""
        return self._tables.get(self.ids, self._none)

    @property
    def lost_gaps(self) -> list[Gap]:
        """Where records are missing for good, also of deleted topics."""
        return [gap for _, table in self.tables() for gap in table.gaps if gap.is_lost]

    @property
    def lost_offsets(self) -> int:
        """How many offsets those are."""
        return sum(gap.end - gap.source for gap in self.lost_gaps)

    def tables(self) -> list[tuple[Layout, SegmentTable]]:
        """Those of deleted topics, too, oldest first, each with the newest layout it is of."""
        newest = {_ids(self.layouts[number]): number for number in sorted(self.layouts)}
        return [(self.layouts[number], self._tables[ids]) for ids, number in newest.items()]


def _ids(layout: Layout) -> tuple[str, str]:
    return layout.source_id, layout.target_id
