"""What if a topic had another number of partitions: of those that the audit has tried, one."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from headgate.charts.charts import Axis, Line, Mark, columns, line_chart

_UNEVEN = Axis("times the mean", lambda value: f"{value:.3g}")
_COUNTS = Axis("partitions", lambda value: f"{value:g}", is_log=True)


class Foreseen(NamedTuple):
    """One number of partitions. uneven_*: the fullest over the mean.  floor: what no partitioner
    can go below, by bytes, while keys stay whole.  moved: share of the keys.

    load: each partition's bytes over the mean; none where an older job has written it.
    is_ranked: it is of some partitions, lightest first.
    """

    partitions: int
    uneven_bytes: float
    uneven_records: float
    floor: float | None
    moved: float
    load: Sequence[float]
    is_ranked: bool


class WhatIf(NamedTuple):
    """options: by partitions.  now: what the topic has.  charts: of all, and of the chosen one."""

    options: Sequence[Foreseen]
    now: Foreseen
    chosen: Foreseen
    charts: Markup


def what_if(document: Mapping[str, Any], partitions: int, asked: str | None) -> WhatIf | None:
    """partitions: of the topic.  asked: a number of them, of which the nearest is taken.

    None: there is nothing to choose from, or no record has a key.
    """
    rows = document.get("what_if") if document.get("distinct_keys") else ()
    try:
        options = sorted(map(_foreseen, rows or ()))
    except (KeyError, TypeError, ValueError):
        return None  # another release has written it, and in another way
    if len(options) < 2:
        return None
    number = re.fullmatch("[0-9]{1,6}", asked or "")
    wanted = int(number[0]) if number else partitions
    now, chosen = _nearest(options, partitions), _nearest(options, wanted)
    return WhatIf(options, now, chosen, _charts(options, now, chosen))


def _nearest(options: Sequence[Foreseen], partitions: int) -> Foreseen:
    return min(options, key=lambda one: abs(one.partitions - partitions))


def _foreseen(row: Mapping[str, Any]) -> Foreseen:
    load = row.get("load") or {"of": "partitions", "bytes": ()}
    floor = row.get("floor_bytes")
    return Foreseen(
        max(1, int(row["partitions"])),
        float(row["max_over_mean_bytes"]),
        float(row["max_over_mean_records"]),
        None if floor is None else float(floor),
        float(row["moved_share"]),
        tuple(map(float, load["bytes"])),
        load["of"] != "partitions",
    )


def _charts(options: Sequence[Foreseen], now: Foreseen, chosen: Foreseen) -> Markup:
    lines = [
        Line("by records", "a", [(one.partitions, one.uneven_records) for one in options]),
        Line("by bytes", "b", [(one.partitions, one.uneven_bytes) for one in options]),
    ]
    floors = [(one.partitions, one.floor) for one in options if one.floor is not None]
    if floors:
        lines.append(Line("least possible by bytes", "c", floors))
    marks = [Mark(now.partitions, "now")]
    if chosen is not now:
        marks.append(Mark(chosen.partitions, f"{chosen.partitions}", "mark chosen"))
    drawn = [line_chart("The fullest partition", lines, _COUNTS, _UNEVEN, marks)]
    if any(chosen.load):
        drawn.append(_load_chart(chosen))
    return Markup("").join(map(Markup, drawn))


def _load_chart(chosen: Foreseen) -> str:
    name = "quantile" if chosen.is_ranked else "partition"
    heights = [(f"{name} {place}", height) for place, height in enumerate(chosen.load)]
    of = f"{len(heights)} of {chosen.partitions} partitions, lightest first"
    x = of if chosen.is_ranked else "partition"
    return columns(f"Bytes with {chosen.partitions} partitions", x, _UNEVEN, heights)
