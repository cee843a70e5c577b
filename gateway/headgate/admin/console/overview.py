"""Pages of the whole installation: its health and problems, its log, and its configuration."""

import asyncio
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from headgate.admin.console import figures
from headgate.admin.console.figures import Plot, Plots, Summary, by_pair, plot_by_label
from headgate.admin.console.page import Listing, Page, listed
from headgate.admin.installation import Installation, InstallationPages, option_view
from headgate.admin.instance import Instance
from headgate.config import Loaded
from headgate.config.problems import DEFAULT
from headgate.config.reference import Effective, effective
from headgate.http.auth import Identity
from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Points
from headgate.metrics.snapshot import Pair
from headgate.model.installation import Kind, Level, LogEntry
from headgate.model.outcome import OutcomeName
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import AWAY, OFF, ON

_HOUR_S = 3600.0
_SAVERS = 5
_INCIDENTS = 20
_MANY_REJECTS = 0.05  # share of a minute's events that points to a broken release of a producer


class Worry(NamedTuple):
    """A problem of the instance.

    Attributes:
        is_bad: Whether events are refused or may be lost; otherwise something is slower.
        text: Description of the problem.
        more: URL of a page with details.
    """

    is_bad: bool
    text: str
    more: str


class Reading(NamedTuple):
    """Figures of the whole instance in the last hour.

    Attributes:
        ends: Events per second by outcome and reason.
        saved: Bytes per second that were not published.
        pairs: Summaries by producer and topic.
        gauges: Gauges by name, summed up.
    """

    ends: Points
    saved: Points
    pairs: Mapping[Pair, Summary]
    gauges: Mapping[str, float]

    def counted(self, points: Points) -> dict[tuple[str, ...], float]:
        """Return the totals of the hour, by labels."""
        return {labels: sum(row) * points.step_s for labels, row in points.rows.items()}


class OverviewPage:
    """The overview page. Its incidents are the latest entries of the installation log."""

    def __init__(self, instance: Instance, plots: Plots, installation: Installation) -> None:
        self._instance = instance
        self._plots = plots
        self._installation = installation

    async def build(self, _request: web.Request, _caller: Identity) -> Page:
        """Build the page."""
        instance = self._instance
        read = self._plots.read
        ends = await read(recorder.EVENTS, by=(2, 3), span_s=_HOUR_S)
        saved = await read(recorder.SAVED, span_s=_HOUR_S)
        pairs = by_pair(instance.figures, instance.rates, time.time())
        gauges = {name: _total(instance, name) for name in _GAUGES}
        seen = Reading(ends, saved, pairs, gauges)
        values = {
            "health": instance.health(),
            "since": instance.since,
            "worries": list(self._worries(seen)),
            "tiles": self._tiles(seen),
            "plot": _outcome_plot(seen.ends),
            "source": self._plots.source,
            "rejects": _rejects(seen),
            "savers": _savers(self._instance),
            "quarantines": self._quarantines(),
            "incidents": self._recent_incidents(),
        }
        return Page("overview.html", "Overview", values, is_live=True)

    def _recent_incidents(self) -> list[LogEntry]:
        incidents = (
            entry for entry in self._installation.entries() if entry.level is not Level.INFO
        )
        return list(islice(incidents, _INCIDENTS))

    def _quarantines(self) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "state": str(now.state), "until_s": now.until_s}
            for topic, now in sorted(self._instance.suppression().items())
            if now.state not in (ON, OFF)
        ]

    def _worries(self, seen: Reading) -> Iterator[Worry]:
        health = self._instance.health()
        if not health.is_ready:
            yield Worry(True, f"The gateway is {health.status}.", "/ready?pretty")
        for name, row in health.dependencies.items():
            if not row["ok"]:
                text = f"{name}: {row['detail']}"
                yield Worry(bool(row["required"]), text, "/ready?pretty")
        up, wanted = health.workers["up"], health.workers["wanted"]
        if up < wanted:
            yield Worry(up == 0, f"{up} of {wanted} workers are up.", "/ready?pretty")
        quarantines = self._quarantines()
        policies = PolicyTable(self._instance.settings.topics)
        refusing = policies.refusing(quarantine["topic"] for quarantine in quarantines)
        for row in quarantines:
            is_away = row["state"] == AWAY
            refuses = is_away and row["topic"] in refusing
            effect = "refuses events" if refuses else "publishes unchanged events"
            why = "Redis is unavailable" if is_away else f"suppression is in {row['state']}"
            text = f"{row['topic']} {effect}: {why}."
            yield Worry(refuses, text, f"/console/topics/{row['topic']}")
        if spooled := seen.gauges["headgate_spool_events"]:
            yield Worry(
                False,
                f"{spooled:,.0f} events wait on disk until Kafka is available.",
                "/v1/spool?pretty",
            )
        share = _recent_rejects(seen.ends)
        if share > _MANY_REJECTS:
            text = f"{figures.share(share)} of the last minute's events were rejected."
            yield Worry(False, text, "/console/producers?sort=rejects")

    def _tiles(self, seen: Reading) -> list[dict[str, Any]]:
        events = sum(summary.events_per_s for summary in seen.pairs.values())
        size = sum(summary.bytes_per_s for summary in seen.pairs.values())
        hour = seen.counted(seen.ends)
        rejected = sum(count for end, count in hour.items() if end[0] == OutcomeName.REJECTED)
        saved = sum(seen.counted(seen.saved).values())
        gauges = seen.gauges
        return [
            _tile("Events", figures.rate(events), "last minute", recorder.EVENTS),
            _tile("Bytes in", figures.rate(size, "B"), "last minute", "headgate_event_bytes"),
            _tile("Not published", figures.size(saved), "last hour: unchanged or superseded",
                  recorder.SAVED),
            _tile("Rejected", figures.count(rejected), "last hour", recorder.EVENTS),
            _tile("Held lag", figures.count(gauges["headgate_held_lag"]), "records to coalesce",
                  "headgate_held_lag"),
            _tile("Spool", figures.size(gauges["headgate_spool_bytes"]),
                  f"{gauges['headgate_spool_events']:,.0f} events on disk", "headgate_spool_bytes"),
            _tile("In flight", figures.count(gauges["headgate_in_flight_events"]),
                  "events not yet answered", "headgate_in_flight_events"),
            _tile("Held keys", figures.count(gauges["headgate_held_keys"]), "with a held event",
                  "headgate_held_keys"),
        ]  # fmt: skip


_GAUGES = (
    "headgate_held_lag",
    "headgate_held_keys",
    "headgate_spool_events",
    "headgate_spool_bytes",
    "headgate_in_flight_events",
)


def _total(instance: Instance, name: str) -> float:
    return sum(instance.figures.gauge(name).values())


def _tile(label: str, value: str, note: str, metric: str) -> dict[str, Any]:
    return {"label": label, "value": value, "note": note, "metric": metric}


def _outcome_plot(ends: Points) -> Plot:
    rows: dict[tuple[str, ...], list[float]] = {}
    for (outcome, _), values in ends.rows.items():
        before = rows.get((outcome,), [0.0] * len(values))
        rows[outcome,] = [total + value for total, value in zip(before, values, strict=True)]
    title = "Events per second by outcome, last hour"
    merged = ends._replace(rows=rows)
    return plot_by_label("outcomes", title, "events", recorder.EVENTS, merged)


def _recent_rejects(ends: Points) -> float:
    steps = max(1, round(60 / ends.step_s))
    recent = {end: sum(values[-steps:]) for end, values in ends.rows.items()}
    total = sum(recent.values())
    rejected = sum(count for end, count in recent.items() if end[0] == OutcomeName.REJECTED)
    return rejected / total if total else 0.0


def _rejects(seen: Reading) -> list[dict[str, Any]]:
    """Return the rejects of the last hour by reason, most frequent first."""
    counted = seen.counted(seen.ends)
    total = sum(counted.values())
    by_reason = {reason: count for (_, reason), count in counted.items() if reason}
    points = seen.ends.rows
    return [
        {
            "reason": reason,
            "count": round(count),
            "share": count / total if total else 0.0,
            "values": next(row for end, row in points.items() if end[1] == reason),
        }
        for reason, count in sorted(by_reason.items(), key=lambda row: -row[1])
        if round(count)
    ]


def _savers(instance: Instance) -> list[dict[str, Any]]:
    """Return the producers with the most saved bytes, largest first."""
    totals: dict[str, float] = {}
    for labels, size in instance.figures.counter(recorder.SAVED).items():
        totals[labels[0]] = totals.get(labels[0], 0) + size
    order = sorted(totals.items(), key=lambda row: -row[1])
    return [{"producer": name, "bytes": size} for name, size in order[:_SAVERS]]


# ---- the log, and the active configuration with its findings


_OF_CONFIGURATION = frozenset(
    (
        Kind.STARTED,
        Kind.RELOADED,
        Kind.RELOAD_REFUSED,
        Kind.CERTIFICATES_RELOADED,
        Kind.CERTIFICATES_REFUSED,
    )
)
_RELOADS = 20
_LOG_COLUMNS = {"at": attrgetter("number")}
_OPTION_COLUMNS = {"origin": attrgetter("origin")}


class InstallationConsole:
    """Pages of the installation. `installation` is shared with the control plane's pages."""

    def __init__(self, installation: InstallationPages) -> None:
        self._installation = installation

    async def log(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of the log, newest first; `?level=` is the least severe level shown."""
        levels = list(Level)
        given = request.query.get("level", "")
        least = levels.index(Level(given)) if given in levels else 0
        entries = self._installation.sources.entries()
        values = {
            "listing": await asyncio.to_thread(_entries, request, entries, levels[least:]),
            "levels": levels,
            "level": levels[least],
        }
        return Page("log.html", "Log", values, is_live=True)

    async def configuration(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page of options with their origins: those set, or all with `?all=1`."""
        file, loaded, read_at = self._installation.sources.configuration()
        shows_all = request.query.get("all") == "1"
        listing = await asyncio.to_thread(_options, request, loaded, shows_all)
        findings = await asyncio.to_thread(self._installation.sources.findings)
        reloads = (
            entry
            for entry in self._installation.sources.entries()
            if entry.kind in _OF_CONFIGURATION
        )
        values = {
            "file": file,
            "read_at": read_at,
            "shows_all": shows_all,
            "listing": listing,
            "findings": [finding for finding in findings if finding.level != "ok"],
            "reloads": list(islice(reloads, _RELOADS)),
            "pid": os.getpid(),
        }
        return Page("configuration.html", "Configuration", values)


def _entries(
    request: web.Request, entries: Iterable[LogEntry], levels: Collection[Level]
) -> Listing:
    """Return the requested page of the log. Call it in a thread: it searches 2,000 texts."""
    rows = {str(entry.number): entry for entry in entries if entry.level in levels}
    return listed(request, rows, _LOG_COLUMNS, "at", ("level",), _words)


def _options(request: web.Request, loaded: Loaded, shows_all: bool) -> Listing:
    """Return the requested page of options. Call it in a thread: each topic has 40 options."""
    rows = {
        f"{option.section}.{option.name}": option
        for option in effective(loaded)
        if shows_all or option.origin != DEFAULT
    }
    listing = listed(request, rows, _OPTION_COLUMNS, "name", ("all",))
    return listing._replace(rows=[(name, _shown(option)) for name, option in listing.rows])


def _shown(option: Effective) -> dict[str, str]:
    view = option_view(option)
    return {"value": orjson.dumps(view["value"]).decode(), "origin": option.origin}


def _words(entry: LogEntry) -> str:
    """Return the text that a search reads, with the kind as shown and as in `/v1/log`."""
    return f"{entry.kind.replace('_', ' ')} {entry.subject} {entry.text} {entry.kind}"
