"""The HTTP server below the routes: aiohttp's low-level server with problem documents for errors.

Clients see neither aiohttp's version nor the reprs in its errors.

`web.Server` takes 25-30 us less for a request than an Application
(docs/design/measured.md#the-cost-of-http). It keeps aiohttp's limits on request line, headers and
idle connections.
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler, RequestPayloadError, _ErrInfo

from headgate.http.body import BROKEN
from headgate.http.framing import unambiguous, unreadable
from headgate.http.listener import Listener
from headgate.http.parsed import parsed_before
from headgate.http.problems import problem_response
from headgate.http.request_log import REPORTED, TRACE, RequestLog, received_bytes
from headgate.http.short_way import Answers
from headgate.ingest.admission import DRAINING
from headgate.model.event import RequestIds
from headgate.model.outcome import SHOWN, Failure, Reason, Refused

_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_LINGER_S = 2.0  # time of reading after an early refusal, so that the client sees the response
_POLL_S = 0.02
_FIRST_REQUEST_S = 1.0  # for a new client's first request; later ones may lose the connection

_LEFT = ConnectionError | RequestPayloadError  # errors of reading when the client has left

IDLE_S = 75.0  # unless the configuration says otherwise

Handle = Callable[[Any], Awaitable[web.StreamResponse]]
Connect = Callable[..., RequestHandler]
# aiohttp calls `log_access` only with an enabled logger; a line for each request costs too much.
_NO_ACCESS_LOG = logging.Logger("access", logging.CRITICAL)
_ACCESS_LOG = logging.Logger("access", logging.INFO)
log = logging.getLogger("headgate.http.server")


class HttpConnection(RequestHandler):
    """One connection; it answers requests that aiohttp refuses with a problem document."""

    __slots__ = ("_made_s", "_server")

    def __init__(self, server: "HttpServer", **options: object) -> None:
        super().__init__(server, **options)  # type: ignore[arg-type]
        self._server = server
        self._made_s = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up a connection like aiohttp, with a limit on unacknowledged data.

        Only the kernel sees a client that accepts no data. It closes such a connection, which
        would otherwise keep its request and response forever.
        """
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if _USER_TIMEOUT is not None and peer is not None and peer.family in _INTERNET:
            limit_ms = round(self._keepalive_timeout * 1000)
            peer.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, limit_ms)

    def data_received(self, data: bytes) -> None:
        """Handle data like aiohttp, but keep valid requests before invalid data."""
        super().data_received(data)
        if self._messages:
            last = self._messages[-1][0]
            if type(last) is _ErrInfo:
                self._broken_off(last.exc)

    def _broken_off(self, error: BaseException) -> None:
        """Queue the valid requests before invalid data.

        A body that the invalid data cuts off fails at once, not at its deadline.
        """
        last = self._messages.pop()
        parsed = parsed_before(self._parser)
        self._messages += parsed
        self._request_count += len(parsed)
        contents = [payload for _, payload in self._messages]
        if self._current_request is not None:
            contents.append(self._current_request.content)
        for content in contents:
            if not content.is_eof():
                content.set_exception(error)
        self._messages.append(last)

    @property
    def is_answered(self) -> bool:
        """Return whether responses to all requests that have arrived were at least begun.

        On a new connection, the first request counts as arrived: it will come soon.
        """
        if self.transport is None:
            return True
        if self._loop.time() < self._made_s + _FIRST_REQUEST_S:
            return False
        if self._messages:
            return False
        if self._waiter is not None and not self._waiter.done():
            return True  # aiohttp's loop waits for a request
        request = self._current_request
        return request is not None and request.writer.output_size > 0

    def refuse_body(self) -> None:
        """Answer a request with an incomplete body with 503 `draining` now."""
        request = self._current_request
        if request is not None and not request.content.is_eof():
            request.content.set_exception(Refused(DRAINING))

    def _is_last(self) -> bool:
        """Return whether the current response is the connection's last."""
        return self._server.is_leaving and not self._messages

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Finish a response like aiohttp, but announce that the connection closes if it must.

        It must close in these cases:
        - The response came before the complete body (refused, timed out, `Expect`). The start of
          the next request is then unknown: the client may send the rest of the body or not.
        - The server leaves, and this is the response to the connection's last request.
        - The request asks for an upgrade. The gateway never upgrades, but aiohttp's parser takes
          the following data for another protocol.
        """
        content = request.content
        if self._is_last() or not content.is_eof() or request._message.upgrade:
            resp.force_close()
        if isinstance(content.exception(), Refused):
            content._exception = None  # aiohttp reads on, so that the client sees the response
        return await super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the answer was under way already")
        if isinstance(exc, HttpProcessingError):
            failure = unreadable(exc, self.max_field_size)
        elif isinstance(exc, _LEFT):
            failure = BROKEN
        else:
            log.error("request failed", exc_info=exc, extra={"path": request.path[:SHOWN]})
            failure = Failure(Reason.INTERNAL, "an internal error")
        request_id = self._server.request_ids()
        answer = problem_response(failure, request_id)
        trace = request.get(TRACE)
        self._server.request_log.refused(failure, request_id, trace, path=request.path)
        answer.force_close()  # the start of the next request is unknown
        answer.headers["Connection"] = "close"  # aiohttp treats invalid requests as HTTP/1.0
        return answer

    def log_access(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float | None
    ) -> None:
        """Log a request in the gateway's own access log."""
        if not self._logging_enabled or time is None:
            return
        fields = request.get(REPORTED) or {"request_id": response.headers.get("X-Request-Id", "")}
        sizes = (response.status, received_bytes(request), self._loop.time() - time)
        served = (request.method, request.rel_url.raw_path, *sizes, request.get(TRACE))
        self._server.request_log.served(*served, **fields)

    def log_exception(self, *args: Any, **known: Any) -> None:
        """Log an exception like aiohttp, except invalid data in a body that is no longer read."""
        if not isinstance(known.get("exc_info"), HttpProcessingError | _LEFT):
            super().log_exception(*args, **known)


class Request(web.BaseRequest):
    """A request whose responses do not name the server."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.pop("Server", None)
        response.headers["X-Content-Type-Options"] = "nosniff"


class PageRequest(web.Request):
    """A request to an application whose responses do not name the server."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        response.headers.pop("Server", None)
        response.headers["X-Content-Type-Options"] = "nosniff"


class HttpServer(web.Server):
    """HTTP server that creates a connection for each client.

    Args:
        handle: Handler of requests.
        header_max_bytes: Limit on request line and headers, in bytes.
        request_ids: Generates request ids.
        request_log: Log of requests.
        connection: Creates a connection from this server and aiohttp's options.
        make_request: Request factory of aiohttp; None: `Request`.
        idle_s: Timeout of idle connections (`http.idle_timeout_ms`), in seconds.

    Attributes:
        is_leaving: If true, the server still serves, but each connection closes after its next
            response.
    """

    def __init__(
        self,
        handle: Handle,
        header_max_bytes: int,
        request_ids: Callable[[], str],
        request_log: RequestLog,
        connection: Connect = HttpConnection,
        make_request: Callable[..., Any] | None = None,
        idle_s: float = IDLE_S,
    ) -> None:
        self._idle_s = idle_s
        self.request_ids = request_ids
        self.request_log = request_log
        self._header_max_bytes = header_max_bytes
        self._connection = connection
        self.is_leaving = False
        self.answers = Answers()
        super().__init__(partial(unambiguous, handle), request_factory=make_request)

    def refuse_bodies(self) -> None:
        """Start to leave, and answer requests with incomplete bodies with 503 `draining`."""
        self.is_leaving = True
        for connection in self.connections:
            if isinstance(connection, HttpConnection):
                connection.refuse_body()

    async def answered(self, within_s: float) -> None:
        """Wait until all requests that have arrived are answered, or until the timeout.

        Requests may still be in their sockets, so the event loop reads them first.

        Args:
            within_s: Timeout, in seconds.
        """
        end = self._loop.time() + within_s
        await asyncio.sleep(_POLL_S)
        while self._loop.time() < end:
            if all(
                connection.is_answered
                for connection in self.connections
                if isinstance(connection, HttpConnection)
            ):
                return
            await asyncio.sleep(_POLL_S)

    def _make_request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> Request:
        return Request(message, payload, protocol, writer, task, self._loop)

    def __call__(self) -> RequestHandler:
        return self._connection(
            self,
            loop=self._loop,
            access_log=_ACCESS_LOG if self.request_log.logs_every_request else _NO_ACCESS_LOG,
            auto_decompress=False,  # `http.body` undoes encodings with a cap
            keepalive_timeout=self._idle_s,
            lingering_time=_LINGER_S,
            max_field_size=self._header_max_bytes,
            max_line_size=self._header_max_bytes,
        )


class PagesRunner(web.AppRunner):
    """Runner that serves an application with `HttpServer`, like the data plane.

    Args:
        app: The application.
        header_max_bytes: Limit on request line and headers, in bytes.
        linger_s: Longest wait for open connections at a stop, in seconds.
        idle_s: Timeout of idle connections, in seconds.
    """

    def __init__(
        self, app: web.Application, header_max_bytes: int, linger_s: float, idle_s: float = IDLE_S
    ) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=linger_s)
        self._header_max_bytes = header_max_bytes
        self._linger_s = linger_s
        self._idle_s = idle_s
        self._ports: list[Listener] = []

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Listener:
        """Open a port, which `cleanup` closes.

        Raises:
            OSError: The port cannot be opened.
        """
        listener = Listener(self, host, port)
        await listener.start(context)
        self._ports.append(listener)
        return listener

    async def _make_server(self) -> web.Server:
        await super()._make_server()  # starts the application; its server is not used
        make_request = partial(self.app._make_request, _cls=PageRequest)
        self.pages = HttpServer(
            self.app._handle,
            self._header_max_bytes,
            RequestIds(os.urandom(6)),
            RequestLog(),
            make_request=make_request,
            idle_s=self._idle_s,
        )
        return self.pages

    async def cleanup(self) -> None:
        self.pages.is_leaving = True
        for port in self._ports:
            await port.stop_accepting()
        await close_sites(self, self.pages, self._linger_s)
        await super().cleanup()
        for port in self._ports:
            port.close()


async def close_sites(runner: web.BaseRunner, server: HttpServer, within_s: float) -> None:
    """Accept no new connections, and answer the requests that have arrived.

    Args:
        runner: Runner of the server.
        server: The server.
        within_s: Timeout, in seconds.
    """
    server.is_leaving = True
    for site in runner.sites:
        await site.stop()
    await server.answered(within_s)
