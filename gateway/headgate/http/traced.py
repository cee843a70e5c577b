"""Tracing of requests: wrappers around the fronts, which exist only if tracing is on.

They replace a sampled request's `traceparent` by the produce span's context (`tracing.spans`), keep
the trace of the current request, and end its span.
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
from headgate.http.auth import Peer
from headgate.http.events import ROUTE, EventsFront
from headgate.http.plain_post import PlainPosts
from headgate.http.request_log import RequestReports
from headgate.tracing.spans import Trace, Traces

_REQUEST_ID: Final = b"x-request-id"
_STATUS: Final = slice(9, 12)  # of a response's bytes: b"HTTP/1.1 201 ..."
_FAILED: Final = 500
_PATH_SHOWN: Final = 1024  # characters

Page = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# Set while a request is handled, even if it is not sampled. Callbacks that are scheduled meanwhile
# inherit the context.
_current: Final[ContextVar[Trace | None]] = ContextVar("headgate trace", default=None)


def current_trace_id() -> str | None:
    """Return the trace id of the current request, if it is sampled."""
    trace = _current.get()
    return None if trace is None else trace.trace_id


class RequestMeter(Protocol):
    """The part of `metrics.meter` that counts requests, with an exemplar for each bucket.

    It repeats `events.Requests`, since classes cannot inherit from those of compiled modules.
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
    """Request metrics that set the trace's route and record an exemplar.

    Implements `events.Requests`.
    """

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
    """Request log that sets the trace's reason of failure.

    Implements `request_log.RequestReports`.
    """

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
    """Traced front for requests on the fast path. Implements `short_way.Front`."""

    def __init__(self, front: EventsFront, traces: Traces) -> None:
        self._front = front
        self._traces = traces
        self._tickets: dict[Ticket, Trace] = {}

    @property
    def plain_posts(self) -> PlainPosts:
        """Return the front's selection of requests."""
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
        """Begin a request and its trace; otherwise like `EventsFront.begin`."""
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
        """Return the response and end the trace; otherwise like `EventsFront.finish`."""
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
        """End the trace of a request that is answered at once."""
        self._traces.end(trace, int(response[_STATUS]))
        respond(response)

    def _ended(self, trace: Trace, ended: Callable[[Ticket], None], ticket: Ticket) -> None:
        """Keep the trace of a ticket that is ready for `finish`."""
        self._tickets[ticket] = trace
        ended(ticket)


class TracedAnswers:
    """Traced handler of all other requests.

    Args:
        answer: Handler of the data plane.
        traces: Open traces.
        request_id: Returns the client's request id if it is valid, else a new one.
    """

    def __init__(
        self, answer: Page, traces: Traces, request_id: Callable[[Mapping[bytes, bytes]], str]
    ) -> None:
        self._answer = answer
        self._traces = traces
        self._request_id = request_id

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return the response to any request. Only POST is traced; others are mostly probes."""
        trace, given, status = None, dict[bytes, bytes](), 0
        if request.method == "POST":
            given = {name.lower(): value for name, value in request._message.raw_headers}
            trace = self._traces.begin(given)
        _current.set(trace)  # for as long as the connection's task handles this request
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
    """Return the headers for the front, with trace context and request id."""
    trace.request_id = request_id
    return {**headers, TRACEPARENT: trace.context, _REQUEST_ID: request_id.encode()}
