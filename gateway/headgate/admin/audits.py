"""Skew audits as JSON: the latest of each topic, a topic's earlier ones, and comparisons."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from aiohttp import web

from headgate.admin.instance import Instance
from headgate.audits.results import (
    AuditSummary,
    LoadChange,
    choose_pair,
    compare,
    summaries,
    summary_document,
    topic_change,
)
from headgate.http.pages import json_page, refuse_unknown
from headgate.model.outcome import SHOWN, Failure, Reason, Refused, brief, malformed

RUN = "headgate-spark audit --config headgate.toml --from 2h"


class AuditPages:
    """The audits that `headgate-spark audit` published, and their pages as JSON.

    All methods may raise Refused.

    Without keys and producers an audit is small. So the audits of all topics are cached in this
    form, and a list parses no document twice.
    """

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._heads: dict[str, tuple[bytes, list[AuditSummary]]] = {}

    async def documents(self) -> Mapping[str, bytes]:
        """Return the newest audit of each topic, as published."""
        documents = await self._instance.audits()
        if isinstance(documents, Failure):
            raise Refused(documents)
        return documents

    async def document(self, topic: str) -> bytes:
        """Return the newest audit of a topic, as published."""
        documents = await self.documents()
        if topic not in documents:
            raise Refused(no_audit(topic))
        return documents[topic]

    async def of_topic(self, topic: str) -> Sequence[AuditSummary]:
        """Return the audits of a topic, newest first."""
        return summaries(orjson.loads(await self.document(topic)))

    async def heads(self) -> dict[str, list[AuditSummary]]:
        """Return the audits of all topics without keys and producers, newest first.

        The list of a topic is empty if another release wrote its audits in another format.
        """
        documents = await self.documents()
        self._heads = {
            topic: cached_head for topic, cached_head in self._heads.items() if topic in documents
        }
        heads = {}
        for topic, body in documents.items():
            cached = self._heads.get(topic)
            if cached is None or cached[0] is not body:
                await asyncio.sleep(0)  # each one takes about 1 ms of the event loop
                cached = self._heads[topic] = body, _heads(body)
            heads[topic] = cached[1]
        return heads

    async def pair(
        self, topic: str, before: str | None, after: str | None
    ) -> tuple[AuditSummary, AuditSummary]:
        """Return two audits of a topic.

        Args:
            topic: The topic.
            before: Time of the earlier audit; None: the one before the newest.
            after: Time of the later audit; None: the newest.
        """
        audits = await self.of_topic(topic)
        pair = choose_pair(audits, before, after)
        if pair is None:
            made = ", ".join(audit.generated_at for audit in audits)
            detail = f"{topic[:SHOWN]} has no two such audits to compare; these are kept: {made}"
            raise Refused(Failure(Reason.NOT_FOUND, detail))
        return pair

    # ---- the pages

    async def latest(self, request: web.Request) -> web.Response:
        """Respond with the newest skew audit of all topics, or of one."""
        refuse_unknown(request, "topic")
        documents = await self.documents()
        wanted = request.query.get("topic")
        names = [topic for topic in sorted(documents) if wanted in (None, topic)]
        if not names:
            raise Refused(no_audit(wanted))
        # each document is inserted as published
        return json_page(request, {"topics": [orjson.Fragment(documents[name]) for name in names]})

    async def list(self, request: web.Request) -> web.Response:
        """Respond with a topic's audits, newest first, in the form for comparisons."""
        refuse_unknown(request, "topic")
        every = await self.of_topic(_topic(request))
        return json_page(request, {"audits": [summary_document(audit) for audit in every]})

    async def comparison(self, request: web.Request) -> web.Response:
        """Respond with the differences between two audits of a topic."""
        refuse_unknown(request, "topic", "before", "after")
        topic, query = _topic(request), request.query
        before, after = await self.pair(topic, query.get("before"), query.get("after"))
        return json_page(request, _compared(before, after))


def no_audit(topic: str | None) -> Failure:
    """Return the failure for a topic without audits; None: for any topic."""
    detail = "no audit yet: run `headgate-spark audit`" + (f" for {brief(topic)}" if topic else "")
    return Failure(Reason.NOT_FOUND, detail)


def _heads(body: bytes) -> list[AuditSummary]:
    every = summaries(orjson.loads(body))
    return [audit._replace(keys=(), producers=()) for audit in every]


def _topic(request: web.Request) -> str:
    topic = request.query.get("topic")
    if not topic:
        raise Refused(malformed(f"the parameter topic is missing: {request.path}?topic=orders"))
    return topic


def _compared(before: AuditSummary, after: AuditSummary) -> dict[str, Any]:
    comparison = compare(before, after)
    return {
        "topic": after.topic,
        "before": before.generated_at,
        "after": after.generated_at,
        "change": topic_change(before, after),
        "diagnoses": {
            "came": comparison.came,
            "went": comparison.went,
            "stayed": comparison.stayed,
        },
        "figures": [
            {**figure._asdict(), "difference": figure.difference, "ratio": figure.ratio}
            for figure in comparison.figures
        ],
        "keys": [_share("key", row.name, row) for row in comparison.keys],
        "producers": [_share("producer", row.name or None, row) for row in comparison.producers],
    }


def _share(of: str, name: str | None, row: LoadChange) -> dict[str, Any]:
    return {of: name, "change": row.kind, "before": row.before, "after": row.after}
