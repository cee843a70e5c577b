"""The charts of a topic, and which of them it has: none that would show nothing."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from headgate.charts.charts import Axis, Line, Mark, bars, line_chart, percent
from headgate_spark.audit.judgement.diagnosis import EMPTY_KEY
from headgate_spark.audit.judgement.figures import TopicFigures
from headgate_spark.audit.judgement.measures import lorenz
from headgate_spark.audit.judgement.what_if import what_if
from headgate_spark.audit.report.heat_map import heat_map

_BARS = 12
_MAX_POINTS = 200  # of a curve: more cannot be told apart
_VISIBLE = 0.001  # share of the bytes from which a key has a bar
_NO_KEYS = (
    "No record has a key: there is nothing to say of heavy keys, or of what other partition counts "
    "would make of them."
)
_NO_HEAVY_KEY = "No key has 0.1% of the bytes."


def charts(topic: dict[str, Any], figures: TopicFigures) -> str:
    """All charts of a topic, with what is said in place of those that would be empty."""
    if not figures.records:
        return ""
    drawn = [heat_map("Bytes by partition and time", figures.heat, figures.partitions)]
    if figures.load_records.size > 1:  # one partition has all of it
        drawn.append(_lorenz_chart(figures))
    said = [] if topic["distinct_keys"] else [_NO_KEYS]
    if topic["distinct_keys"]:
        drawn.append(_what_if_chart(topic, figures))
        heavy = _heavy(topic["top_keys"])
        if heavy:
            drawn.append(bars("Heaviest keys", "of the topic's bytes", heavy))
        else:
            said.append(_NO_HEAVY_KEY)
    notes = "".join(f'<p class="note">{one}</p>' for one in said)
    return f'<div class="charts">{"".join(drawn)}</div>{notes}'


def _heavy(keys: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    visible = [one for one in keys if one["byte_share"] >= _VISIBLE]
    heavy = sorted(visible, key=lambda one: -one["byte_share"])[:_BARS]
    return [(one["key"] or EMPTY_KEY, one["byte_share"]) for one in heavy]


def _lorenz_chart(figures: TopicFigures) -> str:
    lines = [Line("if all were even", "c", [(0.0, 0.0), (1.0, 1.0)])]
    for name, kind, load in (
        ("partitions by records", "a", figures.load_records),
        ("partitions by bytes", "b", figures.load_bytes),
    ):
        shares = lorenz(load)
        at = np.unique(np.linspace(0, len(shares) - 1, _MAX_POINTS).round().astype(int))
        steps, shares = at / (len(shares) - 1), shares[at]
        points = zip(steps.tolist(), shares.tolist(), strict=True)
        lines.append(Line(name, kind, list(points)))
    if figures.key_buckets:
        lines.append(Line("keys by records", "d", _key_curve(figures)))
    x = Axis("of the partitions (keys), lightest first", percent)
    return line_chart("Lorenz curve", lines, x, Axis("of the load", percent))


def _key_curve(figures: TopicFigures) -> list[tuple[float, float]]:
    keys = sum(key_bucket.keys for key_bucket in figures.key_buckets) or 1
    records = sum(key_bucket.records for key_bucket in figures.key_buckets) or 1
    points, x, y = [(0.0, 0.0)], 0, 0
    for key_bucket in figures.key_buckets:
        x, y = x + key_bucket.keys, y + key_bucket.records
        points.append((x / keys, y / records))
    return points


def _what_if_chart(topic: dict[str, Any], figures: TopicFigures) -> str:
    rows = [] if figures.is_part else what_if(figures)
    if len(rows) < 2:  # one count alone is no comparison
        return ""
    floors = [(row["partitions"], row["floor_bytes"]) for row in topic["what_if"]]
    lines = [
        Line("predicted, by records", "a", _points(rows, "max_over_mean_records")),
        Line("predicted, by bytes", "b", _points(rows, "max_over_mean_bytes")),
        Line("floor by bytes: n x share of the top key", "c", floors),
    ]
    x = Axis("partitions", lambda n: f"{n:g}", is_log=True)
    y = Axis("max/mean, 1 = even", lambda n: f"{n:.3g}")
    return line_chart("Other partition counts", lines, x, y, [Mark(topic["partitions"], "now")])


def _points(rows: Sequence[Any], name: str) -> list[tuple[float, float]]:
    return [(row.partitions, getattr(row, name)) for row in rows]
