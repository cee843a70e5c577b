"""The HTTP server below the routes: aiohttp's low-level server with our answers to bad requests.

What aiohttp says of itself, its version and the reprs in its errors, reaches no client.

`web.Server` instead of an Application: 25-30 us less for a request (7-hot-path). It keeps
aiohttp's limits on request line, headers and idle connections.
"""

import asyncio
import logging
import os
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError, InvalidURLError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from headgate.core.ids import RequestIds
from headgate.core.outcome import Failure, Reason
from headgate.edge.events import Told
from headgate.edge.problems import problem_response
from headgate.edge.request_log import TOLD, RequestLog, received_bytes

# A client may hold an idle connection so long; it also bounds how long request headers may take.
KEEP_ALIVE_S = 75.0
_TOO_MANY = "Too many headers received"  # aiohttp has no class of its own for it
_PLAIN = re.compile(r"[A-Z](?:[A-Za-z0-9 ,/`-]|(?<=[a-z])'(?=[a-z])){0,100}")
_LINGER_S = 2.0  # reads on after an early refusal, so that the client sees the answer

Handle = Callable[[Any], Awaitable[web.StreamResponse]]
Connect = Callable[..., RequestHandler]
# Whether `log_access` is called: by default not, since a line a request costs too much.
_NO_ACCESS_LOG = logging.Logger("access", logging.CRITICAL)
_ACCESS_LOG = logging.Logger("access", logging.INFO)
log = logging.getLogger(__name__)


class Connection(RequestHandler):
    """One connection; answers what aiohttp refuses with a problem document."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        """As aiohttp, but a body that breaks off in nonsense fails at once, not at its deadline."""
        super().data_received(data)
        if self._messages and self._current_request is not None:
            error = getattr(self._messages[-1][0], "exc", None)  # what the parser could not read
            content = self._current_request.content
            if error is not None and not content.is_eof():
                content.set_exception(error)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """As aiohttp, but say so where the connection cannot go on.

        An answer that came before the whole body (refused, timed out, `Expect`) leaves open where
        the next request begins: the client may send the rest or not.
        """
        if not request.content.is_eof():
            resp.force_close()
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
            failure = _refused(exc, self.max_field_size)
        else:
            log.error("request failed", exc_info=exc, extra={"path": request.path})
            failure = Failure(Reason.INTERNAL, "an internal error")
        request_id = self._request_id()
        answer = problem_response(failure, request_id)
        if isinstance(self._manager, HttpServer):
            self._manager.told.refused(failure, request_id, path=request.path)
        answer.force_close()  # where the next request begins cannot be told any more
        return answer

    def log_access(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float | None
    ) -> None:
        """As aiohttp, in our words."""
        if not self._logging_enabled or time is None or not isinstance(self._manager, HttpServer):
            return
        known = request.get(TOLD) or {"request_id": response.headers.get("X-Request-Id", "")}
        status, size = response.status, received_bytes(request)
        seconds, path = self._loop.time() - time, request.rel_url.raw_path
        self._manager.told.served(request.method, path, status, size, seconds, **known)

    def log_exception(self, *args: Any, **known: Any) -> None:
        """As aiohttp, but nonsense in a body that nobody reads any more is no error of ours."""
        if not isinstance(known.get("exc_info"), HttpProcessingError):
            super().log_exception(*args, **known)

    def _request_id(self) -> str:
        server = self._manager
        return server.request_ids() if isinstance(server, HttpServer) else ""


def _refused(error: HttpProcessingError, header_max_bytes: int) -> Failure:
    """What the parser could not read. Only the first line of what it says is for clients, and only
    where it quotes nothing: the rest are reprs."""
    if isinstance(error, LineTooLong):
        limit = f"http.header_max_bytes = {header_max_bytes}"
        detail = f"the request line or a header field is longer than {limit}"
        return Failure(Reason.HEADERS_TOO_LARGE, detail)
    if error.message == _TOO_MANY:
        return Failure(Reason.HEADERS_TOO_LARGE, "the request has too many headers")
    said = error.message.partition("\n")[0].rstrip(":. ")
    if isinstance(error, InvalidURLError):
        said = "Invalid URL"
    why = f": {said}" if _PLAIN.fullmatch(said) else ""
    return Failure(Reason.MALFORMED, f"this is no request of HTTP/1.1{why}")


class Request(web.BaseRequest):
    """A request whose answers do not name the server."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers.pop("Server", None)


class PageRequest(web.Request):
    """The same, of an application."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        response.headers.pop("Server", None)


class HttpServer(web.Server):
    """Makes a connection for each client.

    connection: called with this server and aiohttp's options for a connection.
    make_request: as aiohttp's request_factory; None: `Request`.
    """

    def __init__(
        self,
        handle: Handle,
        header_max_bytes: int,
        request_ids: Callable[[], str],
        told: Told,
        connection: Connect = Connection,
        make_request: Callable[..., Any] | None = None,
    ) -> None:
        self.request_ids = request_ids
        self.told = told
        self._header_max_bytes = header_max_bytes
        self._connection = connection
        super().__init__(handle, request_factory=make_request)

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
            access_log=_ACCESS_LOG if self.told.tells_all else _NO_ACCESS_LOG,
            auto_decompress=False,  # `edge.body` undoes encodings with a cap
            keepalive_timeout=KEEP_ALIVE_S,
            lingering_time=_LINGER_S,
            max_field_size=self._header_max_bytes,
            max_line_size=self._header_max_bytes,
        )


class PagesRunner(web.AppRunner):
    """Serves an application as `HttpServer` serves the data plane.

    linger_s: how long a stop waits for open connections.
    """

    def __init__(self, app: web.Application, header_max_bytes: int, linger_s: float) -> None:
        super().__init__(app, access_log=None, shutdown_timeout=linger_s)
        self._header_max_bytes = header_max_bytes

    async def _make_server(self) -> web.Server:
        await super()._make_server()  # starts the application; its server is not used
        make_request = partial(self.app._make_request, _cls=PageRequest)
        return HttpServer(
            self.app._handle,
            self._header_max_bytes,
            RequestIds(os.urandom(6)),
            RequestLog(),
            make_request=make_request,
        )
