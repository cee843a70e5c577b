"""From a range of source offsets to what is read where: a replay's plan, by partition.

A piece is a stretch of one tier's log. What is mirrored is read from the backfill tier; what is not
("cold") from the ingest tier, where the replay allows it; what is in neither is lost, and said.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

from headgate.replays.segments import FOREIGN, SegmentTable

BACKFILL, INGEST = "backfill", "ingest"
_MAX_RANGES = 100  # of a partition, in a refusal


class Piece(NamedTuple):
    """Offsets of one tier's log, `end` without."""

    tier: str
    start: int
    end: int


class Logs(NamedTuple):
    """Where the logs begin and end now. The ingest end is the last stable offset."""

    ingest_start: int
    ingest_end: int
    backfill_start: int


class PartitionPlan(NamedTuple):
    """One partition's part. start, end: source offsets.

    target_start, target_end: offsets of the backfill tier between which the mirrored part lies.
    records: that the mirrored part has, exactly.  cold: source offsets that are not mirrored, some
    of which may have no record.  lost: source offsets that neither tier has any more.
    pieces: in order, mirrored and cold.  foreign: stretches of the backfill tier, from and up to,
    that have records of something else; no piece has them, but whoever reads from target_start to
    target_end does.
    """

    partition: int
    start: int
    end: int
    target_start: int
    target_end: int
    records: int
    cold: int
    lost: int
    pieces: tuple[Piece, ...]
    foreign: tuple[tuple[int, int], ...] = ()


def plan_partition(
    partition: int, start: int, end: int, table: SegmentTable, logs: Logs
) -> PartitionPlan:
    """What a range of one partition means.

    What the backfill tier's retention took is not mirrored, also where the map still has it.
    """
    table = table.kept(logs.backfill_start)
    first, last = table.source_start, table.source_end
    inner_start, inner_end = max(start, first), min(end, last)
    pieces, foreign, lost = list[Piece](), list[tuple[int, int]](), 0
    before = _cold(start, min(end, first), logs)
    behind = _cold(max(start, last), end, logs)
    if before is not None:
        pieces.append(before)
    places = (table.target_start, table.target_start)
    records = 0
    if inner_start < inner_end:
        places = _targets(table, inner_start, inner_end)
        records = table.records_between(*places)
        lost += _holes(table, inner_start, inner_end)
        foreign = _foreign(table, *places)
        pieces += _around(foreign, *places)
    elif table:
        places = _edge(table, start)
    if behind is not None:
        pieces.append(behind)
    places = (max(places[0], logs.backfill_start), max(places[1], logs.backfill_start))
    cold = sum(one.end - one.start for one in (before, behind) if one is not None)
    outside = max(0, min(end, first) - start) + max(0, end - max(start, last))
    return PartitionPlan(
        partition, start, end, *places, records, cold, lost + outside - cold, tuple(pieces),
        tuple(foreign),
    )  # fmt: skip


def _cold(start: int, end: int, logs: Logs) -> Piece | None:
    start, end = max(start, logs.ingest_start), min(end, logs.ingest_end)
    return Piece(INGEST, start, end) if start < end else None


def _targets(table: SegmentTable, start: int, end: int) -> tuple[int, int]:
    first = table.to_target(start).offset
    last = table.to_target(end).offset  # None: the end of what is mirrored
    return (
        table.target_end if first is None else first,
        table.target_end if last is None else last,
    )


def _edge(table: SegmentTable, start: int) -> tuple[int, int]:
    """Where an empty range lies: a consumer that starts there reads what is mirrored next."""
    found = table.to_target(start).offset
    place = table.target_end if found is None else found
    return place, place


def _foreign(table: SegmentTable, start: int, end: int) -> list[tuple[int, int]]:
    """Between which records of the mirror's something else has written, inside of these offsets."""
    found = []
    for source in sorted({gap.source for gap in table.gaps if gap.reason == FOREIGN}):
        before, behind = table.around(source)
        first = start if before is None else max(start, before)
        found.append((first, end if behind is None else min(end, behind)))
    return [(first, last) for first, last in dict.fromkeys(found) if first < last]


def _around(foreign: Iterable[tuple[int, int]], start: int, end: int) -> list[Piece]:
    pieces = []
    for first, last in (*foreign, (end, end)):
        if start < first:
            pieces.append(Piece(BACKFILL, start, first))
        start = last
    return pieces


def _holes(table: SegmentTable, start: int, end: int) -> int:
    """Source offsets inside the mirrored range that the mirror could not copy."""
    return sum(max(0, min(end, last) - max(start, first)) for first, last in _lost(table))


def _lost(table: SegmentTable) -> list[tuple[int, int]]:
    return [(gap.source, gap.end) for gap in table.gaps if gap.is_lost]


def missing(plan: PartitionPlan, table: SegmentTable) -> list[dict[str, int]]:
    """The source offsets of a plan that the backfill tier does not have, in order."""
    first, last = table.source_start, table.source_end
    inner = [(max(start, first), min(end, last)) for start, end in _lost(table)]
    found = [(plan.start, first), *inner, (last, plan.end)]
    ranges = [(max(start, plan.start), min(end, plan.end)) for start, end in found]
    return [{"start": start, "end": end} for start, end in ranges if start < end][:_MAX_RANGES]


class PlanTotals(NamedTuple):
    """A whole plan's figures."""

    records: int
    cold: int
    lost: int


def totals(plans: Iterable[PartitionPlan]) -> PlanTotals:
    """The sums."""
    every = list(plans)
    return PlanTotals(
        sum(one.records for one in every),
        sum(one.cold for one in every),
        sum(one.lost for one in every),
    )


def shown(plans: Iterable[PartitionPlan]) -> dict[str, object]:
    """The plan as JSON, by partition: in answers, and in the spec record for the runner."""
    return {
        str(plan.partition): {
            "source": {"start": plan.start, "end": plan.end},
            "target": {"start": plan.target_start, "end": plan.target_end},
            "records": plan.records,
            "cold_offsets": plan.cold,
            "lost_offsets": plan.lost,
            "pieces": [piece._asdict() for piece in plan.pieces],
            **({"foreign": [list(each) for each in plan.foreign]} if plan.foreign else {}),
        }
        for plan in plans
    }


class _StoredPiece(TypedDict):
    tier: str
    start: int
    end: int


class StoredPlan(TypedDict):
    """What the runner reads of one partition of `shown`."""

    pieces: Sequence[_StoredPiece]


def pieces_of(plan: Mapping[str, StoredPlan]) -> dict[int, Sequence[Piece]]:
    """Inverse of `shown`, as far as the runner needs it. Raises KeyError, TypeError, ValueError."""
    return {
        int(partition): tuple(
            Piece(str(one["tier"]), int(one["start"]), int(one["end"])) for one in part["pieces"]
        )
        for partition, part in plan.items()
    }
