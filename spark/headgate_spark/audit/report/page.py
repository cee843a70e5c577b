"""The result for people: one HTML page that needs nothing else."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from headgate_spark.audit.judgement.diagnosis import HOT
from headgate_spark.audit.judgement.figures import BUCKET_MS, TopicFigures
from headgate_spark.audit.judgement.measures import lorenz, usefulness
from headgate_spark.audit.judgement.what_if import what_if
from headgate_spark.audit.report.charts import Line, bars, heat_map, line_chart
from headgate_spark.audit.report.senders_table import senders_table
from headgate_spark.audit.report.tables import row, table
from headgate_spark.job.times import shown_time

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1120px;padding:0 1rem;
color:#1b2430;background:#fff}
h1,h2,h3{line-height:1.2}h2{margin-top:3rem;border-bottom:2px solid #d5dbe3}
h2,p,li,code{overflow-wrap:anywhere}.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0 1.5rem}td,th{padding:.2rem .8rem .2rem 0;
text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
tr+tr td{border-top:1px solid #e6eaef}figure{display:inline-block;margin:0 1.5rem 1.5rem 0;
vertical-align:top;max-width:100%}figcaption{font-weight:600;margin-bottom:.3rem}
svg text{font-size:11px;
fill:#48566a}svg{max-width:100%;height:auto}.axis{fill:none;stroke:#8a97a8}
polyline{fill:none;stroke-width:2}.a,circle.a{stroke:#1f6feb}.b,circle.b{stroke:#c2410c}
.c,circle.c{stroke:#8a97a8;stroke-dasharray:4 3}circle{fill:#fff}svg text.a{fill:#1f6feb;
stroke:none}svg text.b{fill:#c2410c;stroke:none}svg text.c{fill:#6a7686;stroke:none}
.heat rect{fill:#b91c1c}.bar{fill:#1f6feb}.found{background:#fef3e2;
border-left:4px solid #c2410c;padding:.5rem 1rem;margin:.5rem 0}.fine{background:#e9f7ef;
border-left:4px solid #15803d;padding:.5rem 1rem}.note{color:#6a7686}code{background:#f1f4f7}
"""


_NO_KEYS = (
    "No record has a key: there is nothing to say of heavy keys, or of what other partition counts "
    "would make of them."
)


def page(result: dict[str, Any], figures: Sequence[TopicFigures]) -> str:
    """The whole page. figures: of the same topics, for the charts."""
    topics = zip(result["topics"], figures, strict=True)
    body = "".join(_topic(topic, one) for topic, one in topics)
    listed = "".join(
        f'<tr><td><a href="#{escape(one["topic"])}">{escape(one["topic"])}</a></td>'
        f'<td class="n">{one["records"]:,}</td><td class="n">{one["bytes"]:,}</td>'
        f'<td class="n">{one["by_records"]["max_over_mean"]:.2f}</td>'
        f'<td class="n">{one["by_bytes"]["max_over_mean"]:.2f}</td>'
        f"<td>{escape(', '.join(one['diagnoses']) or 'none')}</td></tr>"
        for one in result["topics"]
    )
    head = row("th", ["topic", "records", "bytes", "max/mean", "by bytes", "diagnoses"])
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><title>Skew audit</title>'
        f"<style>{_STYLE}</style></head><body><h1>Skew audit</h1>"
        f'<p class="note">made {escape(result["generated_at"])}; max/mean 1 = even, '
        f"from {HOT} on a partition is called hot</p>"
        f"{table(head, listed)}{body}</body></html>\n"
    )


def _topic(topic: dict[str, Any], figures: TopicFigures) -> str:
    name = escape(topic["topic"])
    window, note = topic["window"], "no record in this window"
    if topic["records"]:
        note = f"{escape(window['from'])} to {escape(window['to'])}"
    facts = [
        f"{topic['records']:,} records, {topic['bytes']:,} bytes on {topic['partitions']} "
        f"partitions, {topic['distinct_keys']:,} keys",
        f"{topic['keyless_records']:,} records without key, {topic['tombstones']:,} tombstones",
        _useful(topic),
        topic["fetch"]["why"],
    ]
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    return (
        f'<section id="{name}"><h2>{name}</h2><p class="note">{note}</p>{_part(topic)}'
        f"{_notes(topic)}{_findings(topic)}<ul>{listed}</ul>{_charts(topic, figures)}"
        f"{_measures(topic)}{_what_if(topic)}{_keys(topic)}{senders_table(topic)}</section>"
    )


def _useful(topic: dict[str, Any]) -> str:
    if topic["partitions_read"] is not None:
        return "how many partitions are useful is not known, as not all of them were read"
    clauses = (usefulness(topic[f"by_{by}"]["p_max"], by) for by in ("records", "bytes"))
    return "; ".join(dict.fromkeys(clauses))


def _part(topic: dict[str, Any]) -> str:
    if topic["partitions_read"] is None:
        return ""
    read = ", ".join(map(str, topic["partitions_read"]))
    return (
        f'<p class="note">Only what was asked for by offsets is judged: partition {read} of '
        f"{topic['partitions']}. Balance, shares and advice are of these; what other partition "
        "counts would make of the keys is not known.</p>"
    )


def _notes(topic: dict[str, Any]) -> str:
    return "".join(f'<p class="found">{escape(one)}</p>' for one in topic["notes"])


def _findings(topic: dict[str, Any]) -> str:
    if not topic["findings"]:
        return '<p class="fine">Nothing is wrong with the keys of this topic.</p>'
    found = "".join(
        f'<p class="found"><strong>{escape(one["diagnosis"].replace("_", " "))}</strong>: '
        f"{escape(one['text'])}</p>"
        for one in topic["findings"]
    )
    rows = "".join(
        f"<tr><td><strong>{escape(one['action'])}</strong></td><td>{escape(one['why'])}</td>"
        f"<td>{escape(one['cost'])}</td></tr>"
        for one in topic["recommendations"]
    )
    head = "<tr><th>what to do</th><th>why</th><th>cost</th></tr>"
    return f"{found}<h3>What helps, and what does not</h3>{table(head, rows)}"


def _charts(topic: dict[str, Any], figures: TopicFigures) -> str:
    # what was asked for may begin earlier and end later than the records do
    ends_ms = figures.heat_from_ms + figures.heat_bytes.shape[1] * BUCKET_MS
    names = [shown_time(figures.heat_from_ms), shown_time(ends_ms)]
    numbers = figures.numbers or range(figures.partitions)
    charts = heat_map(
        "Bytes by partition and time", figures.heat_bytes, names, numbers, BUCKET_MS // 60_000
    )
    charts += _lorenz_chart(figures)
    if not topic["distinct_keys"]:
        return f'{charts}<p class="note">{_NO_KEYS}</p>'
    return charts + _what_if_chart(topic, figures) + _top_keys_chart(topic)


def _lorenz_chart(figures: TopicFigures) -> str:
    lines = [Line("even", "c", [(0.0, 0.0), (1.0, 1.0)])]
    for name, kind, load in (
        ("partitions by records", "a", figures.load_records),
        ("partitions by bytes", "b", figures.load_bytes),
    ):
        shares = lorenz(load)
        steps = np.linspace(0, 1, len(shares))
        points = zip(steps.tolist(), shares.tolist(), strict=True)
        lines.append(Line(name, kind, list(points)))
    if figures.key_buckets:
        lines.append(Line("keys by records", "c", _key_curve(figures)))
    return line_chart("Lorenz curve", lines, "share of partitions (keys)", "share of the load")


def _key_curve(figures: TopicFigures) -> list[tuple[float, float]]:
    keys = sum(key_bucket.keys for key_bucket in figures.key_buckets) or 1
    records = sum(key_bucket.records for key_bucket in figures.key_buckets) or 1
    points, x, y = [(0.0, 0.0)], 0, 0
    for key_bucket in figures.key_buckets:
        x, y = x + key_bucket.keys, y + key_bucket.records
        points.append((x / keys, y / records))
    return points


def _what_if_chart(topic: dict[str, Any], figures: TopicFigures) -> str:
    if figures.is_part:
        return ""
    rows = what_if(figures)
    floors = [(row["partitions"], row["floor_bytes"]) for row in topic["what_if"]]
    lines = [
        Line("predicted max/mean by records", "a", _points(rows, "max_over_mean_records")),
        Line("predicted max/mean by bytes", "b", _points(rows, "max_over_mean_bytes")),
        Line("floor by bytes: n x share of the top key", "c", floors),
    ]
    return line_chart("Other partition counts", lines, "partitions", "max/mean")


def _points(rows: Iterable[Any], name: str) -> list[tuple[float, float]]:
    return [(row.partitions, getattr(row, name)) for row in rows]


def _top_keys_chart(topic: dict[str, Any]) -> str:
    heavy = sorted(topic["top_keys"], key=lambda one: -one["byte_share"])[:12]
    rows = [(one["key"], one["byte_share"], f"{one['byte_share']:.1%}") for one in heavy]
    return bars("Heaviest keys by bytes", rows)


def _measures(topic: dict[str, Any]) -> str:
    names = ["max_over_mean", "cv", "gini", "effective_partitions", "p_max"]
    head = row("th", ["", "max/mean", "CV", "Gini", "effective partitions", "top key"])
    rows = "".join(
        row("td", [f"by {by}", *(f"{topic[f'by_{by}'][name]:.3f}" for name in names)])
        for by in ("records", "bytes")
    )
    return f"<h3>Balance</h3>{table(head, rows)}"


def _what_if(topic: dict[str, Any]) -> str:
    if not topic["what_if"] or not topic["distinct_keys"]:
        return ""
    head = row("th", ["partitions", "max/mean", "floor", "by bytes", "floor", "keys that move"])
    now = {topic["partitions"]: " (now)"}
    rows = "".join(
        row(
            "td",
            [
                f"{one['partitions']}{now.get(one['partitions'], '')}",
                f"{one['max_over_mean_records']:.2f}",
                f"{one['floor_records']:.2f}",
                f"{one['max_over_mean_bytes']:.2f}",
                f"{one['floor_bytes']:.2f}",
                f"{one['moved_share']:.0%}",
            ],
        )
        for one in topic["what_if"]
    )
    return f"<h3>What if it had other partitions</h3>{table(head, rows)}"


def _keys(topic: dict[str, Any]) -> str:
    if not topic["top_keys"]:
        return ""
    head = row("th", ["key", "records", "share", "bytes", "share", "p95 run", "producer"])
    rows = "".join(
        f"<tr><td><code>{escape(one['key'][:120])}</code></td><td class='n'>{one['records']:,}</td>"
        f"<td class='n'>{one['record_share']:.2%}</td><td class='n'>{one['bytes']:,}</td>"
        f"<td class='n'>{one['byte_share']:.2%}</td><td class='n'>{one['run_p95']}</td>"
        f"<td>{escape(one['producer'] or '(no hg-producer)')}</td></tr>"
        for one in topic["top_keys"][:20]
    )
    return f"<h3>Top keys</h3>{table(head, rows)}"
