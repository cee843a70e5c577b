"""The installation as JSON: its log, the active options, and the findings of `headgate check`."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from aiohttp import web

from headgate.admin.views import iso
from headgate.config import Loaded
from headgate.config.problems import DEFAULT
from headgate.config.reference import Effective, effective
from headgate.config.settings import NAMED, SECTIONS
from headgate.http.pages import Paging, is_set, json_page, listed, page_of, paging
from headgate.model.installation import Kind, LogEntry, NewEntry
from headgate.model.outcome import Refused, malformed
from headgate.model.text import natural_number

if TYPE_CHECKING:
    from headgate.check.rules import Finding


class Configuration(NamedTuple):
    """The active configuration. `read_at` is in seconds since 1970."""

    file: str
    loaded: Loaded
    read_at: float


class Installation(NamedTuple):
    """Sources of the installation's pages.

    Attributes:
        entries: Returns the latest entries of the log, newest first.
        configuration: Returns the active configuration.
        findings: Returns the findings of `headgate check` without Kafka and Redis; slow.
        note: Adds an entry to the log.
    """

    entries: Callable[[], Sequence[LogEntry]]
    configuration: Callable[[], Configuration]
    findings: Callable[[], Sequence["Finding"]]
    note: Callable[[NewEntry], None]


class InstallationPages:
    """Pages of the installation."""

    def __init__(self, sources: Installation) -> None:
        self.sources = sources

    async def entries(self, request: web.Request) -> web.Response:
        """Respond with entries of the log, newest first, by kinds and time."""
        kinds, since_ms = _kinds(request), _since_ms(request)
        entries, wanted = self.sources.entries(), paging(request, "kind", "since")
        shown = await asyncio.to_thread(_entries, entries, wanted, kinds, since_ms)
        return json_page(request, shown)

    async def options(self, request: web.Request) -> web.Response:
        """Respond with the options, their values and the origins of the values."""
        wanted, chosen = paging(request, "section", "given"), _chosen(request)
        file, loaded, read_at = self.sources.configuration()
        shown = await asyncio.to_thread(_options, loaded, wanted, chosen)
        return json_page(request, {"file": file, "read_at": iso(read_at)} | shown)

    async def findings(self, request: web.Request) -> web.Response:
        """Respond with the findings of `headgate check` about the active configuration."""
        wanted = paging(request)
        rows = list(enumerate(await asyncio.to_thread(self.sources.findings)))
        page, following = page_of(rows, wanted, itemgetter(0), _count, str)
        return json_page(
            request, listed("findings", [finding._asdict() for _, finding in page], following)
        )


def entry_view(entry: LogEntry) -> dict[str, Any]:
    """Return the JSON of an entry."""
    return {
        "id": entry.number,
        "at": iso(entry.at_ms / 1000),
        "kind": entry.kind,
        "level": entry.level,
        "subject": entry.subject,
        "text": entry.text,
        "details": dict(entry.details),
    }


def option_view(option: Effective) -> dict[str, Any]:
    """Return the JSON of an option."""
    return {
        "option": f"{option.section}.{option.name}",
        "value": option.value,
        "origin": option.origin,
    }


def _entries(
    entries: Sequence[LogEntry], wanted: Paging, kinds: frozenset[str], since_ms: float
) -> dict[str, Any]:
    """Return the requested page of entries. Call it in a thread: there may be 2,000 entries."""
    chosen = [entry for entry in entries if entry.kind in kinds and entry.at_ms >= since_ms]
    rows, following = page_of(
        chosen, wanted, lambda entry: -entry.number, _number, lambda at: str(-at)
    )
    return listed("entries", [entry_view(row) for row in rows], following)


def _options(loaded: Loaded, wanted: Paging, chosen: Callable[[Effective], bool]) -> dict[str, Any]:
    """Return the requested page of options. Call it in a thread: each topic has 40 options."""
    rows = [(number, option) for number, option in enumerate(effective(loaded)) if chosen(option)]
    page, following = page_of(rows, wanted, itemgetter(0), _count, str)
    return listed("options", [option_view(option) for _, option in page], following)


def _count(text: str) -> int | None:
    return natural_number(text, 15)


def _number(text: str) -> int | None:
    number = _count(text)
    return None if number is None else -number


def _kinds(request: web.Request) -> frozenset[str]:
    given = [kind for text in request.query.getall("kind", []) for kind in text.split(",") if kind]
    all_kinds = frozenset(map(str, Kind))
    if not all_kinds.issuperset(given):
        raise Refused(malformed(f"kind is one or some of {', '.join(Kind)}"))
    return frozenset(given) or all_kinds


def _since_ms(request: web.Request) -> float:
    given = request.query.get("since")
    if given is None:
        return 0
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        detail = "since is a time with a zone, such as 2026-01-01T12:00:00Z"
        raise Refused(malformed(detail))
    return at.timestamp() * 1000


def _chosen(request: web.Request) -> Callable[[Effective], bool]:
    section, only_given = request.query.get("section"), is_set(request, "given")
    sections = [*SECTIONS, *NAMED]
    if section is not None and section.partition(".")[0] not in sections:
        raise Refused(malformed(f"section is one of {', '.join(sections)}, or a table of one"))

    def is_chosen(option: Effective) -> bool:
        inside = (
            section is None or option.section == section or option.section.startswith(f"{section}.")
        )
        return inside and not (only_given and option.origin == DEFAULT)

    return is_chosen
