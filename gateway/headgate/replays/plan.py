"""A replay's plan: the pieces of both tiers' logs that a range of source offsets is read from.

A piece is a stretch of one tier's log. Mirrored records are read from the backfill tier; others
("cold") from the ingest tier, if the replay allows it. Records on neither tier are lost, and the
plan counts them.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from headgate.replays.segments import FOREIGN, SegmentTable

BACKFILL, INGEST = "backfill", "ingest"
_MAX_RANGES = 100  # of a partition, in a refusal


class Piece(NamedTuple):
    """A range of one tier's log; `end` is exclusive."""

    tier: str
    start: int
    end: int


class Logs(NamedTuple):
    """The current bounds of both logs. The ingest end is the last stable offset."""

    ingest_start: int
    ingest_end: int
    backfill_start: int


class PartitionPlan(NamedTuple):
    """The plan of one partition.

    Attributes:
        start, end: Source offsets.
        target_start, target_end: Offsets of the backfill tier around the mirrored part.
        records: Exact number of records of the mirrored part.
        cold: Number of source offsets that are not mirrored; some may have no record.
        lost: Number of source offsets that neither tier has any more.
        pieces: Mirrored and cold pieces, in order.
        foreign: Stretches of the backfill tier, start and end, with records of other writers. No
            piece has them, but a consumer that reads from target_start to target_end does.
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
    """Plan a range of one partition.

    Records that the backfill tier's retention took do not count as mirrored, even if the map still
    has them.
    """
    table = table.kept(logs.backfill_start)
    first, last = table.source_start, table.source_end
    inner_start, inner_end = max(start, first), min(end, last)
    pieces, foreign, lost = list[Piece](), list[tuple[int, int]](), 0
    before = _cold(start, min(end, first), logs)
    behind = _cold(max(start, last), end, logs)
    if before is not None:
        pieces.append(before)
    targets = (table.target_start, table.target_start)
    records = 0
    if inner_start < inner_end:
        targets = _targets(table, inner_start, inner_end)
        records = table.records_between(*targets)
        lost += _holes(table, inner_start, inner_end)
        foreign = _foreign(table, *targets)
        pieces += _backfill_pieces(foreign, *targets)
    elif table:
        targets = _edge(table, start)
    if behind is not None:
        pieces.append(behind)
    targets = (max(targets[0], logs.backfill_start), max(targets[1], logs.backfill_start))
    cold = sum(piece.end - piece.start for piece in (before, behind) if piece is not None)
    outside = max(0, min(end, first) - start) + max(0, end - max(start, last))
    return PartitionPlan(
        partition=partition,
        start=start,
        end=end,
        target_start=targets[0],
        target_end=targets[1],
        records=records,
        cold=cold,
        lost=lost + outside - cold,
        pieces=tuple(pieces),
        foreign=tuple(foreign),
    )


def _cold(start: int, end: int, logs: Logs) -> Piece | None:
    start, end = max(start, logs.ingest_start), min(end, logs.ingest_end)
    return Piece(INGEST, start, end) if start < end else None


def _targets(table: SegmentTable, start: int, end: int) -> tuple[int, int]:
    first = table.to_target(start).offset
    last = table.to_target(end).offset  # None: the end of the mirrored part
    return (
        table.target_end if first is None else first,
        table.target_end if last is None else last,
    )


def _edge(table: SegmentTable, start: int) -> tuple[int, int]:
    """Return the bounds of an empty range: a consumer that starts there reads later records."""
    offset = table.to_target(start).offset
    target = table.target_end if offset is None else offset
    return target, target


def _foreign(table: SegmentTable, start: int, end: int) -> list[tuple[int, int]]:
    """Return the stretches between two target offsets that have records of other writers."""
    stretches = []
    for source in sorted({gap.source for gap in table.gaps if gap.reason == FOREIGN}):
        before, behind = table.around(source)
        first = start if before is None else max(start, before)
        stretches.append((first, end if behind is None else min(end, behind)))
    return [(first, last) for first, last in dict.fromkeys(stretches) if first < last]


def _backfill_pieces(foreign: Iterable[tuple[int, int]], start: int, end: int) -> list[Piece]:
    pieces = []
    for first, last in (*foreign, (end, end)):
        if start < first:
            pieces.append(Piece(BACKFILL, start, first))
        start = last
    return pieces


def _holes(table: SegmentTable, start: int, end: int) -> int:
    """Count the source offsets inside the mirrored range that the mirror could not copy."""
    return sum(max(0, min(end, last) - max(start, first)) for first, last in _lost(table))


def _lost(table: SegmentTable) -> list[tuple[int, int]]:
    return [(gap.source, gap.end) for gap in table.gaps if gap.is_lost]


def missing(plan: PartitionPlan, table: SegmentTable) -> list[dict[str, int]]:
    """Return the source ranges of a plan that the backfill tier does not have, in order."""
    first, last = table.source_start, table.source_end
    inner = [(max(start, first), min(end, last)) for start, end in _lost(table)]
    outside = [(plan.start, first), *inner, (last, plan.end)]
    ranges = [(max(start, plan.start), min(end, plan.end)) for start, end in outside]
    return [{"start": start, "end": end} for start, end in ranges if start < end][:_MAX_RANGES]


class PlanTotals(NamedTuple):
    """A whole plan's figures."""

    records: int
    cold: int
    lost: int


def totals(plans: Iterable[PartitionPlan]) -> PlanTotals:
    """Sum up the plans of all partitions."""
    figures = [(plan.records, plan.cold, plan.lost) for plan in plans]
    return PlanTotals(*map(sum, zip(*figures, strict=True))) if figures else PlanTotals(0, 0, 0)


def shown(plans: Iterable[PartitionPlan]) -> dict[str, object]:
    """Return the plan as JSON, by partition: for responses, and for the runner's spec record."""
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


def pieces_of(plan: Mapping[str, Any]) -> dict[int, Sequence[Piece]]:
    """Read the pieces that `shown` wrote. Raises KeyError, TypeError or ValueError."""
    return {
        int(partition): tuple(
            Piece(str(piece["tier"]), int(piece["start"]), int(piece["end"]))
            for piece in part["pieces"]
        )
        for partition, part in plan.items()
    }
