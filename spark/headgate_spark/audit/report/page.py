"""The result for people: one HTML page that needs nothing else."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from headgate_spark.audit.judgement.diagnosis import HOT
from headgate_spark.audit.judgement.figures import TopicFigures
from headgate_spark.audit.judgement.measures import usefulness
from headgate_spark.audit.report.heat_map import size
from headgate_spark.audit.report.plots import charts
from headgate_spark.audit.report.senders_table import senders_table
from headgate_spark.audit.report.style import STYLE
from headgate_spark.audit.report.tables import key_cell, row, table

_CODE = re.compile(r"`([^`]*)`")
_SECTIONS = 100  # of the worst topics: browsers do not open a page of a thousand of them
_KEYS = 20
_LISTED = 50  # partitions in a sentence
_NOTHING = '<span class="tag ok">nothing</span>'


def page(result: dict[str, Any], figures: Sequence[TopicFigures]) -> str:
    """The whole page, topics in the order given. figures: of the same topics, for the charts."""
    topics = list(zip(result["topics"], figures, strict=True))
    body = "".join(_topic(topic, one) for topic, one in topics[:_SECTIONS])
    listed = "".join(
        _listed(topic, has_section=place < _SECTIONS) for place, (topic, _) in enumerate(topics)
    )
    more = ""
    if len(topics) > _SECTIONS:
        more = f" Details of the {_SECTIONS} worst are below; audit.json has those of all."
    figures_of = ("max/mean, records", "max/mean, bytes", "records", "bytes")
    head = "".join(f'<th class="n">{one}</th>' for one in figures_of)
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
    """A time of the result for people, to the minute."""
    return time[:16].replace("T", " ")


def _listed(topic: dict[str, Any], *, has_section: bool) -> str:
    name = escape(topic["topic"])
    link = f'<a href="#{name}">{name}</a>' if has_section else name
    found = "".join(
        f'<span class="tag">{escape(one.replace("_", " "))}</span>' for one in topic["diagnoses"]
    )
    return (
        f"<tr><td>{link}</td><td>{found or _NOTHING}</td>"
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
        f"{charts(topic, figures)}{''.join(part(topic) for part in parts)}{senders_table(topic)}"
        "</section>"
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
        f"<tr><td><strong>{escape(one['action'])}</strong></td>"
        f'<td data-name="why">{_coded(one["why"])}</td>'
        f'<td data-name="cost">{_coded(one["cost"])}</td></tr>'
        for one in topic["recommendations"]
    )
    head = "<tr><th>what to do</th><th>why</th><th>cost</th></tr>"
    advice = f'<table class="stacked">{head}{rows}</table>'
    return f"{found}<h3>What helps, and what does not</h3>{advice}"


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
        f"<tr><td>{key_cell(one['key'])}</td><td class='n'>{one['records']:,}</td>"
        f"<td class='n'>{one['record_share']:.2%}</td><td class='n'>{one['bytes']:,}</td>"
        f"<td class='n'>{one['byte_share']:.2%}</td><td class='n'>{one['run_p95']}</td>"
        f"<td>{escape(one['producer'] or '(no hg-producer)')}</td></tr>"
        for one in topic["top_keys"][:_KEYS]
    )
    return f"<h3>Top keys</h3>{table(head, rows)}"
