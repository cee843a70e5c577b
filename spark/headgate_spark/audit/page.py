"""The result for people: one self-contained HTML page."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from headgate.charts import (
    LEFT,
    RIGHT,
    WIDTH,
    Axis,
    Line,
    Mark,
    bars,
    figure,
    line_chart,
    percent,
    style,
    svg,
    text,
)
from headgate.model.times import shown_time
from headgate_spark.audit.diagnosis import EMPTY_KEY, HOT
from headgate_spark.audit.figures import HeatMap, TopicFigures
from headgate_spark.audit.measures import lorenz, usefulness
from headgate_spark.audit.predictions import what_if

# ---- the heat map: bytes by partition and time, with the values of each cell


_ROWS_HIGH = 300.0  # of all rows, unless there are many
_SHADES = 5  # of the scale
_LABELS = 12  # of the rows, at most


def heat_map(title: str, heat: HeatMap, partitions: int) -> str:
    """Return one row per partition and one column per time step; darker cells have more bytes.

    Args:
        partitions: Number of partitions; the fullest ones have rows.
    """
    rows, columns = heat.bytes.shape
    side = max(3.0, min(18.0, _ROWS_HIGH / rows))
    below = rows * side
    ends = heat.from_ms + columns * heat.stretch_ms
    inside = (
        f'<rect class="nothing" x="{LEFT}" y="0" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{below:.1f}"/><g class="heat">{_cells(heat, side)}'
        f"</g>{_rows(heat.numbers, side)}{_times(heat.from_ms, ends, below)}"
        f"{_scale(float(heat.bytes.max()), below + 44)}"
    )
    which = "one row for each partition"
    if rows < partitions:
        which = f"one row for each of the {rows} fullest of {partitions:,} partitions"
    unit = f"bytes in {span(heat.stretch_ms)}, {which}"
    return figure(title, unit, svg(title, inside, below + 58))


def span(ms: int) -> str:
    """Format a duration for people."""
    minutes = ms // 60_000
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:g} hours"


def size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def minute(ms: int) -> str:
    """Format a time for people, in UTC, to the minute."""
    return shown_time(ms)[:16].replace("T", " ")


def _cells(heat: HeatMap, side: float) -> str:
    wide = (WIDTH - LEFT - RIGHT) / heat.bytes.shape[1]
    top = heat.bytes.max() or 1.0
    drawn = []
    for row, column in np.argwhere(heat.bytes > 0):
        value, began = heat.bytes[row, column], heat.from_ms + int(column) * heat.stretch_ms
        label = (
            f"partition {heat.numbers[row]}, {minute(began)} to "
            f"{minute(began + heat.stretch_ms)}: {size(value)}"
        )
        drawn.append(
            f'<rect x="{LEFT + column * wide:.1f}" y="{row * side:.1f}" width="{wide:.2f}" '
            f'height="{side:.1f}" fill-opacity="{max(0.03, value / top):.3f}">'
            f"<title>{escape(label)}</title></rect>"
        )
    return "".join(drawn)


def _rows(numbers: Sequence[int], side: float) -> str:
    step = -(-len(numbers) // _LABELS)
    labels = list(enumerate(numbers))[::step]
    return "".join(
        text(LEFT - 5, (row + 0.5) * side + 4, str(number), "end") for row, number in labels
    )


def _times(from_ms: int, ends_ms: int, below: float) -> str:
    first, last = minute(from_ms), minute(ends_ms)
    return (
        text(LEFT, below + 15, first, "start")
        + text(WIDTH - RIGHT, below + 15, last, "end")
        + text((LEFT + WIDTH - RIGHT) / 2, below + 30, "UTC", "middle")
    )


def _scale(top: float, y: float) -> str:
    """Draw the legend of the shades, from nothing to the darkest cell."""
    boxes = "".join(
        f'<rect x="{LEFT + 14 + 22 * step}" y="{y:.0f}" width="22" height="10" '
        f'fill-opacity="{(step + 1) / _SHADES:.2f}"/>'
        for step in range(_SHADES)
    )
    right = LEFT + 20 + 22 * _SHADES
    return (
        f'<g class="heat">{boxes}</g>{text(LEFT + 8, y + 9, "0", "end")}'
        f"{text(right, y + 9, size(top), 'start')}"
    )


# ---- the charts of a topic, without empty ones


_BARS = 12
_MAX_POINTS = 200  # of a curve: more cannot be distinguished
_VISIBLE = 0.001  # share of the bytes from which a key has a bar
_NO_KEYS = (
    "No record has a key: there is nothing to say of heavy keys, or of what other partition counts "
    "would make of them."
)
_NO_HEAVY_KEY = "No key has 0.1% of the bytes."


def topic_charts(topic: dict[str, Any], figures: TopicFigures) -> str:
    """Return all charts of a topic, with a text in place of each chart that would be empty."""
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
    notes = "".join(f'<p class="note">{sentence}</p>' for sentence in said)
    return f'<div class="charts">{"".join(drawn)}</div>{notes}'


def _heavy(keys: Iterable[dict[str, Any]]) -> list[tuple[str, float]]:
    visible = [key for key in keys if key["byte_share"] >= _VISIBLE]
    heavy = sorted(visible, key=lambda key: -key["byte_share"])[:_BARS]
    return [(key["key"] or EMPTY_KEY, key["byte_share"]) for key in heavy]


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


# ---- tables: wide ones scroll by themselves, so that a narrow screen shows the rest


_MAX_KEY = 120  # characters


def table(head: str, rows: str) -> str:
    """Return a table. `head` and `rows`: results of `row`, or the caller's own rows."""
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def row(cell: str, texts: Sequence[str]) -> str:
    """Return a name and its figures. `cell`: th or td."""
    first = f"<{cell}>{escape(texts[0])}</{cell}>"
    rest = "".join(f'<{cell} class="n">{escape(text)}</{cell}>' for text in texts[1:])
    return f"<tr>{first}{rest}</tr>"


def key_cell(key: str) -> str:
    """Return the table cell of a key; an empty key is described."""
    if not key:
        return f'<span class="note">{EMPTY_KEY}</span>'
    return f"<code>{escape(key[:_MAX_KEY])}</code>"


# ---- the table of producers: events that each sent, and those that Kafka never saw


def senders_table(topic: dict[str, Any]) -> str:
    """Return the page's table of producers, with the basis of its numbers."""
    counts = ("records", "bytes", "unchanged", "superseded", "rejected", "duplicate")
    head = row("th", ["producer", "events sent", *counts])
    rows = "".join(
        row("td", [producer["producer"] or "(no hg-producer)", _number(_sent(producer)),
                    *(_number(producer[name]) for name in counts)])
        for producer in topic["producers"]
    )  # fmt: skip
    keys, listed = topic["facts"]["top_keys"], len(topic["producers"])
    basis = _basis(topic["facts"])
    if topic["distinct_producers"] > listed:
        basis += f" Of {topic['distinct_producers']:,} producers these {listed} have most bytes."
    return (
        f'<h3>Producers</h3><p class="note">{escape(basis)}</p>'
        f"{table(head, rows)}{_vain_keys_table(keys) if keys else ''}"
    )


def _basis(facts: dict[str, Any]) -> str:
    if facts["why_unknown"] is not None:
        return f"What Kafka never saw is not known: {facts['why_unknown']}."
    text = f"The gateways' facts show the events that never reached Kafka since {facts['from']}"
    if facts["sampled"]:
        text += (
            "; these topics write only a sample of their facts, so that the counts are estimates"
        )
    if facts["unreadable_records"]:
        text += f"; {facts['unreadable_records']:,} records that no gateway wrote are left out"
    return f"{text}. It kept {facts['events']:,} events, {facts['bytes']:,} bytes, out of Kafka."


def _vain_keys_table(keys: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("key", "producer", "ended"))
    head += "".join(f'<th class="n">{name}</th>' for name in ("events", "bytes"))
    rows = "".join(
        f"<tr><td>{'(no key)' if key['key'] is None else key_cell(key['key'])}</td>"
        f"<td>{escape(key['producer'] or '(no hg-producer)')}</td><td>{escape(key['outcome'])}</td>"
        f'<td class="n">{key["events"]:,}</td><td class="n">{key["bytes"]:,}</td></tr>'
        for key in keys
    )
    return f"<h3>Sent in vain: top keys</h3>{table(f'<tr>{head}</tr>', rows)}"


def _sent(producer: dict[str, Any]) -> int | None:
    if producer["unchanged"] is None:
        return None
    names = ("records", "unchanged", "superseded", "rejected", "duplicate")
    return sum(int(producer[name]) for name in names)


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


# ---- the style of the page, which is that of the console


STYLE = f"""
{style()}
*{{box-sizing:border-box}}
body{{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:75rem;padding:.5rem 1rem 2rem;
color:var(--ink);background:var(--paper)}}
h1{{font-size:1.5rem}}h2{{font-size:1.25rem;margin-top:3rem;border-bottom:2px solid var(--line)}}
h3{{font-size:1.1rem;margin:1.4rem 0 .5rem}}h1,h2,h3{{line-height:1.2}}
h2,p,li,code{{overflow-wrap:anywhere}}a{{color:var(--link)}}.wide{{overflow-x:auto}}
:focus-visible{{outline:3px solid var(--c1);outline-offset:2px}}
table{{border-collapse:collapse;margin:.5rem 0 1.5rem;font-variant-numeric:tabular-nums}}
td,th{{padding:.28rem .9rem .28rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}}td.n,th.n{{text-align:right}}td.n{{white-space:nowrap}}
.note{{color:var(--quiet)}}
code{{font:.9em var(--mono);background:var(--raised);padding:0 .2em;border-radius:3px}}
.found,.fine{{padding:.35rem .8rem;border-radius:4px;margin:.3rem 0}}
.found{{background:var(--warn-paper)}}.fine{{background:var(--good-paper)}}
.tag{{display:inline-block;font-weight:600;color:var(--warn);margin-right:.7em;white-space:nowrap}}
.tag::before{{content:"▲ "}}.tag.ok{{color:var(--good)}}.tag.ok::before{{content:"✓ "}}
ul.facts{{padding-left:1.2em}}.wide td:first-child{{min-width:7em}}
body{{container-type:inline-size}}
@container (max-width:600px){{.stacked tr:first-child{{display:none}}
.stacked tr{{display:block;padding:.5rem 0;border-top:1px solid var(--line)}}
.stacked td{{display:block;border:0!important;padding:.1rem 0}}
.stacked td[data-name]::before{{content:attr(data-name) ": ";color:var(--quiet)}}}}
@media print{{@page{{margin:14mm}}body{{font-size:10pt;margin:0;max-width:none;padding:0}}
section{{break-before:page}}h2{{margin-top:0}}h2,h3{{break-after:avoid}}
tr,.found,.fine,li{{break-inside:avoid}}.wide{{overflow:visible}}
.found,.fine{{-webkit-print-color-adjust:exact;print-color-adjust:exact}}
a{{color:inherit;text-decoration:none}}}}
"""


# ---- the page


_CODE = re.compile(r"`([^`]*)`")
_SECTIONS = 100  # of the worst topics: browsers do not open a page of a thousand of them
_KEYS = 20
_LISTED = 50  # partitions in a sentence
_NOTHING = '<span class="tag ok">nothing</span>'


def page(result: dict[str, Any], figures: Sequence[TopicFigures]) -> str:
    """Return the whole page, topics in the given order; `figures` are for the charts."""
    topics = list(zip(result["topics"], figures, strict=True))
    body = "".join(_topic(topic, topic_figures) for topic, topic_figures in topics[:_SECTIONS])
    listed = "".join(
        _listed(topic, has_section=index < _SECTIONS) for index, (topic, _) in enumerate(topics)
    )
    more = ""
    if len(topics) > _SECTIONS:
        more = f" Details of the {_SECTIONS} worst are below; audit.json has those of all."
    figures_of = ("max/mean, records", "max/mean, bytes", "records", "bytes")
    head = "".join(f'<th class="n">{title}</th>' for title in figures_of)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Skew audit</title><style>{STYLE}</style></head><body><h1>Skew audit</h1>"
        f'<p class="note">Made {escape(minute_of(result["generated_at"]))} UTC, worst topic first. '
        "max/mean: the fullest partition beside the average one, 1 = even; "
        f"from {HOT} on it is called hot.{more}</p>"
        f"{table(f'<tr><th>topic</th><th>found</th>{head}</tr>', listed)}{body}</body></html>\n"
    )


def minute_of(time: str) -> str:
    """Format a time of the result for people, to the minute."""
    return time[:16].replace("T", " ")


def _listed(topic: dict[str, Any], *, has_section: bool) -> str:
    name = escape(topic["topic"])
    link = f'<a href="#{name}">{name}</a>' if has_section else name
    tags = "".join(
        f'<span class="tag">{escape(diagnosis.replace("_", " "))}</span>'
        for diagnosis in topic["diagnoses"]
    )
    return (
        f"<tr><td>{link}</td><td>{tags or _NOTHING}</td>"
        f'<td class="n">{topic["by_records"]["max_over_mean"]:.2f}</td>'
        f'<td class="n">{topic["by_bytes"]["max_over_mean"]:.2f}</td>'
        f'<td class="n">{topic["records"]:,}</td>'
        f'<td class="n" title="{topic["bytes"]:,} bytes">{size(topic["bytes"])}</td></tr>'
    )


def _topic(topic: dict[str, Any], figures: TopicFigures) -> str:
    name = escape(topic["topic"])
    window, note = topic["window"], "no record in this window"
    if topic["records"]:
        note = f"{minute_of(window['from'])} to {minute_of(window['to'])} UTC"
    facts = [
        f"{topic['records']:,} records, {size(topic['bytes'])} on {topic['partitions']} "
        f"partitions, {topic['distinct_keys']:,} keys",
        f"{topic['keyless_records']:,} records without key, {topic['tombstones']:,} tombstones",
        _useful(topic),
        topic["fetch"]["why"],
    ]
    listed = "".join(f"<li>{escape(fact)}</li>" for fact in facts)
    parts = [_measures, _what_if, _keys] if topic["records"] else []
    return (
        f'<section id="{name}"><h2>{name}</h2><p class="note">{escape(note)}</p>{_part(topic)}'
        f'{_notes(topic)}{_findings(topic)}<ul class="facts">{listed}</ul>'
        f"{topic_charts(topic, figures)}{''.join(part(topic) for part in parts)}"
        f"{senders_table(topic)}</section>"
    )


def _useful(topic: dict[str, Any]) -> str:
    if topic["partitions_read"] is not None:
        return "how many partitions are useful is not known, as not all of them were read"
    clauses = (usefulness(topic[f"by_{by}"]["p_max"], by) for by in ("records", "bytes"))
    return "; ".join(dict.fromkeys(clauses))


def _part(topic: dict[str, Any]) -> str:
    if topic["partitions_read"] is None:
        return ""
    numbers = topic["partitions_read"]
    read = ", ".join(map(str, numbers[:_LISTED]))
    if len(numbers) > _LISTED:
        read += f" and {len(numbers) - _LISTED:,} more"
    return (
        f'<p class="note">Only what was asked for by offsets is judged: partition {read} of '
        f"{topic['partitions']}. Balance, shares and advice are of these; what other partition "
        "counts would make of the keys is not known.</p>"
    )


def _notes(topic: dict[str, Any]) -> str:
    return "".join(f'<p class="found">{escape(note)}</p>' for note in topic["notes"])


def _findings(topic: dict[str, Any]) -> str:
    if not topic["findings"]:
        return '<p class="fine">Nothing is wrong with the keys of this topic.</p>'
    findings = "".join(
        f'<p class="found"><strong>{escape(finding["diagnosis"].replace("_", " "))}</strong>: '
        f"{escape(finding['text'])}</p>"
        for finding in topic["findings"]
    )
    rows = "".join(
        f"<tr><td><strong>{escape(recommendation['action'])}</strong></td>"
        f'<td data-name="why">{_coded(recommendation["why"])}</td>'
        f'<td data-name="cost">{_coded(recommendation["cost"])}</td></tr>'
        for recommendation in topic["recommendations"]
    )
    head = "<tr><th>what to do</th><th>why</th><th>cost</th></tr>"
    advice = f'<table class="stacked">{head}{rows}</table>'
    return f"{findings}<h3>What helps, and what does not</h3>{advice}"


def _coded(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", escape(text))


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
    head = row(
        "th",
        ["partitions", "max/mean, records", "floor", "max/mean, bytes", "floor", "keys that move"],
    )
    now = {topic["partitions"]: " (now)"}
    rows = "".join(
        row(
            "td",
            [
                f"{prediction['partitions']}{now.get(prediction['partitions'], '')}",
                f"{prediction['max_over_mean_records']:.2f}",
                f"{prediction['floor_records']:.2f}",
                f"{prediction['max_over_mean_bytes']:.2f}",
                f"{prediction['floor_bytes']:.2f}",
                f"{prediction['moved_share']:.0%}",
            ],
        )
        for prediction in topic["what_if"]
    )
    return f"<h3>What if it had other partitions</h3>{table(head, rows)}"


def _keys(topic: dict[str, Any]) -> str:
    if not topic["top_keys"]:
        return ""
    head = row("th", ["key", "records", "share", "bytes", "share", "p95 run", "producer"])
    rows = "".join(
        f"<tr><td>{key_cell(key['key'])}</td><td class='n'>{key['records']:,}</td>"
        f"<td class='n'>{key['record_share']:.2%}</td><td class='n'>{key['bytes']:,}</td>"
        f"<td class='n'>{key['byte_share']:.2%}</td><td class='n'>{key['run_p95']}</td>"
        f"<td>{escape(key['producer'] or '(no hg-producer)')}</td></tr>"
        for key in topic["top_keys"][:_KEYS]
    )
    return f"<h3>Top keys</h3>{table(head, rows)}"
