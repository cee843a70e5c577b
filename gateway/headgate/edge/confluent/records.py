"""POST /v3/clusters/{cluster_id}/topics/{topic}/records: Confluent's REST v3, single and streamed.

A body of known length is one request. With `Transfer-Encoding: chunked` the connection is a
stream: records are published as they arrive, and their reports are sent in their order.
"""

import asyncio
from functools import partial

from aiohttp import web

from headgate.core.formats.concatenated import PIECE_BYTES, Documents
from headgate.core.formats.confluent import NO_RECORDS, error
from headgate.core.formats.confluent_v3 import TYPE
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import Refused
from headgate.core.reply import Reply
from headgate.edge.body import is_coded
from headgate.edge.confluent.group import SEPARATOR, Group, ProduceTarget, failure_line
from headgate.edge.confluent.service import ProduceService, ServiceRequest, no_cluster
from headgate.edge.confluent.stream import RecordStream

_PATH = "/v3/clusters/{cluster_id}/topics/{topic}/records"
_FORMAT = b"application/json"
_CHARSETS = (b"utf-8", b"iso-8859-1", b"us-ascii")  # named only: what is not UTF-8 is refused


def _wrong_type(content_type: bytes) -> Reply | None:
    media_type, _, parameters = content_type.lower().partition(b";")
    if media_type.strip() != _FORMAT:
        return error(415, 415, f"use Content-Type: {_FORMAT.decode()}", TYPE)
    _, named, charset = parameters.partition(b"charset=")
    if named and charset.partition(b";")[0].strip(b' "') not in _CHARSETS:
        return error(400, 400, "an unknown charset in Content-Type; JSON is UTF-8", TYPE)
    return None


class RecordStreams:
    """max_events, max_bytes: http.batch_max_events and http.body_max_bytes.  idle_s: how long a
    stream may keep silent within a record."""

    def __init__(
        self, service: ProduceService, max_events: int, max_bytes: int, idle_s: float
    ) -> None:
        self._service = service
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._idle_s = idle_s

    async def post(
        self, request: web.BaseRequest, cluster_id: str, topic: str
    ) -> web.StreamResponse:
        """Answer with the report of each record."""
        work = partial(self._post, cluster_id, topic)
        return await self._service.answer(request, _PATH, TYPE, work)

    async def _post(
        self, cluster_id: str, topic: str, call: ServiceRequest
    ) -> Reply | web.StreamResponse:
        events = self._service.events
        caller = self._service.producer(call, topic)
        producer = caller.name
        wrong = _wrong_type(call.headers.get(b"content-type", b""))
        if wrong is not None:
            return self._service.refuse(call, Reason.UNSUPPORTED_ENCODING, wrong)
        if self._service.cluster_id(self._service.policy(topic, caller)) != cluster_id:
            return self._service.refuse(call, Reason.NOT_FOUND, no_cluster(cluster_id))
        target = ProduceTarget(events, topic, producer, call.headers, call.request_id, cluster_id)
        chunked = b"chunked" in call.headers.get(b"transfer-encoding", b"").lower()
        if chunked and not is_coded(call.headers.get(b"content-encoding", b"")):
            given = (call.request, call.headers, producer, topic, call.request_id)
            events.look_first(*given, needs_offset=True)
            stream = RecordStream(target, call.request, self._max_bytes, self._idle_s)
            return await stream.run()
        return await self._whole(target, call)

    async def _whole(self, target: ProduceTarget, call: ServiceRequest) -> Reply:
        events = target.events
        body = await events.body(
            call.request, call.headers, target.producer, target.topic, call.request_id
        )
        try:
            texts, broken = await self._cut(body)
        except BaseException:
            events.budget.give(target.producer, len(body), 0)
            raise
        if not texts:
            events.budget.give(target.producer, len(body), 0)
            if broken is not None:
                raise Refused(broken)
            empty = "Payload error. The body is empty; send a record."
            reply = error(422, NO_RECORDS, empty, TYPE)
            return self._service.refuse(call, Reason.MALFORMED, reply)
        group = Group(target, texts, body)
        await group.ended()
        lines = group.lines()
        if broken is not None and not group.is_broken:
            lines.append(failure_line(broken))
        status = group.status() if len(lines) == 1 else 200
        return Reply(status, TYPE, group.advice(), SEPARATOR.join(lines))

    async def _cut(self, body: bytes) -> tuple[list[bytes], Failure | None]:
        """The records of a body, and what is wrong behind the last of them."""
        documents, texts = Documents(self._max_bytes), list[bytes]()
        try:
            for at in range(0, len(body), PIECE_BYTES):
                texts += documents.feed(body[at : at + PIECE_BYTES])
                if len(texts) > self._max_events:
                    return texts, None  # the pipeline says that they are too many
                if at:
                    await asyncio.sleep(0)
            documents.end()
        except Refused as refused:
            return texts, refused.failure
        return texts, None
