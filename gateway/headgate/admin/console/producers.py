"""Pages of producers, and the message for the owner of a producer."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from headgate.admin import views
from headgate.admin.console import figures
from headgate.admin.console.figures import Plots, by_pair, grouped, plot_by_label, sparklines
from headgate.admin.console.page import Page, listed
from headgate.admin.control_plane import Admin
from headgate.http.auth import Identity
from headgate.metrics import fleet as recorder
from headgate.metrics.catalogue import METRICS, OTHER
from headgate.metrics.snapshot import Unconfigured
from headgate.model.outcome import TRAITS, OutcomeName, Reason, Refused
from headgate.model.text import segment_name

# ---- the message for the owner


_MUCH = 0.2  # share of the events that is worth the owner's attention
_SOME = 0.01
_HOT = 0.1  # of the bytes
_LARGE = 262_144  # bytes: consumers fetch such records one at a time

Json = Mapping[str, Any]


def letter(name: str, view: Json, rejects: Sequence[Json]) -> str:
    """Return the message for a producer's owner, to be copied.

    Args:
        name: Name of the producer.
        view: The control plane's view of the producer.
        rejects: Recent rejects, newest first.
    """
    lines = [f"Producer {name}, as Headgate sees it:"]
    lines.append(
        f"- {figures.rate(view['events_per_s'])} events, {figures.rate(view['bytes_per_s'], 'B')}"
        f"; last seen {view['last_seen'] or 'never'}."
    )
    for topic in view["topics"]:
        lines += [f"- {topic['topic']}: {finding}" for finding in _topic_findings(topic)]
    lines += [f"- {finding}" for finding in _reject_findings(rejects)]
    if len(lines) == 2:
        lines.append("- No problems found.")
    return "\n".join(lines)


def _topic_findings(topic: Json) -> Iterator[str]:
    ratios = topic["ratios"]
    repeated = ratios["unchanged"] + ratios["superseded"]
    if repeated >= _MUCH:
        yield (
            f"{figures.share(repeated)} of the events are unchanged or superseded ("
            f"{figures.size(topic['bytes_saved_total'])} since the start). Publish on a change, "
            "not after every save."
        )
    if ratios["oversize"] >= _SOME:
        yield f"{figures.share(ratios['oversize'])} of the events are larger than the topic allows."
    sizes = topic["size_bytes"]
    if sizes and sizes["p99"] >= _LARGE:
        yield (
            f"events of {figures.size(sizes['p99'])} (1 in 100; the largest "
            f"{figures.size(sizes['max'])}) make consumers slow: split them, or send references."
        )
    hot = topic["keys"]["top_by_bytes"]
    if hot and hot[0]["share"] >= _HOT and topic["keys"]["cardinality"] > 1:
        yield (
            f"the key {hot[0]['key']!r} has {figures.share(hot[0]['share'])} of the bytes, all of "
            "them on one partition; more partitions do not help."
        )


def _reject_findings(rejects: Sequence[Json]) -> Iterator[str]:
    newest: dict[str, Json] = {}
    for reject in rejects:
        newest.setdefault(reject["reason"], reject)
    for reason, reject in newest.items():
        if reason in frozenset(Reason):
            request = f" in request {reject['request_id']}" if reject["request_id"] else ""
            yield (
                f"rejected on {reject['topic']} with {reason} ({reject['detail']}), "
                f"last at {reject['at']}{request}. {TRAITS[Reason(reason)].advice}"
            )


_REJECTS = 20

_COLUMNS = {
    "rate": lambda summary: summary.events_per_s,
    "bytes": lambda summary: summary.bytes_per_s,
    "size": lambda summary: summary.mean_bytes or 0.0,
    "unchanged": lambda summary: summary.share(OutcomeName.UNCHANGED, OutcomeName.SUPERSEDED),
    "rejects": lambda summary: summary.of(OutcomeName.REJECTED),
    "events": lambda summary: summary.events,
    "seen": lambda summary: summary.last_seen,
}


class ProducerPages:
    """Pages of producers."""

    def __init__(self, admin: Admin, plots: Plots) -> None:
        self._admin = admin
        self._plots = plots

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """Build the list of configured and seen producers."""
        instance = self._admin.instance
        pairs = by_pair(instance.figures, instance.rates, time.time())
        configured = instance.settings.producers
        summaries = grouped(pairs, lambda pair: pair.producer, configured)
        listing = listed(request, summaries, _COLUMNS, "rate")
        values = {
            "listing": listing,
            "sparks": await sparklines(self._plots, 0, {name for name, _ in listing.rows}),
            "Name": OutcomeName,
            "other": OTHER,
        }
        return Page("producers.html", "Producers", values, is_live=True)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of one producer."""
        name = segment_name(request.match_info["name"])
        seen = self._admin.seen(lambda pair: pair.producer == name)
        if not seen.figures.details and name not in self._admin.instance.settings.producers:
            raise Refused(self._admin.unknown_producer(name, seen))
        view = views.producer(name, seen)
        rejects = [
            {"topic": topic["topic"], **reject, "advice": _advice(reject["reason"])}
            for topic in view["topics"]
            for reject in topic["recent_rejects"]
        ]
        rejects.sort(key=lambda reject: reject["at"] or "", reverse=True)
        ends = await self._plots.read(recorder.EVENTS, (2,), {0: {name}})
        sizes = await self._plots.read(recorder.BYTES, (1,), {0: {name}})
        values = {
            "name": name,
            "found": view,
            "rejects": rejects[:_REJECTS],
            "buckets": _buckets(self._admin, name),
            "outcomes": plot_by_label(
                "outcomes", "Events per second by outcome", "events", recorder.EVENTS, ends
            ),
            "volume": plot_by_label(
                "volume", "Bytes per second by topic", "B", "headgate_event_bytes", sizes
            ),
            "source": self._plots.source,
            "unconfigured": _unconfigured(seen) if name == OTHER else [],
            "letter": letter(name, view, rejects),
            "other": OTHER,
        }
        return Page("producer.html", f"Producer {name}", values, is_live=True)


def _unconfigured(seen: views.ViewInput) -> list[tuple[str, Unconfigured]]:
    """List the producers behind `other`, the busiest first."""
    return sorted(seen.figures.unconfigured.items(), key=lambda row: -row[1].events)


def _advice(reason: str) -> str:
    return TRAITS[Reason(reason)].advice if reason in frozenset(Reason) else ""


def _buckets(admin: Admin, producer: str) -> list[Mapping[str, Any]]:
    """Return the numbers of events by size since the start, from the histogram."""
    bounds = METRICS["headgate_event_bytes"].buckets
    counts = [0] * (len(bounds) + 1)
    for part in admin.instance.figures.parts():
        for labels, row in part.histograms.get("headgate_event_bytes", {}).items():
            if labels[0] == producer:
                counts = [
                    total_count + other
                    for total_count, other in zip(counts, row.counts, strict=True)
                ]
    total = sum(counts)
    if not total:
        return []
    rows: list[Mapping[str, Any]] = [
        {"up_to": bound, "count": count, "share": count / total}
        for bound, count in zip([*bounds, None], counts, strict=True)
    ]
    filled = [index for index, row in enumerate(rows) if row["count"]]
    return rows[filled[0] : filled[-1] + 1]
