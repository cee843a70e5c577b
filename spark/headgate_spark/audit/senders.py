"""Who sent how much: what Kafka has of each producer beside what it never saw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import escape
from typing import Any

from headgate_spark.audit.figures import ProducerFigures, TopicFigures
from headgate_spark.audit.tables import row, table
from headgate_spark.audit.unpublished import ToldKey, Unpublished

WASTEFUL = 0.5  # of its events: more were sent in vain than not
FEW_EVENTS = 100  # below it nothing is judged, as with records


def with_unpublished(figures: TopicFigures, unpublished: Unpublished) -> TopicFigures:
    """The figures with what gateways told of the same window."""
    known = {one.producer: one for one in figures.producers}
    producers = [_told(one, unpublished) for one in figures.producers]
    silent = [name for name in unpublished.producers if name not in known]  # not in Kafka
    producers += [_told(ProducerFigures(name, 0, 0), unpublished) for name in silent]
    return replace(figures, producers=tuple(producers), unpublished=unpublished)


def _told(one: ProducerFigures, unpublished: Unpublished) -> ProducerFigures:
    found = unpublished.of(one.producer)
    if found is None:
        return one
    return ProducerFigures(one.producer, one.records, one.bytes, **found)


def sent(one: ProducerFigures) -> int | None:
    """Events that a producer sent, as far as gateways know; None where nothing is told."""
    if one.unchanged is None:
        return None
    return one.records + one.in_vain


class Waste:
    """A producer most of whose events were not published, and the key it sent most in vain."""

    def __init__(self, producer: ProducerFigures, key: ToldKey | None, size: int) -> None:
        self.producer, self.key, self.bytes = producer, key, size

    @property
    def share(self) -> float:
        """Of all that it sent."""
        return self.producer.in_vain / (sent(self.producer) or 1)

    @property
    def why(self) -> str:
        """One sentence with the figures."""
        one = self.producer
        counts = ", ".join(
            f"{count:,} {name}"
            for name, count in (
                ("unchanged", one.unchanged),
                ("superseded", one.superseded),
                ("rejected", one.rejected),
                ("duplicate", one.duplicate),
            )
            if count
        )
        text = (
            f"producer {one.producer or '(no hg-producer)'} sent {sent(one):,} events, of which "
            f"Kafka got {one.records:,} records; {counts} ended before it, {self.bytes:,} bytes"
        )
        if self.key is not None and self.key.key is not None:
            shown = self.key.key.decode("utf-8", "backslashreplace")[:120]
            text += f"; most of it key {shown} ({self.key.events:,} {self.key.outcome})"
        return text


def wasteful(figures: TopicFigures) -> Iterator[Waste]:
    """Producers that should send less, those with most bytes in vain first."""
    sizes: dict[str, int] = {}
    for told in figures.unpublished.rows:
        sizes[told.producer] = sizes.get(told.producer, 0) + told.bytes
    for one in sorted(figures.producers, key=lambda one: -sizes.get(one.producer, 0)):
        if one.in_vain >= FEW_EVENTS and one.in_vain >= WASTEFUL * (sent(one) or 0):
            keys = (key for key in figures.unpublished.keys if key.producer == one.producer)
            yield Waste(one, next(keys, None), sizes.get(one.producer, 0))


# ---- for people


def senders_table(topic: dict[str, Any]) -> str:
    """The page's table of producers, and what its numbers rest on."""
    counts = ("records", "bytes", "unchanged", "superseded", "rejected", "duplicate")
    head = row("th", ["producer", "events sent", *counts])
    rows = "".join(
        row("td", [one["producer"] or "(no hg-producer)", _number(_sent(one)),
                    *(_number(one[name]) for name in counts)])
        for one in topic["producers"]
    )  # fmt: skip
    keys = topic["facts"]["top_keys"]
    return (
        f'<h3>Producers</h3><p class="note">{escape(_basis(topic["facts"]))}</p>'
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
        f"<tr><td><code>{escape((one['key'] or '(none)')[:120])}</code></td>"
        f"<td>{escape(one['producer'] or '(no hg-producer)')}</td><td>{escape(one['outcome'])}</td>"
        f'<td class="n">{one["events"]:,}</td><td class="n">{one["bytes"]:,}</td></tr>'
        for one in keys
    )
    return f"<h3>Sent in vain: top keys</h3>{table(f'<tr>{head}</tr>', rows)}"


def _sent(one: dict[str, Any]) -> int | None:
    if one["unchanged"] is None:
        return None
    names = ("records", "unchanged", "superseded", "rejected", "duplicate")
    return sum(int(one[name]) for name in names)


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
