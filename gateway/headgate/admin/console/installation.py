"""The pages of the installation: its log, and the active configuration with its findings."""

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
from headgate.core.installation import Kind, Level, LogEntry
from headgate.edge.auth import Identity

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
    """installation: what the control plane's own pages read."""

    def __init__(self, installation: InstallationPages) -> None:
        self._installation = installation

    async def log(self, request: web.Request, _caller: Identity) -> Page:
        """The installation log, newest first; `?level=` is the least severe that is shown."""
        levels = list(Level)
        asked = request.query.get("level", "")
        least = levels.index(Level(asked)) if asked in levels else 0
        entries = self._installation.log.recent()
        values = {
            "listing": await asyncio.to_thread(_entries, request, entries, levels[least:]),
            "levels": levels,
            "level": levels[least],
        }
        return Page("log.html", "Log", values, is_live=True)

    async def configuration(self, request: web.Request, _caller: Identity) -> Page:
        """Options with their origins: those that something sets, or with `?all=1` every one."""
        file, loaded, read_at = self._installation.configuration.shown
        shows_all = request.query.get("all") == "1"
        listing = await asyncio.to_thread(_options, request, loaded, shows_all)
        findings = await asyncio.to_thread(self._installation.configuration.findings)
        reloads = (one for one in self._installation.log.recent() if one.kind in _OF_CONFIGURATION)
        values = {
            "file": file,
            "read_at": read_at,
            "shows_all": shows_all,
            "listing": listing,
            "findings": [one for one in findings if one.level != "ok"],
            "reloads": list(islice(reloads, _RELOADS)),
            "pid": os.getpid(),
        }
        return Page("configuration.html", "Configuration", values)


def _entries(
    request: web.Request, entries: Iterable[LogEntry], levels: Collection[Level]
) -> Listing:
    """The page of the log that is asked for; for a thread, as 2,000 texts are searched."""
    rows = {str(entry.number): entry for entry in entries if entry.level in levels}
    return listed(request, rows, _LOG_COLUMNS, "at", ("level",), _words)


def _options(request: web.Request, loaded: Loaded, shows_all: bool) -> Listing:
    """The page of options that is asked for; for a thread, as there are 40 of each topic."""
    rows = {
        f"{one.section}.{one.name}": one
        for one in effective(loaded)
        if shows_all or one.origin != DEFAULT
    }
    found = listed(request, rows, _OPTION_COLUMNS, "name", ("all",))
    return found._replace(rows=[(name, _shown(one)) for name, one in found.rows])


def _shown(one: Effective) -> dict[str, str]:
    view = option_view(one)
    return {"value": orjson.dumps(view["value"]).decode(), "origin": one.origin}


def _words(entry: LogEntry) -> str:
    """What a search looks through: the kind as it is shown, and as `/v1/log` names it."""
    return f"{entry.kind.replace('_', ' ')} {entry.subject} {entry.text} {entry.kind}"
