"""What happened to the gateway, and the configuration in force with what `check` says of it."""

import asyncio
from itertools import islice

import orjson
from aiohttp import web

from headgate.config.effective import effective
from headgate.config.origins import DEFAULT
from headgate.core.installation.entry import Kind, Level, LogEntry
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.page import Page
from headgate.edge.management.installation import InstallationPages, option_view

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
_OPTION_COLUMNS = {"origin": lambda one: one["origin"]}


class InstallationConsole:
    """installation: what the control plane's own pages read."""

    def __init__(self, installation: InstallationPages) -> None:
        self._installation = installation

    async def log(self, request: web.Request, _caller: Identity) -> Page:
        """The installation log, newest first; `?level=` is the least severe that is shown."""
        levels = list(Level)
        asked = request.query.get("level", "")
        least = levels.index(Level(asked)) if asked in levels else 0
        rows = {
            _words(entry): entry
            for entry in self._installation.log.recent()
            if levels.index(entry.level) >= least
        }
        values = {
            "listing": listed(request, rows, _LOG_COLUMNS, "at", ("level",)),
            "levels": levels,
            "level": levels[least],
        }
        return Page("log.html", "Event log", values, is_live=True)

    async def configuration(self, request: web.Request, _caller: Identity) -> Page:
        """Options with their origins: those that something sets, or with `?all=1` every one."""
        file, loaded, read_at = self._installation.configuration.shown
        shows_all = request.query.get("all") == "1"
        views = (option_view(one) for one in effective(loaded))
        rows = {
            view["option"]: {**view, "value": orjson.dumps(view["value"]).decode()}
            for view in views
            if shows_all or view["origin"] != DEFAULT
        }
        findings = await asyncio.to_thread(self._installation.configuration.findings)
        reloads = (one for one in self._installation.log.recent() if one.kind in _OF_CONFIGURATION)
        values = {
            "file": file,
            "read_at": read_at,
            "shows_all": shows_all,
            "listing": listed(request, rows, _OPTION_COLUMNS, "name", ("all",)),
            "findings": [one for one in findings if one.level != "ok"],
            "reloads": list(islice(reloads, _RELOADS)),
        }
        return Page("configuration.html", "Configuration", values)


def _words(entry: LogEntry) -> str:
    """What a search looks through; its number makes it the only one."""
    return f"{entry.kind} {entry.subject} {entry.text}\0{entry.number}"
