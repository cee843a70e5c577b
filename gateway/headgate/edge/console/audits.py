"""The newest skew audits: the list, and a topic's."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.page import Page
from headgate.edge.management.control_plane import Admin

_KEYS = 20

_COLUMNS = {
    "uneven": lambda one: one.uneven_bytes,
    "records": lambda one: one.records,
    "bytes": lambda one: one.bytes,
    "found": lambda one: (len(one.diagnoses), one.uneven_bytes),
}


class AuditRow(NamedTuple):
    """One line of the list. uneven: the fullest partition beside the mean."""

    to: str
    records: int
    bytes: int
    partitions: int
    uneven_records: float
    uneven_bytes: float
    useful: int | None
    diagnoses: tuple[str, ...]


class AuditPages:
    """Keeps a line of each audit, so that its document of 50 kB is read once."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._rows: dict[str, tuple[bytes, AuditRow | None]] = {}

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """All topics, the worst first unless the address says otherwise."""
        found = await self._admin.instance.audits()
        if isinstance(found, Failure):
            values: dict[str, Any] = {"failure": found, "run": self._run()}
            return Page("audits.html", "Skew audits", values)
        read = {topic: self._row(topic, body) for topic, body in found.items()}
        self._rows = {topic: self._rows[topic] for topic in found}
        rows = {topic: row for topic, row in read.items() if row is not None}
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "found"),
            "unread": sorted(set(read) - set(rows)),
            "run": self._run(),
        }
        return Page("audits.html", "Skew audits", values)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """One topic's."""
        topic = request.match_info["topic"]
        found = await self._admin.instance.audits()
        if isinstance(found, Failure):
            raise Refused(found)
        row = None if topic not in found else self._row(topic, found[topic])
        if row is None:
            detail = f"no audit of {topic!r} yet: run `headgate-spark audit`"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        document = orjson.loads(found[topic])
        values = {
            "topic": topic,
            "row": row,
            "document": document,
            "keys": _listed(document, "top_keys")[:_KEYS],
            "what_if": _listed(document, "what_if"),
            "findings": _listed(document, "findings"),
            "advice": _listed(document, "recommendations"),
            "producers": _listed(document, "producers")[:_KEYS],
            "notes": [str(one) for one in document.get("notes") or ()],
        }
        return Page("audit.html", f"Skew audit of {topic}", values)

    def _run(self) -> str:
        file = self._admin.installation.configuration.shown.file
        return shlex.join(["headgate-spark", "audit", "--config", file, "--from", "2h"])

    def _row(self, topic: str, body: bytes) -> AuditRow | None:
        known = self._rows.get(topic)
        if known is None or known[0] is not body:
            known = self._rows[topic] = body, _read(orjson.loads(body))
        return known[1]


def _read(document: Mapping[str, Any]) -> AuditRow | None:
    """None: another release has written it, and in another way."""
    try:
        return AuditRow(
            str(document["window"]["to"]),
            int(document["records"]),
            int(document["bytes"]),
            int(document["partitions"]),
            float(document["by_records"]["max_over_mean"]),
            float(document["by_bytes"]["max_over_mean"]),
            document["max_useful_partitions"],
            tuple(map(str, document["diagnoses"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


class _Lenient(dict[str, Any]):
    """What another release leaves out is shown as unknown."""

    def __missing__(self, name: str) -> None:
        return None


def _listed(document: Mapping[str, Any], name: str) -> Sequence[_Lenient]:
    found = document.get(name) or ()
    return [_Lenient(one) for one in found if isinstance(one, dict)]
