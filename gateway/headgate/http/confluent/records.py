"""POST /v3/clusters/{cluster_id}/topics/{topic}/records: Confluent's REST v3, single and streamed.

A body of known length is one request. With `Transfer-Encoding: chunked` the connection is a
stream: records are published as they arrive, and their reports are sent in their order.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from aiohttp import ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

from headgate.formats.confluent import (
    NO_RECORDS,
    V3_TYPE,
    Sent,
    codes_of,
    error,
    failure_report,
    read_record,
    report,
)
from headgate.formats.decode import Decoded
from headgate.formats.json_slow import parse_slowly
from headgate.formats.json_stream import PIECE_BYTES, Documents
from headgate.http.auth import CORS_HEADERS, peer_of
from headgate.http.body import BROKEN, continue_body, is_coded
from headgate.http.confluent.service import ProduceService, no_cluster
from headgate.http.events import Call, EventsFront, maybe_written
from headgate.http.request_log import TRACE
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import RawEvent, Ticket
from headgate.model.reply import Reply, advice_headers
from headgate.model.request import HeaderCount
from headgate.model.route import Route
from headgate.model.trace import Trace

SEPARATOR = b"\r\n"


class ProduceTarget(NamedTuple):
    """Destination and producer of a request's records."""

    events: EventsFront
    topic: str
    producer: str
    headers: Mapping[bytes, bytes]
    request_id: str
    cluster_id: str
    trace: Trace | None


class Group:
    """Records that are started and answered together. Building the group starts them.

    Args:
        target: Destination and producer of the records.
        texts: JSON documents of the records.
        body: Bytes of all records, which were taken from the budget.
    """

    def __init__(self, target: ProduceTarget, texts: Sequence[bytes], body: bytes) -> None:
        self._target = target
        self._texts = texts
        self.is_broken = False  # a record is no JSON, so the start of the next is unknown
        self._sent: list[Sent | None] = []
        events = target.events
        self._ticket = Ticket(
            target.topic,
            target.producer,
            target.request_id,
            events.now(),
            target.headers,
            body,
            trace=target.trace,
        )
        self._done = events.run_part(self._ticket, self._decode)

    def _decode(self, _ticket: Ticket, route: Route) -> Decoded:
        """Decode the records. An invalid record fails alone."""
        events: list[bytes | RawEvent | Failure] = []
        rules, count = (route.policy.compat_json_keys, route.key_max_bytes), HeaderCount()
        for text in self._texts:
            try:
                event, sent = read_record(text, *rules, count)
            except Refused as refused:
                events.append(refused.failure)
                self._sent.append(None)
                self.is_broken = not _is_json(text)
                if self.is_broken:
                    break
            else:
                events.append(event)
                self._sent.append(sent)
        return Decoded(events, True)

    @property
    def refusal(self) -> Failure | None:
        """Return the failure if the group was refused as a whole."""
        return None if self._ticket.is_batch else self._ticket.answered()[0].failure

    async def ended(self) -> None:
        """Wait until every record has ended, at the latest at the deadline."""
        await self._done

    def lines(self) -> list[bytes]:
        """Return the reports of all records, once they have ended."""
        self._target.events.request_log.ended(self._ticket, 200)
        refusal = self.refusal
        if refusal is not None:
            return [failure_report(refusal)] * len(self._texts)
        cluster_id, topic = self._target.cluster_id, self._target.topic
        return [
            report(cluster_id, topic, outcome, self._sent[index])
            for index, outcome in enumerate(self._ticket.answered())
        ]

    def status(self) -> int:
        """Return the HTTP status of a request with one record; its report has the same."""
        failure = self._ticket.answered()[0].failure
        return 200 if failure is None else codes_of(failure)[0]

    def advice(self) -> tuple[tuple[str, str], ...]:
        """Return headers that advise the client on its next attempt."""
        failures = [
            outcome.failure for outcome in self._ticket.answered() if outcome.failure is not None
        ]
        return advice_headers(failures[0]) if failures else ()


def _is_json(text: bytes) -> bool:
    try:
        parse_slowly(text)
    except Refused:
        return False
    return True


# ---- streams: the number of unanswered records is limited, so the gateway stops reading from a
# client that does not read its reports. Each direction has one coroutine, which ends with the
# request.


GROUP_RECORDS = 50  # start together, and are answered together
GROUPS_AHEAD = 8  # started and not answered yet
SILENCE_S = 300.0  # longest time between two records; then the stream ends
_IDENTIFIED_S = 1.0  # between checks of the caller's credentials; a reload causes one at once
_GONE = (ConnectionError, ClientPayloadError)


class RecordStream:
    """A stream of records and their reports on one connection.

    Args:
        target: Destination and producer of the records.
        request: The request whose body is the stream.
        max_bytes: Maximum size of one record, in bytes.
        idle_s: Maximum silence within a record, in seconds.
    """

    def __init__(
        self, target: ProduceTarget, request: web.BaseRequest, max_bytes: int, idle_s: float
    ) -> None:
        self._target = target
        self._budget = target.events.budget.of(target.producer)
        self._request = request
        self._documents = Documents(max_bytes)
        self._idle_s = idle_s
        self._held = 0  # bytes taken from the budget that belong to no group
        self._queue: asyncio.Queue[Group | Failure | None] = asyncio.Queue(GROUPS_AHEAD)
        self._authenticator = target.events.authenticator
        self._identified_s = target.events.now()

    async def run(self) -> web.StreamResponse:
        """Respond with 200 at once; the outcome of each record is in its report."""
        response = web.StreamResponse(headers={"X-Request-Id": self._target.request_id})
        response.headers.update(self._request.get(CORS_HEADERS, {}))
        response.content_type = V3_TYPE
        response.enable_chunked_encoding()
        await continue_body(self._request)
        await response.prepare(self._request)
        with suppress(*_GONE):  # started records go on and are counted, without a reader
            await self._both(response)
        if not self._request.content.is_eof():
            response.force_close()
        return response

    async def _both(self, response: web.StreamResponse) -> None:
        writing = asyncio.ensure_future(self._write(response))
        reading = asyncio.ensure_future(self._read())
        try:
            done, _ = await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in (reading, writing):
                task.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)
            self._give(self._held)

    # ---- input

    async def _read(self) -> None:
        try:
            while piece := await self._piece():
                self._take(len(piece))
                if not await self._start(self._documents.feed(piece)):
                    break
                self._documents.check()
                await asyncio.sleep(0)  # reading data that has arrived does not yield
            else:
                self._documents.end()
        except Refused as refused:  # the start of the next record is unknown
            await self._queue.put(refused.failure)
        await self._queue.put(None)

    async def _piece(self) -> bytes:
        within = self._documents.pending > 0
        try:
            async with asyncio.timeout(self._idle_s if within else SILENCE_S):
                return await self._request.content.read(PIECE_BYTES)
        except TimeoutError:
            detail = "the stream kept silent for too long" + (" within a record" if within else "")
            raise Refused(Failure(Reason.REQUEST_TIMEOUT, detail)) from None
        except (ClientPayloadError, HttpProcessingError):
            raise Refused(BROKEN) from None

    async def _start(self, texts: Sequence[bytes]) -> bool:
        """Start records. Return False if the stream cannot go on; the last report has the cause."""
        for some in _groups(texts):
            self._identify_again()
            body = b"".join(some)
            self._held -= len(body)
            group = Group(self._target, some, body)
            await self._queue.put(group)  # waits while too many groups are unanswered
            refusal = group.refusal
            if group.is_broken or (refusal is not None and refusal.reason is Reason.DRAINING):
                return False
        self._give(self._held - self._documents.pending)  # blanks between records
        return True

    def _identify_again(self) -> None:
        """Check the caller's credentials again.

        Raises:
            Refused: A reload removed the caller's token, or its token or certificate has expired.
        """
        target, events = self._target, self._target.events
        now = events.now()
        if events.authenticator is self._authenticator and now - self._identified_s < _IDENTIFIED_S:
            return
        self._authenticator, self._identified_s = events.authenticator, now
        peer = peer_of(self._request)
        caller = events.authorise(target.headers, peer, target.topic, target.request_id)
        if caller.name != target.producer:
            detail = f"these credentials are no longer those of producer {target.producer!r}"
            raise Refused(Failure(Reason.UNAUTHENTICATED, detail))

    def _take(self, size: int) -> None:
        failure = self._budget.take_bytes(size)
        if failure is not None:
            raise Refused(failure)
        self._held += size

    def _give(self, size: int) -> None:
        self._budget.give(size, 0)
        self._held -= size

    # ---- output

    async def _write(self, response: web.StreamResponse) -> None:
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Failure):
                lines = [failure_report(item)]
            else:
                await item.ended()
                lines = item.lines()
            await response.write(b"".join(line + SEPARATOR for line in lines))
        await response.write_eof()


def _groups(texts: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for at in range(0, len(texts), GROUP_RECORDS):
        yield texts[at : at + GROUP_RECORDS]


# ---- the endpoint


_FORMAT = b"application/json"
_CHARSETS = (b"utf-8", b"iso-8859-1", b"us-ascii")  # accepted names; the body must be UTF-8


def _wrong_type(content_type: bytes) -> Reply | None:
    media_type, _, parameters = content_type.lower().partition(b";")
    if media_type.strip() != _FORMAT:
        return error(415, 415, f"use Content-Type: {_FORMAT.decode()}", V3_TYPE)
    _, named, charset = parameters.partition(b"charset=")
    if named and charset.partition(b";")[0].strip(b' "') not in _CHARSETS:
        return error(400, 400, "an unknown charset in Content-Type; JSON is UTF-8", V3_TYPE)
    return None


class RecordStreams:
    """The endpoint for records of REST v3.

    Args:
        service: Common parts of Confluent's endpoints.
        max_events: Limit http.batch_max_events.
        max_bytes: Limit http.body_max_bytes.
        idle_s: Maximum silence of a stream within a record, in seconds.
    """

    def __init__(
        self, service: ProduceService, max_events: int, max_bytes: int, idle_s: float
    ) -> None:
        self.service = service
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._idle_s = idle_s

    async def post(self, cluster_id: str, topic: str, call: Call) -> Reply | web.StreamResponse:
        """Respond with the report of each record."""
        events = self.service.events
        caller = events.admit_call(call, topic)
        producer = caller.name
        wrong = _wrong_type(call.headers.get(b"content-type", b""))
        if wrong is not None:
            return self.service.refused_as(call, Reason.UNSUPPORTED_ENCODING, wrong)
        if self.service.cluster_id(self.service.policy(topic, caller)) != cluster_id:
            return self.service.refused_as(call, Reason.NOT_FOUND, no_cluster(cluster_id))
        target = ProduceTarget(
            events,
            topic,
            producer,
            call.headers,
            call.request_id,
            cluster_id,
            call.request.get(TRACE),
        )
        chunked = b"chunked" in call.headers.get(b"transfer-encoding", b"").lower()
        if chunked and not is_coded(call.headers.get(b"content-encoding", b"")):
            events.look_first(call, topic, needs_offset=True)
            stream = RecordStream(target, call.request, self._max_bytes, self._idle_s)
            return await stream.run()
        return await self._whole(target, call)

    async def _whole(self, target: ProduceTarget, call: Call) -> Reply:
        events = target.events
        body = await events.body(call, target.topic)
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
            reply = error(422, NO_RECORDS, empty, V3_TYPE)
            return self.service.refused_as(call, Reason.MALFORMED, reply)
        group = Group(target, texts, body)
        await group.ended()
        with maybe_written():
            lines = group.lines()
            if broken is not None and not group.is_broken:
                lines.append(failure_report(broken))
            status = group.status() if len(lines) == 1 else 200
            return Reply(status, V3_TYPE, group.advice(), SEPARATOR.join(lines))

    async def _cut(self, body: bytes) -> tuple[list[bytes], Failure | None]:
        """Return the records of a body, and the failure after the last one, if any."""
        documents, texts = Documents(self._max_bytes), list[bytes]()
        try:
            for at in range(0, len(body), PIECE_BYTES):
                texts += documents.feed(body[at : at + PIECE_BYTES])
                if len(texts) > self._max_events:
                    return texts, None  # the pipeline refuses them as too many
                if at:
                    await asyncio.sleep(0)
            documents.end()
        except Refused as refused:
            return texts, refused.failure
        return texts, None
