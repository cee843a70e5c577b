"""Where a partition's copy goes on, and what opens a layout of it: both from the map alone."""

from dataclasses import replace

from aiokafka.errors import OffsetOutOfRangeError

from headgate.replays.offset_map import Layout, MapAddress, MapEntry, gap_record, layout_record
from headgate.replays.packed import Block
from headgate.replays.segments import FOREIGN, RECREATED, Gap, Segment
from headgate_spark.copying.copy_plan import CopyOptions, Known, Unit
from headgate_spark.mirror.map_reader import read_map
from headgate_spark.mirror.writer import MapRecord


class StalePlanError(Exception):
    """The driver planned with a map that has gone on: plan again."""


async def read_known(unit: Unit, options: CopyOptions) -> Known:
    """What the map says of the unit's partition now. Raises StalePlanError, and as `read_map`."""
    place, known = unit.place, replace(unit.known, map_offset=0)

    def see(entry: MapEntry) -> None:
        nonlocal known
        if entry.place[:2] == place[:2]:
            known = _after(known, entry)

    try:
        await read_map(options.target, {unit.map_partition: unit.known.map_offset}, see)
    except OffsetOutOfRangeError as error:
        raise StalePlanError("the map topic is not the one that was planned with") from error
    layout, is_other = known.layout, known.ids != unit.layout[1:3]
    if layout > place.layout or (layout == place.layout and is_other):
        raise StalePlanError(f"layout {layout} has been opened meanwhile")
    return known


def _after(known: Known, entry: MapEntry) -> Known:
    """What is known when one more record of the map has been read."""
    fact, layout = entry.fact, entry.place.layout
    if isinstance(fact, Layout):
        return _opened(known, fact, layout) if layout > known.layout else known
    if not isinstance(fact, Segment | Block | Gap) or layout != known.layout:
        return known
    position = fact.end if known.position is None else max(known.position, fact.end)
    known = replace(known, position=position)
    if isinstance(fact, Gap):
        return replace(known, reported_at=fact.source) if fact.reason == FOREIGN else known
    if isinstance(fact, Block):
        end, newest = fact.target_end, tuple[Segment, ...]()
    else:
        end, newest = fact.target + fact.records, (*known.newest, fact)
    end = max(known.target_end or 0, end)
    return replace(known, target_end=end, is_mapped=True, newest=newest)


def _opened(known: Known, fact: Layout, layout: int) -> Known:
    ids = (fact.source_id, fact.target_id)
    if ids == known.ids:
        return replace(known, layout=layout, newest=())  # a block's records are of one layout
    end = known.target_end if fact.target_id == known.ids[1] else 0
    return Known(0, None, layout, ids, end)


def opening(unit: Unit, known: Known, at_ms: int) -> list[MapRecord]:
    """The records that open a layout; the end of the one before it, if its topic was deleted."""
    records: list[MapRecord] = []
    if known.layout and known.ids[0] != unit.layout.source_id:
        old = MapAddress(unit.place.topic, unit.place.partition, known.layout)
        end = known.position or 0
        records.append(gap_record(old, Gap(end, end, RECREATED, at_ms)))
    return [*records, layout_record(unit.place, unit.layout)]
