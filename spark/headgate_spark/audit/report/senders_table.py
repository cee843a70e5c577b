"""The page's table of producers: what each sent, and what Kafka never saw of it."""

from html import escape
from typing import Any

from headgate_spark.audit.report.tables import key_cell, row, table


def senders_table(topic: dict[str, Any]) -> str:
    """The page's table of producers, and what its numbers rest on."""
    counts = ("records", "bytes", "unchanged", "superseded", "rejected", "duplicate")
    head = row("th", ["producer", "events sent", *counts])
    rows = "".join(
        row("td", [one["producer"] or "(no hg-producer)", _number(_sent(one)),
                    *(_number(one[name]) for name in counts)])
        for one in topic["producers"]
    )  # fmt: skip
    keys, listed = topic["facts"]["top_keys"], len(topic["producers"])
    basis = _basis(topic["facts"])
    if topic["distinct_producers"] > listed:
        basis += f" Of {topic['distinct_producers']:,} producers these {listed} have most bytes."
    return (
        f'<h3>Producers</h3><p class="note">{escape(basis)}</p>'
        f"{table(head, rows)}{_keys(keys) if keys else ''}"
    )


def _basis(facts: dict[str, Any]) -> str:
    if facts["why_unknown"] is not None:
        return f"What Kafka never saw is not known: {facts['why_unknown']}."
    text = f"What Kafka never saw is told by the gateways' facts since {facts['from']}"
    if facts["sampled"]:
        text += "; these topics tell only some of their facts, so that the counts are estimates"
    if facts["unreadable_records"]:
        text += f"; {facts['unreadable_records']:,} records that no gateway wrote are left out"
    return f"{text}. It kept {facts['events']:,} events, {facts['bytes']:,} bytes, out of Kafka."


def _keys(keys: list[dict[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("key", "producer", "ended"))
    head += "".join(f'<th class="n">{name}</th>' for name in ("events", "bytes"))
    rows = "".join(
        f"<tr><td>{'(no key)' if key['key'] is None else key_cell(key['key'])}</td>"
        f"<td>{escape(key['producer'] or '(no hg-producer)')}</td><td>{escape(key['outcome'])}</td>"
        f'<td class="n">{key["events"]:,}</td><td class="n">{key["bytes"]:,}</td></tr>'
        for key in keys
    )
    return f"<h3>Sent in vain: top keys</h3>{table(f'<tr>{head}</tr>', rows)}"


def _sent(one: dict[str, Any]) -> int | None:
    if one["unchanged"] is None:
        return None
    names = ("records", "unchanged", "superseded", "rejected", "duplicate")
    return sum(int(one[name]) for name in names)


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
