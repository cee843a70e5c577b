"""aiohttp's side of the HTTP ports: its server, with problem documents for errors.

Clients see neither aiohttp's version nor the reprs in its errors. Everything here uses aiohttp's
public names only: methods that it documents or calls without an underscore are overridden, and the
request factory, the handler and the writer are given to it.

`web.Server` takes 25-30 us less for a request than an Application
(docs/design/measured.md#the-cost-of-http). It keeps aiohttp's limits on request line, headers and
idle connections.
"""

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import HttpVersion10, HttpVersion11, RawRequestMessage, StreamWriter
from aiohttp.http_exceptions import (
    BadHttpMessage,
    HttpProcessingError,
    InvalidURLError,
    LineTooLong,
)
from aiohttp.web_protocol import RequestPayloadError

from headgate.http.answer import problem_response
from headgate.http.body import BROKEN
from headgate.http.connection import (
    FIRST_REQUEST_S,
    FastConnection,
    FastConnections,
    limit_unacknowledged,
)
from headgate.http.listener import Listener
from headgate.http.request_log import REPORTED, TRACE, RequestLog, received_bytes, request_ids
from headgate.ingest.admission import DRAINING
from headgate.model.outcome import SHOWN, Failure, Reason, Refused

if TYPE_CHECKING:  # the parent serves its pages without the path of events
    from headgate.http.events import EventsFront

log = logging.getLogger("headgate.http")

# ---- framing of HTTP requests: one request at a time for aiohttp, and checks for invalid requests
#
# If a proxy and this gateway disagree about the end of a request, one client's bytes may become
# another client's request (request smuggling). tests/app/attacks/test_request_smuggling.py compares
# these checks with a strict parser.


_TOO_MANY = "Too many headers received"  # aiohttp has no exception class for this error
_PLAIN = re.compile(r"[A-Z](?:[A-Za-z0-9 ,/`-]|(?<=[a-z])'(?=[a-z])){0,100}")


def ambiguity(request: web.BaseRequest | RawRequestMessage) -> str | None:
    """Return the reason for refusing an ambiguous request, for its client; else None."""
    version, headers = request.version, request.headers
    if version not in (HttpVersion10, HttpVersion11):  # HTTP/0.9 has a request line only
        return "The version is neither HTTP 1.1 nor 1.0"
    encodings = headers.getall("Transfer-Encoding", ())
    if encodings and (len(encodings) > 1 or encodings[0].strip().lower() != "chunked"):
        return "Transfer-Encoding may be `chunked` alone"
    if version == HttpVersion10:
        return "Transfer-Encoding is not in HTTP/1.0" if encodings else None
    if len(headers.getall("Host", ())) != 1:
        return "Host is missing or there twice"
    return None


async def unambiguous(
    handle: Callable[[Any], Awaitable[web.StreamResponse]], request: web.BaseRequest
) -> web.StreamResponse:
    """Handle a request, unless another server could read its bytes differently."""
    why = ambiguity(request)
    if why is not None:
        raise BadHttpMessage(why)
    return await handle(request)


def unreadable(error: HttpProcessingError, header_max_bytes: int) -> Failure:
    """Return the failure for a request that the parser could not read.

    Clients see only the first line of the parser's message, and only if it quotes nothing.

    Args:
        error: Error of the parser.
        header_max_bytes: Limit on the size of headers, in bytes.
    """
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


# ---- pacing: aiohttp gets one request at a time

_HEAD_END: Final = b"\r\n\r\n"
_START: Final = re.compile(rb"[A-Z]+ [!-~]+ HTTP/1\.[01]\r\n")
_LENGTH: Final = re.compile(rb"\r\n(?i:content-length):[ \t]*([0-9]{1,15})[ \t]*(?=\r\n)")
_ENCODING: Final = re.compile(rb"\r\n(?i:transfer-encoding):[ \t]*(?i:chunked)[ \t]*(?=\r\n)")
_UNSURE: Final = re.compile(rb"\r\n(?i:content-length|transfer-encoding|upgrade)")
_TOKEN = rb"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_QUOTED = rb'"(?:[\t !#-\[\]-~\x80-\xff]|\\[\t -~\x80-\xff])*"'
_EXTENSION = rb";(?:%b|(?:%b)?=(?:%b|%b)?)" % (_TOKEN, _TOKEN, _TOKEN, _QUOTED)
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,20})(?:%b)*\r\n" % _EXTENSION)
_CHUNK_START: Final = re.compile(rb"[0-9A-Fa-f]{1,20}(?:;[^\r\n]*)?\r?")
_TRAILER: Final = re.compile(
    rb"(?!(?i:content-length|transfer-encoding):)%b:[^\x00-\x08\x0a-\x1f\x7f]*\r\n" % _TOKEN
)
_HEAD_MAX_BYTES: Final = 65_536
_LINE_MAX_BYTES: Final = 16_384  # of a chunk's size with its extension, or a trailer
_TRAILER_MAX_BYTES: Final = 1024  # less than any limit of aiohttp
_TRAILERS_MAX: Final = 32


class Pacing:
    """Cuts a connection's bytes into requests, so that aiohttp gets the next one in its turn.

    aiohttp's parser decides; this only chooses when it gets which bytes. If the end of a request
    is not known, all bytes pass as they arrive.

    Attributes:
        is_sure: Whether the end of the request is known.
        is_whole: Whether all bytes of the request have passed, as far as known.
        is_broken: Whether the chunks of the request are invalid.
    """

    def __init__(self) -> None:
        self.is_sure = self.is_whole = True
        self.is_broken = False
        self._is_head = self._has_chunks = self._is_chunk_end = self._is_trailer = False
        self._text = b""  # the start of a head, of a chunk's size, or of a trailer
        self._owed = self._trailers = 0  # bytes of the body or the chunk; number of trailers

    def begin(self, data: bytes) -> int:
        """Return the number of bytes that belong to the request at the start of the data."""
        self.is_sure = self._is_head = True
        self.is_whole = self.is_broken = False
        self._has_chunks = self._is_chunk_end = self._is_trailer = False
        self._text, self._owed, self._trailers = b"", 0, 0
        return self.go_on(data)

    def go_on(self, data: bytes) -> int:
        """Return the number of bytes that belong to the request that has begun."""
        if not self.is_sure:
            return len(data)
        start = self._end_of_head(data) if self._is_head else 0
        if not self.is_sure or start == len(data):
            return len(data)
        if self._has_chunks:
            return start + self._chunked(data[start:])
        size = min(self._owed, len(data) - start)
        self._owed -= size
        self.is_whole = not self._owed
        return start + size

    def _end_of_head(self, data: bytes) -> int:
        """Read a part of the head. Return the position behind what was read."""
        before = len(self._text)
        text = self._text + data
        end = text.find(_HEAD_END, max(0, before - len(_HEAD_END)))
        if end < 0:
            self._text = text
            self.is_sure = len(text) <= _HEAD_MAX_BYTES
            return len(data)
        head = text[: end + 2]
        self._text, self._is_head = b"", False
        lengths, encodings = _LENGTH.findall(head), _ENCODING.findall(head)
        count = len(lengths) + len(encodings)
        is_clear = count <= 1 and count == len(_UNSURE.findall(head))
        self.is_sure = is_clear and _START.match(head) is not None
        self._has_chunks = bool(encodings)
        self._owed = int(lengths[0]) if lengths else 0
        self.is_whole = self.is_sure and not self._has_chunks and not self._owed
        return end + len(_HEAD_END) - before

    def _chunked(self, data: bytes) -> int:
        at = 0
        while at < len(data) and not self.is_whole:
            if self._owed:
                size = min(self._owed, len(data) - at)
                self._owed -= size
                at += size
                self._is_chunk_end = not self._owed
                continue
            at = self._end_of_line(data, at)
            self.is_sure = self.is_sure and not self.is_broken
            if not self.is_sure:
                return len(data)
        return at

    def _end_of_line(self, data: bytes, at: int) -> int:
        """Read a line of a chunked body. Return the position behind what was read."""
        before = len(self._text)
        line = self._text + data[at : at + _LINE_MAX_BYTES]
        end = line.find(b"\n") + 1
        if not end:
            self._text = line
            self.is_sure = len(line) < _LINE_MAX_BYTES
            self.is_broken = not self._may_begin(line)
            return at + len(line) - before
        self._text, line = b"", line[:end]
        if self._is_chunk_end:
            self._is_chunk_end = False
            self.is_broken = line != b"\r\n"
        elif self._is_trailer:
            self.is_whole = line == b"\r\n"
            self._trailers += 1
            is_valid = self._trailers <= _TRAILERS_MAX and _TRAILER.fullmatch(line) is not None
            self.is_broken = not self.is_whole and not is_valid
        else:
            chunk = _CHUNK.fullmatch(line)
            self.is_broken = chunk is None
            self._owed = int(chunk[1], 16) if chunk is not None else 0
            self._is_trailer = not self._owed
        return at + end - before

    def _may_begin(self, line: bytes) -> bool:
        """Return whether the start of a line may become a valid one."""
        if self._is_chunk_end:
            return line == b"\r"
        if self._is_trailer:
            return len(line) <= _TRAILER_MAX_BYTES
        return _CHUNK_START.fullmatch(line) is not None


# ---- the connections, and the servers


_LINGER_S = 2.0  # time of reading after an early refusal, so that the client sees the response
_POLL_S = 0.02
_TURNS = 4  # of the event loop, until aiohttp has begun a request that has arrived
_HELD_BYTES = 65_536  # behind the current request; more goes to aiohttp, which stops reading

_LEFT = ConnectionError | RequestPayloadError  # errors of reading when the client has left
_CUT = HttpProcessingError | _LEFT | Refused  # errors of a body that is no longer read

IDLE_S = 75.0  # unless the configuration says otherwise

Handle = Callable[[Any], Awaitable[web.StreamResponse]]
# aiohttp calls `log_access` only with an enabled logger; a line for each request costs too much.
_NO_ACCESS_LOG = logging.Logger("access", logging.CRITICAL)
_ACCESS_LOG = logging.Logger("access", logging.INFO)


class HttpConnection(web.RequestHandler):
    """A connection of aiohttp; it answers requests that aiohttp refuses with a problem document.

    aiohttp gets one request at a time (`Pacing`). So valid requests before invalid data
    are answered, and the connection knows whether a response is its last one.
    """

    __slots__ = (
        "_has_whole",
        "_held",
        "_is_checking",
        "_is_full",
        "_is_refused",
        "_is_upgrade",
        "_made_s",
        "_pacing",
        "_request",
        "_server",
        "_time",
    )

    def __init__(self, server: "HttpServer", **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._time = server.loop.time
        self._made_s = self._time()
        self._pacing = Pacing()
        self._held = b""  # behind the current request
        self._request: web.BaseRequest | None = None  # the one that is handled
        self._has_whole = False  # aiohttp has a whole request whose response is not finished
        self._is_checking = self._is_full = self._is_refused = self._is_upgrade = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        limit_unacknowledged(transport, self.keepalive_timeout)

    def take_over(self, data: bytes, *, is_refused: bool) -> None:
        """Read the bytes that another protocol has received.

        Args:
            data: Not empty.
            is_refused: Whether a request with an incomplete body is refused (503 `draining`).
        """
        self._made_s -= FIRST_REQUEST_S
        self._is_refused = is_refused
        self.data_received(data)

    def data_received(self, data: bytes) -> None:
        """Handle data like aiohttp, but one request at a time."""
        if not data:  # aiohttp goes on with its own buffer
            super().data_received(data)
            return
        self._held = self._held + data if self._held else data
        self._feed()
        if len(self._held) > _HELD_BYTES:
            self._feed_all()

    def _feed(self) -> None:
        """Give aiohttp the current request, and the next one if there is none."""
        pacing = self._pacing
        while self._held and self.transport is not None:
            if not pacing.is_whole and (pacing.is_sure or self._request is not None):
                size = pacing.go_on(self._held)
            elif self._has_whole:
                break
            else:
                size = pacing.begin(self._held)
            data, self._held = self._held[:size], self._held[size:]
            self._has_whole = pacing.is_whole
            super().data_received(data)
            if self._request is not None:
                self._compare(self._request.content)
        if self._held and not self._is_checking:
            self._is_checking = True
            self._check(_TURNS)

    def _feed_all(self) -> None:
        """Give aiohttp everything, since it waits for more than expected or too much is held."""
        data, self._held = self._held, b""
        self._pacing.is_sure = self._pacing.is_whole = False
        super().data_received(data)

    def _check(self, turns: int) -> None:
        """Check that aiohttp reads the current request as `Pacing` does, or give it all data."""
        request = self._request
        if request is None and turns:  # aiohttp begins a request one or two turns later
            self._server.loop.call_soon(self._check, turns - 1)
            return
        self._is_checking = False
        reads_alike = request is not None and request.content.is_eof()
        if self._held and self.transport is not None and not reads_alike:
            self._feed_all()

    def _compare(self, content: StreamReader) -> None:
        """Let a body fail at once that aiohttp and `Pacing` read otherwise, not at its deadline.

        aiohttp does not report invalid chunks before the response to their request.
        """
        pacing = self._pacing
        is_otherwise = pacing.is_whole and not self._is_full
        if (pacing.is_broken or is_otherwise) and not content.is_eof():
            content.set_exception(BadHttpMessage("invalid chunks"))

    def pause_reading(self) -> None:
        """Pause like aiohttp, when the buffer of a body is full."""
        self._is_full = True
        super().pause_reading()

    def resume_reading(self, *args: Any, **options: Any) -> None:
        self._is_full = False
        super().resume_reading(*args, **options)

    def begin(self, request: web.BaseRequest, *, is_upgrade: bool) -> None:
        """Note the request that aiohttp handles from now on."""
        self._request = request
        self._is_upgrade = is_upgrade
        if self._is_refused:
            self._is_refused = False
            self.refuse_body()
        self._compare(request.content)

    @property
    def is_answered(self) -> bool:
        """Return whether responses to all requests that have arrived were at least begun.

        On a new connection, the first request counts as arrived: it will come soon.
        """
        if self.transport is None:
            return True
        if self._held or self._time() < self._made_s + FIRST_REQUEST_S:
            return False
        request = self._request
        return not self._has_whole if request is None else request.writer.output_size > 0

    def refuse_body(self) -> None:
        """Answer a request with an incomplete body with 503 `draining` now."""
        request = self._request
        if request is not None and not request.content.is_eof():
            request.content.set_exception(Refused(DRAINING))

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
        is_last = self._server.is_leaving and not self._held
        if is_last or self._is_upgrade or not content.is_eof():
            resp.force_close()
        finished = await super().finish_response(request, resp, start_time)
        if isinstance(content.exception(), Refused):
            await self._linger(content)
        self._request = None
        self._has_whole = False
        if self._held:
            self._server.loop.call_soon(self._feed)
        return finished

    async def _linger(self, content: StreamReader) -> None:
        """Read on, so that the client sees the response before the connection closes."""
        ended = asyncio.Event()
        content.on_eof(ended.set)
        try:
            async with asyncio.timeout(_LINGER_S):
                await ended.wait()
        except TimeoutError:
            pass

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
        elif isinstance(exc, Refused):  # after an error that was logged
            failure = exc.failure
        else:
            log.error("request failed", exc_info=exc, extra={"path": request.path[:SHOWN]})
            failure = Failure(Reason.INTERNAL, "an internal error")
        request_id = self._server.request_ids()
        answer = problem_response(failure, request_id)
        trace = request.get(TRACE)
        self._server.request_log.refused(
            failure, request_id, trace, path=request.path, remote=request.remote
        )
        answer.force_close()  # the start of the next request is unknown
        answer.headers["Connection"] = "close"  # aiohttp treats invalid requests as HTTP/1.0
        return answer

    def log_access(
        self, request: web.BaseRequest, response: web.StreamResponse, time: float | None
    ) -> None:
        """Log a request in the gateway's own access log."""
        if time is None:
            return
        fields = request.get(REPORTED) or {"request_id": response.headers.get("X-Request-Id", "")}
        self._server.request_log.served(
            request.method,
            request.rel_url.raw_path,
            response.status,
            received_bytes(request),
            self._time() - time,
            request.get(TRACE),
            **fields,
            remote=request.remote,
        )

    def log_exception(self, *args: Any, **fields: Any) -> None:
        """Log an exception like aiohttp, except errors of a body that is no longer read."""
        if not isinstance(fields.get("exc_info"), _CUT):
            super().log_exception(*args, **fields)


class _Writer(StreamWriter):
    """Writer of responses that do not name the server."""

    async def write_headers(self, status_line: str, headers: Any) -> None:
        headers.popall("Server", None)
        headers["X-Content-Type-Options"] = "nosniff"
        await super().write_headers(status_line, headers)


class HttpServer(web.Server):
    """HTTP server that creates a connection for each client.

    Args:
        handle: Handler of requests.
        header_max_bytes: Limit on request line and headers, in bytes.
        request_ids: Generates request ids.
        request_log: Log of requests.
        front: Front for the connections that answer plain posts themselves; None: all connections
            are aiohttp's.
        idle_s: Timeout of idle connections (`http.idle_timeout_ms`), in seconds.

    Attributes:
        is_leaving: If true, the server still serves, but each connection closes after its next
            response.
        fast: Connections that aiohttp has not taken over.
        make_request: Request factory that is given aiohttp's arguments.
    """

    def __init__(
        self,
        handle: Handle,
        header_max_bytes: int,
        request_ids: Callable[[], str],
        request_log: RequestLog,
        front: "EventsFront | None" = None,
        idle_s: float = IDLE_S,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_s = idle_s
        self.request_ids = request_ids
        self.request_log = request_log
        self.header_max_bytes = header_max_bytes
        self.is_leaving = False
        self.fast = FastConnections()
        self.make_request: Callable[..., web.BaseRequest] = partial(web.BaseRequest, loop=self.loop)
        self._front = front
        super().__init__(partial(unambiguous, handle), request_factory=self._begin)

    def _begin(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        _writer: AbstractStreamWriter,
        task: "asyncio.Task[None]",
    ) -> web.BaseRequest:
        """Return the request that aiohttp handles from now on."""
        writer = _Writer(protocol, self.loop)
        request = self.make_request(message, payload, protocol, writer, task)
        assert isinstance(protocol, HttpConnection)
        protocol.begin(request, is_upgrade=message.upgrade)
        return request

    def __call__(self) -> Any:
        """Return the protocol of a new connection."""
        front = self._front
        if front is None:
            return self.connection()
        return FastConnection(front.begin, front.finish, front.plain_posts, self)

    def connection(self) -> HttpConnection:
        """Return a connection of aiohttp."""
        return HttpConnection(
            self,
            loop=self.loop,
            access_log=_ACCESS_LOG if self.request_log.logs_every_request else _NO_ACCESS_LOG,
            auto_decompress=False,  # `http.body` undoes encodings with a cap
            keepalive_timeout=self.idle_s,
            lingering_time=_LINGER_S,
            max_field_size=self.header_max_bytes,
            max_line_size=self.header_max_bytes,
        )

    def take_over(self, transport: Any, data: bytes, *, is_blocked: bool, is_refused: bool) -> None:
        """Make an open connection one of aiohttp, for good.

        Args:
            transport: The connection.
            data: The bytes that were received and not consumed.
            is_blocked: Whether the transport has paused writing.
            is_refused: Whether a request with an incomplete body is refused (503 `draining`).
        """
        handler = self.connection()
        handler.connection_made(transport)
        transport.set_protocol(handler)
        if is_blocked:
            handler.pause_writing()
        handler.take_over(data, is_refused=is_refused)

    def refuse_bodies(self) -> None:
        """Start to leave, and answer requests with incomplete bodies with 503 `draining`."""
        self.is_leaving = True
        for connection in self.connections:
            if isinstance(connection, HttpConnection):
                connection.refuse_body()
        for fast in list(self.fast.open):
            fast.refuse_body()

    async def answered(self, within_s: float) -> None:
        """Wait until all requests that have arrived are answered, or until the timeout.

        Requests may still be in their sockets, so the event loop reads them first.

        Args:
            within_s: Timeout, in seconds.
        """
        end = self.loop.time() + within_s
        await asyncio.sleep(_POLL_S)
        while self.loop.time() < end:
            if self._is_answered():
                for _ in range(_TURNS):  # the next request of a connection begins a turn later
                    await asyncio.sleep(0)
                if self._is_answered():
                    return
            await asyncio.sleep(_POLL_S)

    def _is_answered(self) -> bool:
        if not all(fast.is_answered for fast in self.fast.open):
            return False
        return all(
            connection.is_answered
            for connection in self.connections
            if isinstance(connection, HttpConnection)
        )

    def pre_shutdown(self) -> None:
        super().pre_shutdown()
        for fast in list(self.fast.open):
            fast.close()


class PagesRunner(web.ServerRunner):
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
        self._started = web.AppRunner(app, access_log=None)  # its own server is not used
        self._linger_s = linger_s
        self._ports: list[Listener] = []
        ids = request_ids(os.urandom(6))
        self.pages = HttpServer(self._handle, header_max_bytes, ids, RequestLog(), idle_s=idle_s)
        super().__init__(self.pages, shutdown_timeout=linger_s)

    async def listen(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Listener:
        """Open a port, which `cleanup` closes.

        Raises:
            OSError: The port cannot be opened.
        """
        listener = Listener(self, host, port)
        await listener.start(context)
        self._ports.append(listener)
        return listener

    async def setup(self) -> None:
        await self._started.setup()
        server = self._started.server
        assert server is not None
        self.pages.make_request = server.request_factory
        self._answer = server.request_handler
        await super().setup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        return await self._answer(request)

    async def cleanup(self) -> None:
        self.pages.is_leaving = True
        for port in self._ports:
            await port.stop_accepting()
        await close_sites(self, self.pages, self._linger_s)
        await super().cleanup()
        await self._started.cleanup()
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
