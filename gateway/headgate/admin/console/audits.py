"""Pages of skew audits: the list, the latest audit of a topic, and a comparison of two."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web
from markupsafe import Markup

from headgate.admin.console import figures
from headgate.admin.console.page import Page, listed
from headgate.admin.control_plane import Admin
from headgate.audits.results import (
    AuditSummary,
    Figure,
    TopicChange,
    compare,
    earlier_times,
    summaries,
    summary_of,
    topic_change,
    topic_changes,
)
from headgate.charts import Axis, Line, Mark, columns, line_chart
from headgate.http.auth import Identity
from headgate.model.outcome import Failure, Reason, Refused, brief

_UNEVEN = Axis("times the mean", lambda value: f"{value:.3g}")
_COUNTS = Axis("partitions", lambda value: f"{value:g}", is_log=True)


class Foreseen(NamedTuple):
    """Forecast for one number of partitions.

    Attributes:
        partitions: Number of partitions.
        uneven_bytes: Bytes of the fullest partition over the mean.
        uneven_records: Records of the fullest partition over the mean.
        floor: Least possible `uneven_bytes` of any partitioner, as keys cannot be divided.
        moved: Share of the keys that change their partition.
        load: Bytes of each partition over the mean; empty if an older job wrote the audit.
        is_ranked: Whether `load` is a sample of partitions, lightest first.
    """

    partitions: int
    uneven_bytes: float
    uneven_records: float
    floor: float | None
    moved: float
    load: Sequence[float]
    is_ranked: bool


class WhatIf(NamedTuple):
    """Forecasts for a topic.

    Attributes:
        options: All forecasts, by number of partitions.
        now: Forecast for the topic's current number of partitions.
        chosen: The chosen forecast.
        charts: Charts of all forecasts and of the chosen one.
    """

    options: Sequence[Foreseen]
    now: Foreseen
    chosen: Foreseen
    charts: Markup


def what_if(document: Mapping[str, Any], partitions: int, requested: str | None) -> WhatIf | None:
    """Return the forecasts in an audit; None if there is no choice, or no record has a key.

    Args:
        document: The audit.
        partitions: Number of the topic's partitions.
        requested: Requested number of partitions; the nearest forecast is chosen.
    """
    rows = document.get("what_if") if document.get("distinct_keys") else ()
    try:
        options = sorted(map(_foreseen, rows or ()))
    except (KeyError, TypeError, ValueError):
        return None  # another release wrote it in another format
    if len(options) < 2:
        return None
    number = re.fullmatch("[0-9]{1,6}", requested or "")
    wanted = int(number[0]) if number else partitions
    now, chosen = _nearest(options, partitions), _nearest(options, wanted)
    return WhatIf(options, now, chosen, _charts(options, now, chosen))


def _nearest(options: Sequence[Foreseen], partitions: int) -> Foreseen:
    return min(options, key=lambda option: abs(option.partitions - partitions))


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
        Line("by records", "a", [(option.partitions, option.uneven_records) for option in options]),
        Line("by bytes", "b", [(option.partitions, option.uneven_bytes) for option in options]),
    ]
    floors = [(option.partitions, option.floor) for option in options if option.floor is not None]
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
    heights = [(f"{name} {index}", height) for index, height in enumerate(chosen.load)]
    of = f"{len(heights)} of {chosen.partitions} partitions, lightest first"
    x = of if chosen.is_ranked else "partition"
    return columns(f"Bytes with {chosen.partitions} partitions", x, _UNEVEN, heights)


# ---- formatted figures of two audits


class FigureWords(NamedTuple):
    """A formatted figure of two audits. `difference` has no sign."""

    label: str
    before: str
    after: str
    difference: str


_Shown = Callable[[float | None], str]


def _byte_rate(value: float | None) -> str:
    return figures.rate(value, "B")


_WORDS: dict[str, tuple[str, _Shown]] = {
    "records": ("Records", figures.count),
    "records_per_s": ("Records per second", figures.rate),
    "bytes": ("Bytes", figures.size),
    "bytes_per_s": ("Bytes per second", _byte_rate),
    "distinct_keys": ("Distinct keys", figures.count),
    "partitions": ("Partitions", figures.count),
    "useful_partitions": ("Useful partitions, at most", figures.count),
    "uneven_bytes": ("Fullest / mean, by bytes", figures.number),
    "uneven_records": ("Fullest / mean, by records", figures.number),
}


def figure_words(figure: Figure) -> FigureWords:
    """Format a figure for a table."""
    label, shown = _WORDS[figure.name]
    difference = None if figure.difference is None else abs(figure.difference)
    return FigureWords(label, shown(figure.before), shown(figure.after), shown(difference))


# ---- the pages


_KEYS = 20
_WORST_FIRST = (
    TopicChange.WORSE,
    TopicChange.NEW,
    TopicChange.GONE,
    TopicChange.SAME,
    TopicChange.BETTER,
)

_COLUMNS = {
    "uneven": lambda row: row.audit.uneven_bytes,
    "records": lambda row: row.audit.records,
    "bytes": lambda row: row.audit.bytes,
    "found": lambda row: (len(row.audit.diagnoses), row.audit.unevenness),
    "change": lambda row: (-_WORST_FIRST.index(row.change), row.audit.unevenness),
}


class AuditRow(NamedTuple):
    """One row of the list. `change` is relative to the earlier audit."""

    audit: AuditSummary
    change: TopicChange


class AuditPages:
    """Pages of the audits that `headgate-spark audit` published."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._audits = admin.audits

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """Build the list of all topics, the worst first by default."""
        try:
            heads = await self._audits.heads()
        except Refused as refused:
            values: dict[str, Any] = {"failure": refused.failure, "run": self._run()}
            return Page("audits.html", "Skew audits", values)
        since = request.query.get("since") or None
        by_topic = topic_changes(heads, since)
        rows = {topic: AuditRow(heads[topic][0], change) for topic, change in by_topic.items()}
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "found", kept=("since",)),
            "unread": sorted(set(heads) - set(rows)),
            "times": earlier_times(heads.values()),
            "since": since,
            "run": self._run(),
        }
        return Page("audits.html", "Skew audits", values)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of a topic's newest audit; `?partitions=` chooses a forecast."""
        topic = request.match_info["topic"]
        document = orjson.loads(await self._audits.document(topic))
        if summary_of(document) is None:
            detail = f"another release has written the audit of {brief(topic)}: run `{self._run()}`"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        newest, *earlier = summaries(document)
        values = {
            "topic": topic,
            "row": newest,
            "earlier": earlier,
            "change": topic_change(earlier[0], newest) if earlier else None,
            "document": document,
            "keys": _listed(document, "top_keys")[:_KEYS],
            "what_if": what_if(document, newest.partitions, request.query.get("partitions")),
            "findings": _listed(document, "findings"),
            "advice": _listed(document, "recommendations"),
            "producers": _listed(document, "producers")[:_KEYS],
            "notes": [str(note) for note in document.get("notes") or ()],
        }
        return Page("audit.html", f"Skew audit of {topic}", values)

    async def compare(self, request: web.Request, _caller: Identity) -> Page:
        """Build the comparison of two audits; `?before=` and `?after=` are their times."""
        topic, query = request.match_info["topic"], request.query
        audits = await self._audits.of_topic(topic)
        values: dict[str, Any] = {"topic": topic, "audits": audits, "found": None}
        if len(audits) > 1:
            pair = await self._audits.pair(
                topic, query.get("before") or None, query.get("after") or None
            )
            before, after = pair
            values |= {
                "before": before,
                "after": after,
                "found": compare(before, after),
                "change": topic_change(before, after),
            }
        return Page("audit_comparison.html", f"Skew audits of {topic} compared", values)

    def _run(self) -> str:
        file = self._admin.installation.sources.configuration().file
        return shlex.join(["headgate-spark", "audit", "--config", file, "--from", "2h"])


class _Lenient(dict[str, Any]):
    """A dictionary whose missing entries are None, for documents of other releases."""

    def __missing__(self, name: str) -> None:
        return None


def _listed(document: Mapping[str, Any], name: str) -> Sequence[_Lenient]:
    entries = document.get(name) or ()
    return [_Lenient(entry) for entry in entries if isinstance(entry, dict)]
