"""Pages of the installation: its log, and the active configuration with its findings."""

import asyncio
import os
from collections.abc import Collection, Iterable
from itertools import islice

import orjson
from aiohttp import web

from headgate.admin.console.page import Listing, Page, listed
from headgate.admin.installation import InstallationPages, option_view
from headgate.config import Loaded
from headgate.config.problems import DEFAULT
from headgate.config.reference import Effective, effective
from headgate.http.auth import Identity
from headgate.model.installation import Kind, Level, LogEntry

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
_LOG_COLUMNS = {"at": lambda one: one.number}
_OPTION_COLUMNS = {"origin": lambda one: one.origin}


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


def _shown(one: Effective) -> dict[str, str]:
    view = option_view(one)
    return {"value": orjson.dumps(view["value"]).decode(), "origin": one.origin}


def _words(entry: LogEntry) -> str:
    """Return the text that a search reads, with the kind as shown and as in `/v1/log`."""
    return f"{entry.kind.replace('_', ' ')} {entry.subject} {entry.text} {entry.kind}"
