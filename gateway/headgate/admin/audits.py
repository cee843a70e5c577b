"""Skew audits as JSON: the latest of each topic, a topic's earlier ones, and comparisons."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from headgate.admin.instance import Instance
from headgate.admin.replays import IdentifyCaller
from headgate.audits.results import AuditSummary, Row, change, chosen, compare, kept, summaries
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused, brief, malformed
from headgate.edge.pages import json_page

RUN = "headgate-spark audit --config headgate.toml --from 2h"


class PublishedAudits:
    """Reader of the audits that `headgate-spark audit` published. Raises Refused.

    Without its keys and producers an audit is small: so those of all topics are kept, and no
    document is read twice for a list.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._heads: dict[str, tuple[bytes, list[AuditSummary]]] = {}

    async def documents(self) -> Mapping[str, bytes]:
        """The newest of each topic, as it was published."""
        found = await self._instance.audits()
        if isinstance(found, Failure):
            raise Refused(found)
        return found

    async def document(self, topic: str) -> bytes:
        """The newest of this topic."""
        found = await self.documents()
        if topic not in found:
            raise Refused(no_audit(topic))
        return found[topic]

    async def of_topic(self, topic: str) -> Sequence[AuditSummary]:
        """Return the audits of a topic, newest first."""
        return summaries(orjson.loads(await self.document(topic)))

    async def heads(self) -> dict[str, list[AuditSummary]]:
        """All topics' audits without keys and producers, newest first; none where another release
        has written them, and in another way."""
        found = await self.documents()
        self._heads = {topic: one for topic, one in self._heads.items() if topic in found}
        heads = {}
        for topic, body in found.items():
            known = self._heads.get(topic)
            if known is None or known[0] is not body:
                await asyncio.sleep(0)  # each takes some 1 ms of the event loop
                known = self._heads[topic] = body, _heads(body)
            heads[topic] = known[1]
        return heads

    async def pair(
        self, topic: str, before: str | None, after: str | None
    ) -> tuple[AuditSummary, AuditSummary]:
        """Two audits of a topic by when they were made; None: the newest, and the one before."""
        audits = await self.of_topic(topic)
        pair = chosen(audits, before, after)
        if pair is None:
            made = ", ".join(one.generated_at for one in audits)
            detail = f"{topic[:SHOWN]} has no two such audits to compare; these are kept: {made}"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        return pair


class AuditEndpoints:
    """The audits as JSON."""

    def __init__(self, audits: PublishedAudits, identify: IdentifyCaller) -> None:
        self._audits = audits
        self._identify = identify

    async def latest(self, request: web.Request) -> web.Response:
        """The newest skew audit of all topics, or of one."""
        self._identify(request, "view")
        found = await self._audits.documents()
        wanted = request.query.get("topic")
        names = [topic for topic in sorted(found) if wanted in (None, topic)]
        if not names:
            raise Refused(no_audit(wanted))
        # each is spliced in as it was published
        return json_page(request, {"topics": [orjson.Fragment(found[name]) for name in names]})

    async def list(self, request: web.Request) -> web.Response:
        """A topic's audits, newest first, as they are compared."""
        self._identify(request, "view")
        every = await self._audits.of_topic(_topic(request))
        return json_page(request, {"audits": [kept(one) for one in every]})

    async def comparison(self, request: web.Request) -> web.Response:
        """Respond with the differences between two audits of a topic."""
        self._identify(request, "view")
        topic, asked = _topic(request), request.query
        before, after = await self._audits.pair(topic, asked.get("before"), asked.get("after"))
        return json_page(request, _compared(before, after))


def no_audit(topic: str | None) -> Failure:
    """topic: None for any."""
    detail = "no audit yet: run `headgate-spark audit`" + (f" for {brief(topic)}" if topic else "")
    return Failure(Reason.NOT_FOUND, detail)


def _heads(body: bytes) -> list[AuditSummary]:
    every = summaries(orjson.loads(body))
    return [one._replace(keys=(), producers=()) for one in every]


def _topic(request: web.Request) -> str:
    topic = request.query.get("topic")
    if not topic:
        raise Refused(malformed(f"the parameter topic is missing: {request.path}?topic=orders"))
    return topic


def _compared(before: AuditSummary, after: AuditSummary) -> dict[str, Any]:
    found = compare(before, after)
    return {
        "topic": after.topic,
        "before": before.generated_at,
        "after": after.generated_at,
        "change": change(before, after),
        "diagnoses": {"came": found.came, "went": found.went, "stayed": found.stayed},
        "figures": [
            {**one._asdict(), "difference": one.difference, "ratio": one.ratio}
            for one in found.figures
        ],
        "keys": [_share("key", row.name, row) for row in found.keys],
        "producers": [_share("producer", row.name or None, row) for row in found.producers],
    }


def _share(of: str, name: str | None, row: Row) -> dict[str, Any]:
    return {of: name, "change": row.change, "before": row.before, "after": row.after}
