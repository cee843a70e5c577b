"""Requests that are traced: a front before the front, there only where tracing is on.

It gives a sampled request the produce span's context as its `traceparent` (see
`tracing.spans`), remembers which request is being answered, and ends its span.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from typing import Final, Protocol

from aiohttp import web
from aiohttp.http import RawRequestMessage

from headgate.core.outcome import Failure, Outcome
from headgate.core.publish import Ticket
from headgate.core.trace_context import TRACEPARENT
from headgate.edge.auth import Peer
from headgate.edge.events import ROUTE, EventsFront
from headgate.edge.plain_post import PlainPosts
from headgate.edge.request_log import RequestReports
from headgate.tracing.spans import Trace, Traces

_REQUEST_ID: Final = b"x-request-id"
_STATUS: Final = slice(9, 12)  # of a response's bytes: b"HTTP/1.1 201 ..."
_FAILED: Final = 500
_PATH_SHOWN: Final = 1024  # characters

Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Set around everything that answers a request, whether it is sampled or not: what is scheduled
# from within takes the context with it.
_current: Final[ContextVar[Trace | None]] = ContextVar("headgate trace", default=None)


def current_trace_id() -> str | None:
    """Of the request that is being answered, if it is sampled."""
    trace = _current.get()
    return None if trace is None else trace.trace_id


class RequestMeter(Protocol):
    """The part of `metrics.meter` that counts requests, with an exemplar for each bucket.

    It repeats `events.Requests`: no class inherits from one of a compiled module.
    """

    def request(self, route: str, status: int, seconds: float) -> None: ...

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None: ...

    def exemplar(self, route: str, status: int, seconds: float, trace_id: str) -> None: ...


class TracedRequests:
    """Implements `events.Requests`: a sampled request learns its route, and is an exemplar."""

    def __init__(self, meter: RequestMeter) -> None:
        self._meter = meter

    def request(self, route: str, status: int, seconds: float) -> None:
        self._meter.request(route, status, seconds)
        trace = _current.get()
        if trace is not None:
            trace.route = route
            self._meter.exemplar(route, status, seconds, trace.trace_id)

    def account(
        self,
        producer: str,
        topic: str,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
        request_id: str,
    ) -> None:
        self._meter.account(producer, topic, outcomes, sizes, request_id)


class TracedReports:
    """Implements `request_log.RequestReports`: a sampled request learns why it failed."""

    def __init__(self, reports: RequestReports) -> None:
        self._reports = reports
        self.logs_every_request = reports.logs_every_request

    def refused(self, failure: Failure, request_id: str, **fields: object) -> None:
        trace = _current.get()
        if trace is not None:
            trace.reason = str(failure.reason)
        self._reports.refused(failure, request_id, **fields)

    def began(self, ticket: Ticket) -> None:
        trace = _current.get()
        if trace is not None:
            trace.ticket = ticket
        self._reports.began(ticket)

    def ended(self, ticket: Ticket, status: int) -> None:
        trace = _current.get()
        if trace is not None:
            trace.ticket = ticket
        self._reports.ended(ticket, status)

    def served(
        self, method: str, path: str, status: int, size: int, seconds: float, **fields: str
    ) -> None:
        self._reports.served(method, path, status, size, seconds, **fields)


class TracedFront:
    """Implements `short_way.Front`: the requests that take the short way."""

    def __init__(self, front: EventsFront, traces: Traces) -> None:
        self._front = front
        self._traces = traces
        self._tickets: dict[Ticket, Trace] = {}

    @property
    def plain_posts(self) -> PlainPosts:
        """As the front's."""
        return self._front.plain_posts

    def begin(
        self,
        topic: str,
        body: bytes,
        headers: Mapping[bytes, bytes],
        peer: Peer,
        respond: Callable[[bytes], None],
        ended: Callable[[Ticket], None],
    ) -> Ticket | None:
        """As the front's."""
        trace = self._traces.begin(headers)
        before = _current.set(trace)
        try:
            if trace is None:
                return self._front.begin(topic, body, headers, peer, respond, ended)
            trace.route, trace.path = ROUTE, ROUTE.replace("{topic}", topic)[:_PATH_SHOWN]
            headers = _continued(headers, trace, self._front.request_id(headers))
            answering = (partial(self._respond, trace, respond), partial(self._ended, trace, ended))
            return self._front.begin(topic, body, headers, peer, *answering)
        except BaseException:
            if trace is not None:
                self._traces.end(trace, _FAILED)
            raise
        finally:
            _current.reset(before)

    def finish(self, ticket: Ticket) -> bytes:
        """As the front's."""
        trace = self._tickets.pop(ticket, None)
        before, status = _current.set(trace), _FAILED
        try:
            response = self._front.finish(ticket)
            status = int(response[_STATUS])
        finally:
            _current.reset(before)
            if trace is not None:
                trace.ticket = ticket
                self._traces.end(trace, status)
        return response

    def _respond(self, trace: Trace, respond: Callable[[bytes], None], response: bytes) -> None:
        """It has ended at once."""
        self._traces.end(trace, int(response[_STATUS]))
        respond(response)

    def _ended(self, trace: Trace, ended: Callable[[Ticket], None], ticket: Ticket) -> None:
        """It may be answered."""
        self._tickets[ticket] = trace
        ended(ticket)


class TracedAnswers:
    """Answers all other requests. answer: the data plane's.  request_id: the client's, if it is
    fit, or a new one."""

    def __init__(
        self, answer: Page, traces: Traces, request_id: Callable[[Mapping[bytes, bytes]], str]
    ) -> None:
        self._answer = answer
        self._traces = traces
        self._request_id = request_id

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to any request. What only reads is not traced: probes, mostly."""
        trace, given, status = None, dict[bytes, bytes](), 0
        if request.method == "POST":
            given = {name.lower(): value for name, value in request._message.raw_headers}
            trace = self._traces.begin(given)
        _current.set(trace)  # for as long as the connection's task answers this
        if trace is None:
            return await self._answer(request)
        trace.path = request.rel_url.raw_path[:_PATH_SHOWN]
        headers = _continued(given, trace, self._request_id(given))
        assert isinstance(request._message, RawRequestMessage)
        request._message = request._message._replace(raw_headers=tuple(headers.items()))
        try:
            answer = await self._answer(request)
            status = answer.status
        except Exception:
            status = _FAILED
            raise
        finally:
            self._traces.end(trace, status)
        return answer


def _continued(
    headers: Mapping[bytes, bytes], trace: Trace, request_id: str
) -> Mapping[bytes, bytes]:
    """The headers as the front gets them."""
    trace.request_id = request_id
    return {**headers, TRACEPARENT: trace.context, _REQUEST_ID: request_id.encode()}
