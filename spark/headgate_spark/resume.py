"""Where a partition's copy goes on, and what opens a layout of it: both from the map alone."""

from __future__ import annotations

from aiokafka.errors import OffsetOutOfRangeError

from headgate.core.offset_map import Entry, Layout, Place, gap_record, layout_record
from headgate.core.segments import RECREATED, Gap, Segment
from headgate_spark.copy_plan import CopyOptions, Known, Unit
from headgate_spark.map_reader import read_map
from headgate_spark.writer import MapRecord


class StalePlanError(Exception):
    """The driver planned with a map that has gone on: plan again."""


async def read_known(unit: Unit, options: CopyOptions) -> Known:
    """What the map says of the unit's partition now. Raises StalePlanError, and as `read_map`."""
    known, place = unit.known, unit.place
    layout, ids, position = known.layout, known.ids, known.position

    def see(entry: Entry) -> None:
        nonlocal layout, ids, position
        if entry.place[:2] != place[:2]:
            return
        fact = entry.fact
        if isinstance(fact, Layout):
            if entry.place.layout > layout:
                layout, was = entry.place.layout, ids
                ids = (fact.source_id, fact.target_id)
                position = position if ids == was else None
        elif isinstance(fact, Segment | Gap) and entry.place.layout == layout:
            position = fact.end if position is None else max(position, fact.end)

    try:
        await read_map(options.target, {unit.map_partition: known.map_offset}, see)
    except OffsetOutOfRangeError as error:
        raise StalePlanError("the map topic is not the one that was planned with") from error
    if layout > place.layout or (layout == place.layout and ids != unit.layout[1:3]):
        raise StalePlanError(f"layout {layout} has been opened meanwhile")
    return Known(0, position, layout, ids)


def opening(unit: Unit, known: Known, at_ms: int) -> list[MapRecord]:
    """The records that open a layout; the end of the one before it, if its topic was deleted."""
    records: list[MapRecord] = []
    if known.layout and known.ids[0] != unit.layout.source_id:
        old = Place(unit.place.topic, unit.place.partition, known.layout)
        end = known.position or 0
        records.append(gap_record(old, Gap(end, end, RECREATED, at_ms)))
    return [*records, layout_record(unit.place, unit.layout)]
