"""The skew audits: the list, a topic's newest, and two of a topic compared."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, brief
from headgate.core.skew_audits.changes import Change, change, changes, times
from headgate.core.skew_audits.comparison import compare
from headgate.core.skew_audits.summary import AuditSummary, summaries, summary_of
from headgate.edge.auth import Identity
from headgate.edge.console.listing import listed
from headgate.edge.console.page import Page
from headgate.edge.console.what_if import what_if
from headgate.edge.management.control_plane import Admin

_KEYS = 20
_WORST_FIRST = (Change.WORSE, Change.NEW, Change.GONE, Change.SAME, Change.BETTER)

_COLUMNS = {
    "uneven": lambda one: one.audit.uneven_bytes,
    "records": lambda one: one.audit.records,
    "bytes": lambda one: one.audit.bytes,
    "found": lambda one: (len(one.audit.diagnoses), one.audit.uneven),
    "change": lambda one: (-_WORST_FIRST.index(one.change), one.audit.uneven),
}


class AuditRow(NamedTuple):
    """One line of the list. change: since the earlier audit."""

    audit: AuditSummary
    change: Change


class AuditPages:
    """Shows what `headgate-spark audit` has published."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._audits = admin.published_audits

    async def list(self, request: web.Request, _caller: Identity) -> Page:
        """All topics, the worst first unless the address says otherwise."""
        try:
            heads = await self._audits.heads()
        except Refused as refused:
            values: dict[str, Any] = {"failure": refused.failure, "run": self._run()}
            return Page("audits.html", "Skew audits", values)
        since = request.query.get("since") or None
        found = changes(heads, since)
        rows = {topic: AuditRow(heads[topic][0], one) for topic, one in found.items()}
        values = {
            "failure": None,
            "listing": listed(request, rows, _COLUMNS, "found", kept=("since",)),
            "unread": sorted(set(heads) - set(rows)),
            "times": times(heads.values()),
            "since": since,
            "run": self._run(),
        }
        return Page("audits.html", "Skew audits", values)

    async def show(self, request: web.Request, _caller: Identity) -> Page:
        """A topic's newest. `?partitions=`: what if it had so many."""
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
            "change": change(earlier[0], newest) if earlier else None,
            "document": document,
            "keys": _listed(document, "top_keys")[:_KEYS],
            "what_if": what_if(document, newest.partitions, request.query.get("partitions")),
            "findings": _listed(document, "findings"),
            "advice": _listed(document, "recommendations"),
            "producers": _listed(document, "producers")[:_KEYS],
            "notes": [str(one) for one in document.get("notes") or ()],
        }
        return Page("audit.html", f"Skew audit of {topic}", values)

    async def compare(self, request: web.Request, _caller: Identity) -> Page:
        """Two audits of a topic: `?before=` and `?after=`, when they were made."""
        topic, asked = request.match_info["topic"], request.query
        audits = await self._audits.of_topic(topic)
        values: dict[str, Any] = {"topic": topic, "audits": audits, "found": None}
        if len(audits) > 1:
            pair = await self._audits.pair(
                topic, asked.get("before") or None, asked.get("after") or None
            )
            before, after = pair
            values |= {
                "before": before,
                "after": after,
                "found": compare(before, after),
                "change": change(before, after),
            }
        return Page("audit_comparison.html", f"Skew audits of {topic} compared", values)

    def _run(self) -> str:
        file = self._admin.installation.configuration.shown.file
        return shlex.join(["headgate-spark", "audit", "--config", file, "--from", "2h"])


class _Lenient(dict[str, Any]):
    """What another release leaves out is shown as unknown."""

    def __missing__(self, name: str) -> None:
        return None


def _listed(document: Mapping[str, Any], name: str) -> Sequence[_Lenient]:
    found = document.get(name) or ()
    return [_Lenient(one) for one in found if isinstance(one, dict)]
