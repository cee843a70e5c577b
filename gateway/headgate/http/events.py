"""Fronts for posting events, the route that must be cheap, and for committing bursts."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol
from urllib.parse import quote

from aiohttp import web

from headgate.coalescer.bursts import Bursts
from headgate.formats.json_text import Weight, heaviest
from headgate.http.answer import answered, on_the_wire
from headgate.http.auth import ANONYMOUS, Authenticator, Identity, Peer, peer_of
from headgate.http.body import Budget, read_body, received_body, waits_for_leave
from headgate.http.heads import MAX_BYTES, PlainPosts
from headgate.http.request_log import REPORTED, TRACE, RequestLog
from headgate.http.starting import Starting
from headgate.http.streams import Streams, streamed
from headgate.idempotency.requests import EVENTS
from headgate.idempotency.rules import IDEMPOTENCY_KEY
from headgate.ingest.admission import DRAINING, Admission, ProducerQuotas
from headgate.ingest.path import Decode, Inbound, Pipeline
from headgate.metrics.meter import Meter
from headgate.model.outcome import TRAITS, Failure, Reason, Refused, TooMuch, brief, rejected
from headgate.model.publish import Ticket
from headgate.model.reply import JSON, Reply, answer, json_text, problem
from headgate.model.request import read_burst, read_options, with_query_key
from headgate.model.trace import TRACEPARENT, Trace
from headgate.tracing.spans import Traces


class Weigher(Protocol):
    """Search for the largest paths of documents, without blocking the event loop."""

    async def weigh(self, document: bytes) -> list[Weight]: ...


# ---- POST /v1/topics/{topic}/events


ROUTE: Final = "/v1/topics/{topic}/events"
_NOT_ALL_WELL: Final = 207
_EXCEEDED: Final = TRAITS[Reason.QUOTA_EXCEEDED].status
_REQUEST_ID_MAX: Final = 128
_BROKEN: Final = 500
PATH_SHOWN: Final = 1024  # characters of a path in a span


def headers_of(request: web.BaseRequest) -> dict[bytes, bytes]:
    """Return the headers with names in lower case, and the context of a sampled request."""
    headers = {name.lower(): value for name, value in request.raw_headers}
    trace = request.get(TRACE)
    if trace is not None:
        headers[TRACEPARENT] = trace.context
    return headers


class EventsFront:
    """Front that turns aiohttp's requests into tickets, and tickets into responses."""

    def __init__(
        self,
        pipeline: Pipeline,
        callers: Authenticator,
        budget: Admission,
        starting: Starting,
        quotas: ProducerQuotas,
        weigher: Weigher,
        requests: Meter,
        streams: Streams,
        request_ids: Callable[[], str],
        body_max_bytes: int,
        body_timeout_s: float,
        request_log: RequestLog,
        traces: Traces | None = None,
    ) -> None:
        self.traces = traces
        self.pipeline = pipeline
        self.callers = callers  # replaced as a whole on reload
        self.budget = budget
        self._starting = starting
        self._quotas = quotas
        self._weigher = weigher
        self.requests = requests
        self.request_log = request_log
        self._logs_every_request = request_log.logs_every_request
        self._streams = streams
        self._request_ids = request_ids
        self.body_max_bytes = body_max_bytes
        self._body_timeout_s = body_timeout_s
        # aiohttp reads larger bodies, up to the limit.
        self.plain_posts = PlainPosts(min(MAX_BYTES, body_max_bytes))
        self._loop = asyncio.get_running_loop()

    async def post(self, request: web.BaseRequest, topic: str) -> web.StreamResponse:
        """Respond once every event of the request has ended, or at the deadline."""
        arrived = self._loop.time()
        headers, trace = headers_of(request), request.get(TRACE)
        request_id, producer = self.request_id(headers), ""
        caller: Identity | None = None
        try:
            caller = self.caller(headers, peer_of(request), topic, request_id)
            producer = caller.name
            headers = with_query_key(headers, request.rel_url.raw_query_string)
            self.look_first(request, headers, producer, topic, request_id)
            inbound = await self._inbound(request, headers, caller, topic, request_id)
            ticket = await self.start(inbound, None if inbound.streamed is None else streamed)
            if not ticket.done:
                await self.ended(ticket)
            if ticket.weighing is not None:
                await self._weigh(ticket)
            reply = await self.remembered(ticket, answer(ticket))
            if reply.status >= _NOT_ALL_WELL:
                self.request_log.ended(ticket, reply.status)
        except Refused as refused:
            failure, producer = refused.failure, producer or refused.producer
            if caller is not None:
                failure = self.pipeline.gate.with_suggestion(failure, topic, caller.may_post)
            reply = problem(failure, request_id)
            self.request_log.refused(failure, request_id, trace, producer=producer, topic=topic)
        if self._logs_every_request:
            request[REPORTED] = {"request_id": request_id, "producer": producer}
        self.count(ROUTE, reply.status, self._loop.time() - arrived, request_id, trace)
        return answered(request, reply, request_id)

    def count(
        self, route: str, status: int, seconds: float, request_id: str, trace: Trace | None
    ) -> None:
        """Count an answered request; a sampled one is an exemplar."""
        self.requests.request(route, status, seconds)
        if trace is not None:
            trace.route, trace.request_id = route, request_id
            self.requests.exemplar(route, status, seconds, trace.trace_id)

    async def start(
        self, inbound: Inbound, decode_as: Decode | None = None, endpoint: bytes = EVENTS
    ) -> Ticket:
        """Start a request (`Starting.start`)."""
        return await self._starting.start(inbound, endpoint, decode_as)

    async def remembered(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply to a ticket of `start`, once repeats would get the same reply."""
        return self._with_limits(ticket, await self._starting.remembered(ticket, reply))

    def ended(self, ticket: Ticket) -> asyncio.Future[None]:
        """Return a future that is done when all events have ended, or at the deadline."""
        return self._starting.ended(ticket)

    def begin(
        self,
        topic: str,
        body: bytes,
        headers: Mapping[bytes, bytes],
        peer: Peer,
        respond: Callable[[bytes], None],
        ended: Callable[[Ticket], None],
    ) -> Ticket | None:
        """Start a complete request without task or future; otherwise like `post`.

        Args:
            topic: Topic of the request.
            body: Body of the request.
            headers: Headers of the request; names in lower case.
            peer: Peer of the connection.
            respond: Sends the bytes of a response.
            ended: Callback with the ticket for `finish`; it may be called before this returns.

        Returns:
            None if the request has ended and `respond` was called; else its ticket.
        """
        if self.traces is None or (trace := self.traces.begin(headers)) is None:
            return self._begin(topic, body, headers, peer, respond, ended, None)
        trace.path = ROUTE.replace("{topic}", topic)[:PATH_SHOWN]
        headers = {**headers, TRACEPARENT: trace.context}
        try:
            return self._begin(topic, body, headers, peer, respond, ended, trace)
        except BaseException:
            self.traces.end(trace, _BROKEN)
            raise

    def _begin(
        self,
        topic: str,
        body: bytes,
        headers: Mapping[bytes, bytes],
        peer: Peer,
        respond: Callable[[bytes], None],
        ended: Callable[[Ticket], None],
        trace: Trace | None,
    ) -> Ticket | None:
        arrived = self._loop.time()
        request_id, producer = self.request_id(headers), ""
        try:
            caller = self.caller(headers, peer, topic, request_id)
            producer = caller.name
            self._take(producer, topic, len(body), request_id)
        except Refused as refused:
            producer = producer or refused.producer
            failure, status = refused.failure, TRAITS[refused.failure.reason].status
            self.count(ROUTE, status, 0.0, request_id, trace)
            self.request_log.refused(failure, request_id, trace, producer=producer, topic=topic)
            if self._logs_every_request:
                self._served(topic, status, len(body), 0.0, request_id, producer, trace)
            if trace is not None and self.traces is not None:
                self.traces.end(trace, status)
            respond(on_the_wire(problem(failure, request_id), request_id))
            return None
        inbound = Inbound(
            topic, producer, headers, body, request_id, arrived, None, caller.may_post, trace
        )
        ticket = self._starting.begin(inbound, ended)
        if ticket.done and IDEMPOTENCY_KEY not in headers:
            respond(self.finish(ticket))
            return None
        return ticket

    def finish(self, ticket: Ticket) -> bytes:
        """Return the response to a ticket of `begin` that is done."""
        if ticket.trace is None or self.traces is None:
            return self._finish(ticket)[0]
        status = _BROKEN
        try:
            response, status = self._finish(ticket)
        finally:
            self.traces.end(ticket.trace, status)
        return response

    def _finish(self, ticket: Ticket) -> tuple[bytes, int]:
        for index, document in ticket.weighing or ():
            self._put_weights(ticket, index, heaviest(document))
        reply = self._with_limits(ticket, self._starting.marked(ticket, answer(ticket)))
        seconds = self._loop.time() - ticket.arrived + ticket.claimed_s
        self.count(ROUTE, reply.status, seconds, ticket.request_id, ticket.trace)
        if reply.status >= _NOT_ALL_WELL:
            self.request_log.ended(ticket, reply.status)
        if self._logs_every_request:
            fields = (ticket.body_bytes, seconds, ticket.request_id, ticket.producer)
            self._served(ticket.topic, reply.status, *fields, ticket.trace)
        return on_the_wire(reply, ticket.request_id), reply.status

    def _with_limits(self, ticket: Ticket, reply: Reply) -> Reply:
        """Return the reply, with the rest of the producer's quotas if it has any."""
        producer = ticket.producer
        if producer not in self._quotas.policies or reply.status == _EXCEEDED:
            return reply  # a reply to an exceeded quota already contains it
        return reply.with_headers(self._quotas.fields(producer))

    def _served(
        self,
        topic: str,
        status: int,
        size: int,
        seconds: float,
        request_id: str,
        producer: str,
        trace: Trace | None,
    ) -> None:
        """Log a request of `begin` and `finish`; the connection logs all others."""
        path = ROUTE.replace("{topic}", quote(topic, safe=""))
        fields = {"request_id": request_id, "producer": producer}
        self.request_log.served("POST", path, status, size, seconds, trace, **fields)

    def _take(self, producer: str, topic: str, size: int, request_id: str) -> None:
        failure = self.budget.take_bytes(producer, size)
        if failure is not None:
            self._count(producer, topic, failure, request_id)
            raise Refused(failure)

    async def _inbound(
        self,
        request: web.BaseRequest,
        headers: Mapping[bytes, bytes],
        caller: Identity,
        topic: str,
        request_id: str,
    ) -> Inbound:
        """Return the request for the pipeline, with its body in memory or in the blob store."""
        producer = caller.name
        body, value, budget = b"", None, self.budget.of(producer)
        try:
            try:
                body = await self._read(request, headers, budget)
            except TooMuch as much:
                value = await self._streams.receive(request, topic, headers, much, budget)
        except Refused as refused:
            self._count(producer, topic, refused.failure, request_id)
            raise
        arrived = self._loop.time()
        named = (topic, producer, headers, body, request_id, arrived, value, caller.may_post)
        return Inbound(*named, request.get(TRACE))

    async def body(
        self,
        request: web.BaseRequest,
        headers: Mapping[bytes, bytes],
        producer: str,
        topic: str,
        request_id: str,
    ) -> bytes:
        """Return the decompressed body; its bytes are taken from the budget.

        Raises:
            Refused: The request is refused, or its body is too large, late or broken.
        """
        self.look_first(request, headers, producer, topic, request_id, needs_offset=True)
        try:
            return await self._read(request, headers, self.budget.of(producer))
        except Refused as refused:
            self._count(producer, topic, refused.failure, request_id)
            raise

    def look_first(
        self,
        request: web.BaseRequest,
        headers: Mapping[bytes, bytes],
        producer: str,
        topic: str,
        request_id: str,
        *,
        needs_offset: bool = False,
    ) -> None:
        """Check a request whose client waits with its body (`Expect`), before asking for the body.

        Args:
            request: The request.
            headers: Headers of the request; names in lower case.
            producer: Producer of the request.
            topic: Topic of the request.
            request_id: Id of the request.
            needs_offset: Whether the response must contain offsets (`Gate.open`).

        Raises:
            Refused: The request would be refused whatever its body contains.
        """
        if not waits_for_leave(request):
            return
        try:
            self.pipeline.gate.open(topic, needs_offset=needs_offset)
            read_options(headers)
        except Refused as refused:
            failure: Failure | None = refused.failure
        else:
            failure = self._quotas.refusal(producer, request.content_length or 0)
        if failure is not None:
            self._count(producer, topic, failure, request_id)
            raise Refused(failure)

    async def _read(
        self, request: web.BaseRequest, headers: Mapping[bytes, bytes], budget: Budget
    ) -> bytes:
        encoding = headers.get(b"content-encoding", b"")
        limit = self.body_max_bytes
        if not encoding and request.content.is_eof():
            return received_body(request, limit, budget)
        return await read_body(request, encoding, limit, self._body_timeout_s, budget)

    def _count(self, producer: str, topic: str, failure: Failure, request_id: str) -> None:
        """Count a request that ended before the pipeline as one rejected event."""
        self.requests.account(producer, topic, [rejected(failure)], [0], request_id)
        self.pipeline.report_refused(producer, topic, failure)

    def caller(
        self, headers: Mapping[bytes, bytes], peer: Peer, topic: str, request_id: str
    ) -> Identity:
        """Return the caller, if it may post to the topic.

        Raises:
            Refused: The gateway drains, the authentication failed, or the caller may not post to
                the topic.
        """
        if self.pipeline.admission.is_closed:
            raise Refused(DRAINING)
        return self.may_post(headers, peer, topic, request_id)

    def may_post(
        self, headers: Mapping[bytes, bytes], peer: Peer, topic: str, request_id: str
    ) -> Identity:
        """Return the caller, if it may post to the topic, even while the gateway drains.

        Raises:
            Refused: The authentication failed, or the caller may not post to the topic.
        """
        caller = self.callers.identify(headers, peer)
        if isinstance(caller, Failure):
            self._count(ANONYMOUS, topic, caller, request_id)
            raise Refused(caller)
        if not caller.may_post(topic):
            detail = f"producer {brief(caller.name)} may not post to topic {brief(topic)}"
            failure = Failure(Reason.FORBIDDEN, detail)
            self._count(caller.name, topic, failure, request_id)
            raise Refused(failure, caller.name)
        return caller

    async def _weigh(self, ticket: Ticket) -> None:
        """Add the largest paths of oversized events to their failures."""
        for index, document in ticket.weighing or ():
            self._put_weights(ticket, index, await self._weigher.weigh(document))

    @staticmethod
    def _put_weights(ticket: Ticket, index: int, weights: Sequence[Weight]) -> None:
        outcome = ticket.outcomes[index]
        if outcome is None or outcome.failure is None:
            return
        paths = [weight._asdict() for weight in weights]
        figures = {**(outcome.failure.figures or {}), "largest_paths": paths}
        ticket.outcomes[index] = outcome.with_failure(outcome.failure._replace(figures=figures))

    def now(self) -> float:
        """Return the monotonic time, in seconds."""
        return self._loop.time()

    def request_id(self, headers: Mapping[bytes, bytes]) -> str:
        """Return the client's request id if it is valid, else a new one."""
        given = headers.get(b"x-request-id")
        if given is not None and 0 < len(given) <= _REQUEST_ID_MAX:
            shown = given.decode("latin-1")
            if shown.isascii() and shown.isprintable():
                return shown
        return self._request_ids()


# ---- POST /v1/bursts/{id}/commit


COMMIT_ROUTE = "/v1/bursts/{id}/commit"


class BurstsFront:
    """Front for committing bursts; it authenticates callers like `EventsFront`."""

    def __init__(self, events: EventsFront, bursts: Bursts) -> None:
        self._events = events
        self._bursts = bursts
        self._loop = asyncio.get_running_loop()

    async def commit(self, request: web.BaseRequest, burst: str) -> web.StreamResponse:
        """Respond once Kafka has acknowledged the burst's end; `?topic=` limits the topics."""
        arrived = self._loop.time()
        headers, trace = headers_of(request), request.get(TRACE)
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
            fields = {"producer": who, "path": path}
            self._events.request_log.refused(refused.failure, request_id, trace, **fields)
        seconds = self._loop.time() - arrived
        self._events.count(COMMIT_ROUTE, reply.status, seconds, request_id, trace)
        return answered(request, reply, request_id)

    def _caller(self, headers: Mapping[bytes, bytes], peer: Peer) -> Identity:
        if self._events.pipeline.admission.is_closed:
            raise Refused(DRAINING)
        identity = self._events.callers.identify(headers, peer)
        if isinstance(identity, Failure):
            raise Refused(identity)
        return identity
