"""The records of the map topic `headgate.offsets`, and one partition's map made of them.

A record has a segment, a block of segments, a gap or a layout. The topic is compacted. A segment's
tombstone takes it back, because retention removed the records on the target, or because a block has
it now: 256 segments become one record, in the transaction that writes the last of them.

    key    kind 1 byte (S, G, L) · layout varint · partition varint · source varint (not in L) ·
           topic UTF-8
    value  version 1 byte (1; 2 for a block, whose key is that of its first segment), then
      S    target varint · records varint · end - source - records varint ·
           earliest_ms zigzag varint · latest_ms - earliest_ms varint
      S, 2   a block (`replays.packed`)
      G    end - source varint · at_ms varint · reason UTF-8
      L    partitions varint · at_ms varint · source id, a blank, target id UTF-8

    header hg-read-bytes, on one record of a transaction: the bytes that were read from the source's
           brokers for it, in decimal digits; only the mirror's progress report uses it

varint: unsigned, base 128, little end first (as in Kafka's own records). A topic's id is Kafka's,
as its tools show it. A segment of 5,000 records takes about 35 bytes beside Kafka's own framing,
and 2 to 4 in a block.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from zlib import crc32

from headgate.model.internal_topics import InternalTopic, replicas_on
from headgate.replays.packed import (
    BLOCK_SEGMENTS,
    Block,
    MapError,
    decode,
    encode,
    get,
    pack,
    put,
    unzigzag,
    zigzag,
)
from headgate.replays.segments import Gap, Segment, SegmentTable

MAP_TOPIC = "headgate.offsets"
MAP_PARTITIONS = 16  # permanent: `map_partition` depends on it
READ_BYTES = "hg-read-bytes"
_VERSION = b"\x01"
_BLOCK_VERSION = b"\x02"


class MapAddress(NamedTuple):
    """The map that a record belongs to. Layouts of a topic are numbered from 1."""

    topic: str
    partition: int
    layout: int


class Layout(NamedTuple):
    """An era of a topic: the same topic on both sides, with the same number of partitions.

    Attributes:
        partitions: Their number.
        source_id: Kafka's id of the topic on the ingest tier; a recreated topic has another one.
        target_id: Kafka's id of the topic on the backfill tier.
        at_ms: Time of its beginning.
    """

    partitions: int
    source_id: str
    target_id: str
    at_ms: int


class Removed(NamedTuple):
    """The tombstone of the segment or block that begins at this source offset.

    Either retention removed it from the target, or it is part of a block now.
    """

    source: int


class NewerMapError(MapError):
    """A partition's map that the mirror of a later version wrote.

    Without these records the map would be wrong: a segment that is not read looks like a hole.
    """

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"the offset map of {topic} [{partition}] is of a later version than this one: "
            "upgrade what reads it"
        )
        self.topic = topic
        self.partition = partition


class MapEntry(NamedTuple):
    """A record of the map topic, with the read bytes of its transaction (0 if unknown)."""

    address: MapAddress
    fact: Segment | Block | Gap | Layout | Removed
    read_bytes: int = 0


def map_partition(topic: str, partition: int) -> int:
    """Return the partition of the map topic that has all records of this partition's map."""
    return (crc32(topic.encode()) + partition) % MAP_PARTITIONS


def map_topic(cluster: str, nodes: int) -> InternalTopic:
    """Return the offset map's topic on a backfill cluster with this number of nodes."""
    replicas = replicas_on(nodes)
    configs = {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(max(1, replicas - 1)),
        "unclean.leader.election.enable": "false",
    }
    return InternalTopic(MAP_TOPIC, cluster, MAP_PARTITIONS, replicas, configs)


def map_topic_faults(partitions: int, cleanup_policy: str) -> list[str]:
    """Return the faults that make an existing map topic useless, each with its fix."""
    wrong = []
    if partitions != MAP_PARTITIONS:
        wrong.append(f"it has {partitions} partitions: it must have {MAP_PARTITIONS}, for good")
    if cleanup_policy != "compact":
        wrong.append(f"cleanup.policy is {cleanup_policy}: set it to compact")
    return wrong


def segment_records(
    address: MapAddress, newest: Sequence[Segment], segments: Sequence[Segment]
) -> tuple[list[tuple[bytes, bytes | None]], tuple[Segment, ...]]:
    """Return the records that append segments to a partition's map.

    Args:
        address: The partition's map.
        newest: The segments that have a record of their own now. 256 segments become a block.
        segments: The segments to append.

    Returns:
        Keys and values; and the segments that have a record of their own afterwards.
    """
    rows, own = [*newest, *segments], len(newest)
    records: list[tuple[bytes, bytes | None]] = []
    while len(rows) >= BLOCK_SEGMENTS:
        packed, rows = rows[:BLOCK_SEGMENTS], rows[BLOCK_SEGMENTS:]
        records.append(block_record(address, pack(packed)))
        records += [(segment_key(address, segment.source), None) for segment in packed[1:own]]
        own = max(0, own - BLOCK_SEGMENTS)
    records += [segment_record(address, segment) for segment in rows[own:]]
    return records, tuple(rows)


def block_record(address: MapAddress, block: Block) -> tuple[bytes, bytes]:
    """Return the key and value of a block."""
    return segment_key(address, block.source), _BLOCK_VERSION + encode(block)


def segment_record(address: MapAddress, segment: Segment) -> tuple[bytes, bytes]:
    """Return the key and value of a segment."""
    value = bytearray(_VERSION)
    hole = segment.end - segment.source - segment.records
    for number in (segment.target, segment.records, hole):
        put(value, number)
    put(value, zigzag(segment.earliest_ms))
    put(value, segment.latest_ms - segment.earliest_ms)
    return segment_key(address, segment.source), bytes(value)


def segment_key(address: MapAddress, source: int) -> bytes:
    """Return the key of the segment or block that begins at a source offset."""
    return _key(b"S", address, source)


def gap_record(address: MapAddress, gap: Gap) -> tuple[bytes, bytes]:
    """Return the key and value of a gap."""
    value = bytearray(_VERSION)
    put(value, gap.end - gap.source)
    put(value, gap.at_ms)
    return _key(b"G", address, gap.source), bytes(value) + gap.reason.encode()


def layout_record(address: MapAddress, layout: Layout) -> tuple[bytes, bytes]:
    """Return the key and value of a layout."""
    value = bytearray(_VERSION)
    put(value, layout.partitions)
    put(value, layout.at_ms)
    ids = f"{layout.source_id} {layout.target_id}"
    return _key(b"L", address, None), bytes(value) + ids.encode()


def read_bytes(headers: Iterable[tuple[str, bytes | None]]) -> int:
    """Return the number of bytes read for a record's transaction; 0 without the header."""
    digits = dict(headers).get(READ_BYTES) or b""
    return int(digits) if digits.isdigit() else 0


def read_entry(key: bytes | None, value: bytes | None) -> MapEntry | None:
    """Read a record. None: the tombstone of a gap or layout. Raises MapError."""
    try:
        return _read(key or b"", value)
    except NewerMapError:
        raise
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise MapError(f"{MAP_TOPIC} has a record that is not the mirror's: {key!r}") from error


def _read(key: bytes, value: bytes | None) -> MapEntry | None:
    kind, address, source = _read_key(key)
    if value is not None and value[:1] != _VERSION:
        if kind == b"S" and value[:1] == _BLOCK_VERSION:
            return MapEntry(address, decode(source, value, 1))
        if value > _VERSION:
            raise NewerMapError(address.topic, address.partition)
        raise MapError("no version")
    if value is None:
        return MapEntry(address, Removed(source)) if kind == b"S" else None
    if kind == b"S":
        return MapEntry(address, _segment(source, value))
    first, at = get(value, 1)
    at_ms, at = get(value, at)
    text = value[at:].decode()
    if kind == b"G":
        return MapEntry(address, Gap(source, source + first, text, at_ms))
    source_id, target_id = text.split(" ")
    return MapEntry(address, Layout(first, source_id, target_id, at_ms))


def owner_of(key: bytes | None) -> tuple[str, int] | None:
    """Return a record's topic and partition; None if the mirror did not write it."""
    try:
        _, address, _ = _read_key(key or b"")
    except (IndexError, ValueError):
        return None
    return address.topic, address.partition


def _read_key(key: bytes) -> tuple[bytes, MapAddress, int]:
    kind, at = key[:1], 1
    if kind not in (b"S", b"G", b"L"):
        raise MapError("unknown kind")
    layout, at = get(key, at)
    partition, at = get(key, at)
    source, at = (0, at) if kind == b"L" else get(key, at)
    return kind, MapAddress(key[at:].decode(), partition, layout), source


def _segment(source: int, value: bytes) -> Segment:
    target, at = get(value, 1)
    count, at = get(value, at)
    hole, at = get(value, at)
    earliest, at = get(value, at)
    spread, _ = get(value, at)
    earliest_ms = unzigzag(earliest)
    return Segment(source, target, count, source + count + hole, earliest_ms, earliest_ms + spread)


def _key(kind: bytes, address: MapAddress, source: int | None) -> bytes:
    key = bytearray(kind)
    put(key, address.layout)
    put(key, address.partition)
    if source is not None:
        put(key, source)
    return bytes(key) + address.topic.encode()


class PartitionMap:
    """The map of one partition, folded from its records in the order of the map topic.

    It has one table for each pair of topics: a layout that only has another number of partitions
    continues in both logs. Offsets mean the two topics of the newest layout; those of deleted
    topics are out of range. If `is_newer`, a later version wrote some records, and the map must not
    be used.

    Args:
        is_outline: As for `SegmentTable`.
    """

    def __init__(self, *, is_outline: bool = False) -> None:
        self.is_newer = False
        self._is_outline = is_outline
        self.layouts: dict[int, Layout] = {}
        self._tables: dict[tuple[str, str], SegmentTable] = {}
        self._none = SegmentTable()

    def apply(self, entry: MapEntry) -> int:
        """Fold one record, and return the number of mirrored records that it adds.

        Raises:
            MapError: It contradicts earlier records.
        """
        address, fact = entry.address, entry.fact
        if isinstance(fact, Layout):
            self.layouts[address.layout] = fact
            self._tables.setdefault(_ids(fact), SegmentTable(is_outline=self._is_outline))
            return 0
        if address.layout not in self.layouts:
            raise MapError(f"layout {address.layout} of {address.topic} has segments and no record")
        table = self._tables[_ids(self.layouts[address.layout])]
        if isinstance(fact, Segment):
            return table.add(fact)
        if isinstance(fact, Block):
            return table.add_block(fact)
        if isinstance(fact, Gap):
            table.add_gap(fact)
        else:
            table.remove(fact.source)
        return 0

    @property
    def newest(self) -> int:
        """Return the number of the newest layout; 0 without one."""
        return max(self.layouts, default=0)

    @property
    def ids(self) -> tuple[str, str]:
        """Return Kafka's ids of the newest layout's two topics; empty without one."""
        newest = self.layouts.get(self.newest)
        return ("", "") if newest is None else _ids(newest)

    @property
    def is_alone(self) -> bool:
        """Return whether no older source topic had the same target.

        Such a target has only mapped records.
        """
        target_id = self.ids[1]
        older = {
            layout.source_id for layout in self.layouts.values() if layout.target_id == target_id
        }
        return len(older) == 1

    @property
    def target_end(self) -> int | None:
        """Return the end of the mirror's records on the newest target.

        None means unknown, because the segments of an older source topic were removed.
        """
        if self.table:
            return self.table.target_end
        same = [table for layout, table in self.tables() if layout.target_id == self.ids[1]]
        ends = [table.target_end for table in same if table]
        return max(ends, default=0 if len(same) <= 1 else None)

    @property
    def table(self) -> SegmentTable:
        """Return the segments between both topics in the newest layout."""
        return self._tables.get(self.ids, self._none)

    @property
    def lost_gaps(self) -> list[Gap]:
        """Return the gaps in which records are missing for good, also of deleted topics."""
        return [gap for _, table in self.tables() for gap in table.gaps if gap.is_lost]

    @property
    def lost_offsets(self) -> int:
        """Return the number of offsets in the lost gaps."""
        return sum(gap.end - gap.source for gap in self.lost_gaps)

    def tables(self) -> list[tuple[Layout, SegmentTable]]:
        """Return all tables, also of deleted topics, oldest first, each with its newest layout."""
        newest = {_ids(self.layouts[number]): number for number in sorted(self.layouts)}
        return [(self.layouts[number], self._tables[ids]) for ids, number in newest.items()]


def _ids(layout: Layout) -> tuple[str, str]:
    return layout.source_id, layout.target_id
