"""Pages of the whole installation: its verdict and figures, its log, and its configuration."""

import asyncio
import os
import time
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple
from urllib.parse import quote

import orjson
from aiohttp import web

from headgate.admin.console import figures
from headgate.admin.console.figures import Plot, Plots, Summary, by_pair, plot_by_label
from headgate.admin.console.page import Listing, Page, listed
from headgate.admin.control_plane import Admin
from headgate.admin.installation import InstallationPages, option_view
from headgate.admin.instance import Instance
from headgate.admin.monitor_answers import Json
from headgate.admin.status import latencies
from headgate.config import Loaded
from headgate.config.problems import DEFAULT
from headgate.config.reference import Effective, effective
from headgate.http.auth import Identity
from headgate.metrics import fleet as recorder
from headgate.metrics.fleet import Points
from headgate.metrics.snapshot import Pair
from headgate.model.installation import Kind, Level, LogEntry
from headgate.model.outcome import Failure, OutcomeName
from headgate.model.suppression_states import OFF, ON

_HOUR_S = 3600.0
_SAVERS = 5
_INCIDENTS = 20
_ENDS = {  # kinds of the log that end an incident, and the kinds that begin it
    Kind.OUTAGE_ENDED: Kind.OUTAGE_BEGAN,
    Kind.SPOOL_ENDED: Kind.SPOOL_BEGAN,
    Kind.SPOOL_RESUMED: Kind.SPOOL_STOPPED,
    Kind.WORKER_STARTED: Kind.WORKER_DIED,
}


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

    def __init__(self, admin: Admin, plots: Plots) -> None:
        self._instance = admin.instance
        self._status = admin.status
        self._plots = plots
        self._installation = admin.installation.sources

    async def build(self, request: web.Request, _caller: Identity) -> Page:
        """Build the page."""
        instance = self._instance
        verdict, groups = await self._status.judge(request)
        read = self._plots.read
        ends = await read(recorder.EVENTS, by=(2, 3), span_s=_HOUR_S)
        saved = await read(recorder.SAVED, span_s=_HOUR_S)
        pairs = by_pair(instance.figures, instance.rates, time.time())
        gauges = {name: _total(instance, name) for name in _GAUGES}
        seen = Reading(ends, saved, pairs, gauges)
        values = {
            "health": instance.health(),
            "since": instance.since,
            "verdict": verdict,
            "tiles": self._tiles(seen, groups),
            "more_tiles": self._more_tiles(seen),
            "plot": _outcome_plot(seen.ends),
            "source": self._plots.source,
            "rejects": _rejects(seen),
            "savers": _savers(self._instance),
            "quarantines": self._quarantines(),
            "incidents": self._recent_incidents(),
        }
        return Page("overview.html", "Overview", values, is_live=True)

    def _recent_incidents(self) -> list[tuple[LogEntry, float | None]]:
        """Return the newest incidents, each with its duration in seconds if it is over."""
        incidents: list[tuple[LogEntry, float | None]] = []
        ended: dict[tuple[Kind, str], float] = {}
        for entry in self._installation.entries():  # newest first: an end before its begin
            key, lasted = (entry.kind, entry.subject), entry.details.get("seconds")
            if entry.kind in _ENDS and isinstance(lasted, int | float):
                ended[_ENDS[entry.kind], entry.subject] = lasted
            if entry.level is not Level.INFO and len(incidents) < _INCIDENTS:
                incidents.append((entry, ended.pop(key, None)))
        return incidents

    def _quarantines(self) -> list[dict[str, Any]]:
        return [
            {"topic": topic, "state": str(now.state), "until_s": now.until_s}
            for topic, now in sorted(self._instance.suppression().items())
            if now.state not in (ON, OFF)
        ]

    def _tiles(self, seen: Reading, groups: Json | Failure) -> list[dict[str, Any]]:
        events = sum(summary.events_per_s for summary in seen.pairs.values())
        p99, _ = latencies(self._instance.history.recent, ()).get("", (None, 0))
        rejected = sum(
            count
            for end, count in seen.counted(seen.ends).items()
            if end[0] == OutcomeName.REJECTED
        )
        return [
            _tile("Events", figures.rate(events), "last minute", recorder.EVENTS),
            _tile("Latency p99", _latency(p99), "accepted requests, last 5 minutes",
                  "headgate_request_seconds"),
            _worst_lag(groups),
            _tile("Rejected", figures.count(rejected), "events, last hour", recorder.EVENTS),
            _tile("Traffic saved", figures.size(sum(seen.counted(seen.saved).values())),
                  "last hour: unchanged or superseded", recorder.SAVED),
        ]  # fmt: skip

    def _more_tiles(self, seen: Reading) -> list[dict[str, Any]]:
        size, gauges = sum(row.bytes_per_s for row in seen.pairs.values()), seen.gauges
        return [
            _tile("Payload bytes in", figures.rate(size, "B"), "last minute",
                  "headgate_event_bytes"),
            _tile("Held lag", figures.count(gauges["headgate_held_lag"]), "records to coalesce",
                  "headgate_held_lag"),
            _tile("Held keys", figures.count(gauges["headgate_held_keys"]), "with a held event",
                  "headgate_held_keys"),
            _tile("Spool", figures.size(gauges["headgate_spool_bytes"]),
                  f"{gauges['headgate_spool_events']:,.0f} events on disk", "headgate_spool_bytes"),
            _tile("In flight", figures.count(gauges["headgate_in_flight_events"]),
                  "events not yet answered", "headgate_in_flight_events"),
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


def _tile(label: str, value: str, note: str, metric: str, href: str = "") -> dict[str, Any]:
    return {"label": label, "value": value, "note": note, "metric": metric, "href": href}


def _latency(seconds: float | None) -> str:
    if seconds is None:
        return figures.number(None)
    return f"{1000 * seconds:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _worst_lag(groups: Json | Failure) -> dict[str, Any]:
    label, metric = "Worst lag", "headgate_group_lag"
    if isinstance(groups, Failure):
        return _tile(label, "unknown", "the monitor cannot be asked", metric, "/console/groups")
    worst = max(groups["groups"], key=itemgetter("lag"), default=None)
    if worst is None or not worst["lag"]:
        return _tile(label, "0", "no consumer group has lag", metric, "/console/groups")
    href = f"/console/groups/{quote(worst['group'], safe='')}"
    return _tile(label, figures.count(worst["lag"]), f"records, {worst['group']}", metric, href)


def _outcome_plot(ends: Points) -> Plot:
    rows: dict[tuple[str, ...], list[float]] = {}
    for (outcome, _), values in ends.rows.items():
        before = rows.get((outcome,), [0.0] * len(values))
        rows[outcome,] = [total + value for total, value in zip(before, values, strict=True)]
    title = "Events per second by outcome, last hour"
    merged = ends._replace(rows=rows)
    return plot_by_label("outcomes", title, "events", recorder.EVENTS, merged)


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
