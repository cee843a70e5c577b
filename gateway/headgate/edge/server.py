"""The HTTP server below the routes: aiohttp's low-level server with our answers to bad requests.

What aiohttp says of itself, its version and the reprs in its errors, reaches no client.

`web.Server` instead of an Application: 25-30 us less for a request
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

from headgate.core.admission import DRAINING
from headgate.core.ids import RequestIds
from headgate.core.outcome import Failure, Reason
from headgate.core.refusal import SHOWN, Refused
from headgate.edge.body import BROKEN
from headgate.edge.framing import unambiguous, unreadable
from headgate.edge.listener import Listener
from headgate.edge.parsed import parsed_before
from headgate.edge.problems import problem_response
from headgate.edge.request_log import REPORTED, RequestLog, RequestReports, received_bytes
from headgate.edge.short_way import Answers

_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_LINGER_S = 2.0  # reads on after an early refusal, so that the client sees the answer
_POLL_S = 0.02
_FIRST_REQUEST_S = (
    1.0  # a client that connects sends its request by then, or may lose the connection
)

_LEFT = ConnectionError | RequestPayloadError  # what reading a body says when its client has left

IDLE_S = 75.0  # unless the configuration says otherwise

Handle = Callable[[Any], Awaitable[web.StreamResponse]]
Connect = Callable[..., RequestHandler]
# Whether `log_access` is called: by default not, since a line a request costs too much.
_NO_ACCESS_LOG = logging.Logger("access", logging.CRITICAL)
_ACCESS_LOG = logging.Logger("access", logging.INFO)
log = logging.getLogger("headgate.edge.server")


class HttpConnection(RequestHandler):
    """One connection; answers what aiohttp refuses with a problem document."""

    __slots__ = ("_made_s", "_server")

    def __init__(self, server: "HttpServer", **options: object) -> None:
        super().__init__(server, **options)  # type: ignore[arg-type]
        self._server = server
        self._made_s = self._loop.time()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As aiohttp. A client that takes nothing of its answers is given up by the kernel, which
        alone sees that; else it would hold them, and its request, for ever."""
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        if _USER_TIMEOUT is not None and peer is not None and peer.family in _INTERNET:
            limit_ms = round(self._keepalive_timeout * 1000)
            peer.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, limit_ms)

    def data_received(self, data: bytes) -> None:
        """As aiohttp, but what came before nonsense is not lost with it."""
        super().data_received(data)
        if self._messages:
            last = self._messages[-1][0]
            if type(last) is _ErrInfo:
                self._broken_off(last.exc)

    def _broken_off(self, error: BaseException) -> None:
        """The parser met nonsense: have the good requests before it answered.

        A body that breaks off in it fails at once, not at its deadline.
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
        """Whether the answer to everything that has arrived is at least under way.

        A new connection's first request counts as arrived: it is on its way.
        """
        if self.transport is None:
            return True
        if self._loop.time() < self._made_s + _FIRST_REQUEST_S:
            return False
        if self._messages:
            return False
        if self._waiter is not None and not self._waiter.done():
            return True  # it waits for a request
        request = self._current_request
        return request is not None and request.writer.output_size > 0

    def refuse_body(self) -> None:
        """A request whose body is still on its way is answered 503 `draining` now."""
        request = self._current_request
        if request is not None and not request.content.is_eof():
            request.content.set_exception(Refused(DRAINING))

    def _is_last(self) -> bool:
        """Whether the answer that comes now is this connection's last."""
        return self._server.is_leaving and not self._messages

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """As aiohttp, but say so where the connection cannot go on.

        An answer that came before the whole body (refused, timed out, `Expect`) leaves open where
        the next request begins: the client may send the rest or not. A server that leaves sends
        the client away with the answer to its last request. And nothing is upgraded here, but
        aiohttp's parser takes what follows such a request for another protocol.
        """
        content = request.content
        if self._is_last() or not content.is_eof() or request._message.upgrade:
            resp.force_close()
        if isinstance(content.exception(), Refused):
            content._exception = None  # aiohttp reads on, so that the client sees the answer
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
        self._server.request_log.refused(failure, request_id, path=request.path)
        answer.force_close()  # where the next request begins cannot be told any more
        answer.headers["Connection"] = "close"  # aiohttp takes bad requests for HTTP/1.0
        return answer

    def log_access(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float | None
    ) -> None:
        """As aiohttp, in our words."""
        if not self._logging_enabled or time is None:
            return
        known = request.get(REPORTED) or {"request_id": response.headers.get("X-Request-Id", "")}
        status, size = response.status, received_bytes(request)
        seconds, path = self._loop.time() - time, request.rel_url.raw_path
        self._server.request_log.served(request.method, path, status, size, seconds, **known)

    def log_exception(self, *args: Any, **known: Any) -> None:
        """As aiohttp, but nonsense in a body that nobody reads any more is no error of ours."""
        if not isinstance(known.get("exc_info"), HttpProcessingError | _LEFT):
            super().log_exception(*args, **known)


class Request(web.BaseRequest):
    """A request whose answers do not name the server."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.pop("Server", None)
        response.headers["X-Content-Type-Options"] = "nosniff"


class PageRequest(web.Request):
    """The same, of an application."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        response.headers.pop("Server", None)
        response.headers["X-Content-Type-Options"] = "nosniff"


class HttpServer(web.Server):
    """Makes a connection for each client.

    connection: called with this server and aiohttp's options for a connection.
    make_request: as aiohttp's request_factory; None: `Request`.
    idle_s: see `http.idle_timeout_ms`.
    is_leaving: it serves on, and each client is told with its next answer to go elsewhere.
    """

    def __init__(
        self,
        handle: Handle,
        header_max_bytes: int,
        request_ids: Callable[[], str],
        request_log: RequestReports,
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
        """Leave, and answer 503 `draining` to requests whose bodies are still on their way."""
        self.is_leaving = True
        for connection in self.connections:
            if isinstance(connection, HttpConnection):
                connection.refuse_body()

    async def answered(self, within_s: float) -> None:
        """Wait until everything that has arrived is answered, but not longer than this.

        What has arrived may still lie in its socket, so the event loop reads it first.
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
            auto_decompress=False,  # `edge.body` undoes encodings with a cap
            keepalive_timeout=self._idle_s,
            lingering_time=_LINGER_S,
            max_field_size=self._header_max_bytes,
            max_line_size=self._header_max_bytes,
        )


class PagesRunner(web.AppRunner):
    """Serves an application as `HttpServer` serves the data plane.

    linger_s: how long a stop waits for open connections.  idle_s: as there.
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
        """Open a port, which `cleanup` closes. Raises OSError."""
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
    """Take no new connection, and answer what has come by then on the others."""
    server.is_leaving = True
    for site in runner.sites:
        await site.stop()
    await server.answered(within_s)
