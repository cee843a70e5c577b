"""POST /v1/bursts/{id}/commit: publish what a burst has left of each of its keys."""

import asyncio
from collections.abc import Mapping

from aiohttp import web

from headgate.coalescer.bursts import Bursts
from headgate.core.admission import DRAINING
from headgate.core.outcome import Failure
from headgate.core.refusal import Refused
from headgate.core.reply import JSON, Reply, json_text, problem
from headgate.core.request import read_burst
from headgate.edge.answer import answered
from headgate.edge.auth import Identity
from headgate.edge.events import EventsFront
from headgate.edge.peer import Peer, peer_of

ROUTE = "/v1/bursts/{id}/commit"


class BurstsFront:
    """Asks who it is as posting events does."""

    def __init__(self, events: EventsFront, bursts: Bursts) -> None:
        self._events = events
        self._bursts = bursts
        self._loop = asyncio.get_running_loop()

    async def commit(self, request: web.BaseRequest, burst: str) -> web.StreamResponse:
        """Answer once Kafka has acknowledged the burst's end. ?topic=: only there."""
        arrived = self._loop.time()
        headers = {name.lower(): value for name, value in request.raw_headers}
        request_id, who = self._events.request_id(headers), ""
        try:
            caller = self._caller(headers, peer_of(request))
            who = caller.name
            named = request.query.getall("topic", [])
            marker = read_burst(burst.encode("utf-8", "surrogateescape"))
            assert marker is not None
            topics = await self._bursts.commit(marker, caller.name, caller.may_post, named)
            page = {"outcome": "committed", "burst": burst, "topics": topics}
            reply = Reply(200, JSON, (), json_text(page).encode())
        except Refused as refused:
            reply = problem(refused.failure, request_id)
            path = request.rel_url.raw_path
            self._events.request_log.refused(refused.failure, request_id, producer=who, path=path)
        self._events.requests.request(ROUTE, reply.status, self._loop.time() - arrived)
        return answered(request, reply, request_id)

    def _caller(self, headers: Mapping[bytes, bytes], peer: Peer) -> Identity:
        if self._events.pipeline.admission.is_closed:
            raise Refused(DRAINING)
        found = self._events.callers.identify(headers, peer)
        if isinstance(found, Failure):
            raise Refused(found)
        return found
