"""The skew audits: the newest of each topic, and what is kept of a topic's earlier ones."""

import orjson
from aiohttp import web

from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused, malformed
from headgate.core.skew_audits.summary import kept, summaries
from headgate.edge.management.instance import Instance
from headgate.edge.management.json_page import json_page
from headgate.edge.management.replays import IdentifyCaller


class AuditEndpoints:
    """Reads what `headgate-spark audit` has published."""

    def __init__(self, instance: Instance, identify: IdentifyCaller) -> None:
        self._instance = instance
        self._identify = identify

    async def latest(self, request: web.Request) -> web.Response:
        """The newest skew audit of all topics, or of one."""
        self._identify(request, "view")
        found = await self._instance.audits()
        if isinstance(found, Failure):
            raise Refused(found)
        wanted = request.query.get("topic")
        chosen = {topic: one for topic, one in found.items() if wanted in (None, topic)}
        if not chosen:
            raise Refused(no_audit(wanted))
        # each is spliced in as it was published
        return json_page(
            request, {"topics": [orjson.Fragment(chosen[name]) for name in sorted(chosen)]}
        )

    async def list(self, request: web.Request) -> web.Response:
        """A topic's audits, newest first, as they are compared."""
        self._identify(request, "view")
        topic = request.query.get("topic")
        if not topic:
            raise Refused(malformed("say which topic: /v1/audits?topic=orders"))
        found = await self._instance.audits()
        if isinstance(found, Failure):
            raise Refused(found)
        if topic not in found:
            raise Refused(no_audit(topic))
        every = summaries(orjson.loads(found[topic]))
        return json_page(request, {"audits": [kept(one) for one in every]})


def no_audit(topic: str | None) -> Failure:
    """topic: None for any."""
    detail = "no audit yet: run `headgate-spark audit`" + (f" for {topic!r}" if topic else "")
    return Failure(Reason.NOT_FOUND, detail)
