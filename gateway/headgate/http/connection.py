"""A connection of the data port: it owns the socket and answers plain posts of events itself.

The rules:

1. The connection reads one request after the other. At most one is open; later bytes wait in the
   buffer, so that responses are sent in the order of the requests.
2. A plain post (`PlainPosts`) that has arrived completely goes to the front at once, without a
   task or a request object. Its response is one write when its ticket is done, at the end of the
   event loop's turn, so that lanes can first report all their events.
3. The first request that is anything else passes the connection to aiohttp for good, with all
   bytes that are not consumed (`HttpServer.take_over`). All limits and checks of unusual requests
   are aiohttp's. Some clients send head and body in two segments, so an incomplete plain post may
   first become complete: for a short time, and within a bound on the bytes of all connections.
4. Reading pauses while a request is open and the buffer is full. Nothing starts while the client
   does not read its responses.
5. A connection that is idle for longer than `http.idle_timeout_ms` is closed. While the server
   leaves, a response that has nothing behind it says `Connection: close`.

`FastConnection` has the methods of `asyncio.Protocol` but does not inherit from it, because the
module is compiled.
"""

import asyncio
import logging
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from aiohttp.helpers import rfc822_formatted_time

from headgate.http.auth import Peer, peer_at
from headgate.model.cache import BoundedCache
from headgate.model.outcome import Failure, Reason, Refused
from headgate.model.publish import Ticket
from headgate.model.reply import Reply, problem
from headgate.model.request import RequestOptions, read_options
from headgate.native.chosen import framed

if TYPE_CHECKING:
    from headgate.http.server import HttpServer


# ---- plain posts of events: requests that a connection reads itself, and the heads it remembers
#
# A client sends nearly the same head with each request. The first one is read strictly: a head with
# anything that is not on a short list is not plain, and aiohttp reads it instead. Later heads that
# differ only in values without effect on parsing (length, ids, a key) are recognised by their
# bytes. tests/unit/http/test_requests_fuzz.py compares all of this with aiohttp's parser.


Headers = Mapping[bytes, bytes]
# A request that `framed` has recognised: its head without the values that vary; those values except
# the length, with names in lower case; start and end of its body, which may not have arrived yet.
Framed = tuple[bytes, dict[bytes, bytes], int, int]

# Larger bodies are rare, and their JSON would be weighed or digested on the event loop.
MAX_BYTES: Final = 262_144
HEAD_MAX_BYTES: Final = 4096  # `framed` looks at no longer heads
_START: Final = b"POST /v1/topics/"
_EVENTS: Final = re.compile(r"/v1/topics/([^/?#]+)/events")
_REQUEST_LINE: Final = re.compile(rb"POST (/[A-Za-z0-9._~!$&'()*+,;=:@%/-]+) HTTP/1\.1")
# A token, and text of visible ASCII without spaces around it.
_FIELD: Final = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+): ?((?:[!-~](?:[ -~]*[!-~])?)?)")
_FIELDS_MAX: Final = 64
INTERNAL_ERROR: Final = Failure(Reason.INTERNAL, "an internal error")
# `internal` says that nothing was written, which is not certain once events have started.
MAYBE_WRITTEN: Final = Failure(
    Reason.UNKNOWN, "an internal error; the events may be in the topic, or may still arrive"
)
_LENGTH: Final = b"content-length"
_CONNECTION: Final = b"connection"
_UNUSUAL: Final = frozenset(
    (
        b"content-encoding",
        b"expect",
        b"origin",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
    )
)
# Those of the values that vary without effect on parsing that are options (`read_options`).
_OPTIONS: Final = frozenset(
    (b"headgate-event-id", b"headgate-key", b"headgate-timestamp", b"traceparent")
)
_PATHS_REMEMBERED: Final = 1000  # clients choose them freely
_HEADS_REMEMBERED: Final = 1000
_PATH_MAX: Final = 1024  # characters; a topic name of 249 characters may be encoded as 747


def may_become_plain(data: bytes) -> bool:
    """Return whether data without a complete head may be the start of a plain post."""
    if not data.startswith(_START) and not _START.startswith(data):
        return False
    return len(data) < HEAD_MAX_BYTES and b"\r\n\r\n" not in data


class PlainHead:
    """The head of a plain post.

    Attributes:
        topic: Topic of the request.
        headers: Headers; names in lower case.
        options: Options of a known head; None if the pipeline must read them.
    """

    __slots__ = ("headers", "options", "topic")

    def __init__(self, topic: str, headers: Headers, options: RequestOptions | None = None) -> None:
        self.topic: Final = topic
        self.headers: Final = headers
        self.options: Final = options


class KnownHeads:
    """A cache of plain posts' heads by their bytes.

    Args:
        limit: Largest number of heads. A full cache is cleared; 0 remembers none.

    Attributes:
        hits: Number of requests whose head was known.
    """

    __slots__ = ("_is_on", "_known", "hits")

    def __init__(self, limit: int = _HEADS_REMEMBERED) -> None:
        self._known = BoundedCache[bytes, PlainHead](limit)
        self._is_on = limit > 0
        self.hits = 0

    def learn(self, request: Framed, topic: str, headers: Headers) -> None:
        """Remember the head of a plain post.

        Args:
            request: The request.
            topic: Topic of the request.
            headers: All headers; names in lower case.
        """
        if not self._is_on:
            return
        head, own_values, _body_start, _body_end = request
        shared = {
            name: value
            for name, value in headers.items()
            if name not in own_values and name != _LENGTH
        }
        options = None
        if _OPTIONS.isdisjoint(own_values):
            with suppress(Refused):  # the pipeline refuses each request with such a head
                options = read_options(headers)
        self._known.put(head, PlainHead(topic, shared, options))

    def find(self, request: Framed) -> PlainHead | None:
        """Return a request's head, without the length, if it is known."""
        head, own_values, _body_start, _body_end = request
        cached = self._known.get(head)
        if cached is None:
            return None
        self.hits += 1
        if not own_values:
            return cached
        return PlainHead(cached.topic, {**cached.headers, **own_values}, cached.options)


class PlainPosts:
    """Requests that a connection may answer itself.

    Attributes:
        max_bytes: Maximum size of a body, in bytes.
        heads: Cache of their heads.
    """

    __slots__ = ("_topics", "heads", "max_bytes")

    def __init__(self, max_bytes: int, heads: KnownHeads | None = None) -> None:
        self.max_bytes: Final = max_bytes
        self.heads: Final = heads or KnownHeads()
        self._topics = BoundedCache[str, str](_PATHS_REMEMBERED)

    def read_head(self, head: bytes, line_max_bytes: int) -> tuple[str, Headers] | None:
        """Return topic and headers (names in lower case) of a plain post, else None.

        Args:
            head: All bytes before the body.
            line_max_bytes: Maximum size of a line, in bytes.
        """
        lines = head[:-4].split(b"\r\n")
        request = _REQUEST_LINE.fullmatch(lines[0])
        if request is None or len(lines) > _FIELDS_MAX:
            return None
        fields: list[tuple[bytes, bytes]] = []
        names: set[bytes] = set()
        for line in lines[1:]:
            field = _FIELD.fullmatch(line)
            if field is None or len(line) > line_max_bytes:
                return None
            name = field[1].lower()
            if name in names:
                return None
            if name == _CONNECTION and field[2].lower() != b"keep-alive":
                return None
            names.add(name)
            fields.append((name, field[2]))
        if len(lines[0]) > line_max_bytes:
            return None
        return self.read(request[1].decode("ascii"), fields)

    def read(
        self, path: str, raw_headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[str, Headers] | None:
        """Return topic and headers (names in lower case) of a plain post, else None.

        Args:
            path: The request's target.
            raw_headers: Names and values of the request's headers.
        """
        topic = self._topics.get(path)
        if topic is None:
            topic = self._topic(path)
            if topic is None:
                return None
        headers: dict[bytes, bytes] = {}
        for name, value in raw_headers:
            lower = name.lower()
            if lower in _UNUSUAL:
                return None
            headers[lower] = value
        if int(headers.get(_LENGTH, b"0")) > self.max_bytes or b"host" not in headers:
            return None
        return topic, headers

    def _topic(self, path: str) -> str | None:
        match = _EVENTS.fullmatch(path)
        if match is None:
            return None
        topic = str(match.group(1))
        if "%" in topic:
            topic = unquote(topic)
        if len(path) > _PATH_MAX:
            return topic
        return self._topics.put(path, topic)


# ---- responses


_LINES: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: "
    for status in HTTPStatus
}


class _Date:
    """The header Date, which is the same for all responses of a second."""

    def __init__(self) -> None:
        self._second = 0
        self._text = ""

    def text(self) -> str:
        """Return its value."""
        second = int(time.time())
        if second != self._second:
            self._second, self._text = second, rfc822_formatted_time()
        return self._text


_DATE: Final = _Date()


def on_the_wire(reply: Reply, request_id: str) -> bytes:
    """Return the bytes of an HTTP/1.1 response on a connection that stays open."""
    more = "".join([f"{name}: {value}\r\n" for name, value in reply.headers])
    head = (
        f"{_LINES[reply.status]}{reply.content_type}\r\nContent-Length: {len(reply.body)}\r\n"
        f"Date: {_DATE.text()}\r\nX-Request-Id: {request_id}\r\n"
        f"X-Content-Type-Options: nosniff\r\n{more}\r\n"
    )
    return head.encode("latin-1") + reply.body


def closing(response: bytes) -> bytes:
    """Return the same response for a connection that closes after it."""
    return response.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)


# ---- the connections


_AHEAD_BYTES: Final = 65_536  # in the buffer behind an open request; then reading pauses
_WAIT_S: Final = 0.25  # for the rest of a plain post; then aiohttp waits for it
_WAITING_BYTES: Final = 16_777_216  # of such requests on all connections
_NEW_HEADS_MAX: Final = 16  # in a row; later new heads of the connection are not remembered
FIRST_REQUEST_S: Final = 1.0  # for a new client's first request; later ones may lose the connection
_USER_TIMEOUT: Final[int] = getattr(socket, "TCP_USER_TIMEOUT", 0)  # Linux alone has it
_INTERNET: Final = (socket.AF_INET, socket.AF_INET6)

log = logging.getLogger("headgate.http")


# Of `events.EventsFront`: start a request, and return its response once it has ended.
Begin = Callable[[PlainHead, bytes, Peer, Callable[[Ticket], None]], bytes | None]
Finish = Callable[[Ticket, str | None], bytes]


class FastConnections:
    """All open connections that aiohttp has not taken over.

    Attributes:
        open: The connections.
        waiting_bytes: Sizes of the incomplete requests that they wait for, in bytes.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: list[FastConnection] = []
        self.open: set[FastConnection] = set()
        self.waiting_bytes = 0

    def add_ended(self, connection: "FastConnection") -> None:
        """Answer a connection whose ticket is done, at the end of this turn of the event loop."""
        if not self._ended:
            self._loop.call_soon(self._flush)
        self._ended.append(connection)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        for connection in ended:
            connection.answer()


def limit_unacknowledged(transport: asyncio.BaseTransport, limit_s: float) -> None:
    """Let the kernel close a connection whose client accepts no data.

    Only the kernel sees such a client. The connection would otherwise keep its request and
    response forever.

    Args:
        transport: The connection.
        limit_s: Longest time of unacknowledged data, in seconds.
    """
    connected = transport.get_extra_info("socket")
    if connected is None or connected.family not in _INTERNET:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if _USER_TIMEOUT:
        connected.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, round(limit_s * 1000))


class FastConnection:
    """A connection whose requests were all plain posts so far.

    Args:
        begin: Starts a request (`events.EventsFront.begin`).
        finish: Returns the response to a request that has ended.
        posts: Requests that the connection may answer.
        server: The server.

    Attributes:
        is_open: Whether a request is open.
    """

    def __init__(
        self, begin: Begin, finish: Finish, posts: PlainPosts, server: "HttpServer"
    ) -> None:
        self.is_open = False
        self._ended: Ticket | None = None
        self._begin = begin
        self._finish = finish
        self._posts = posts
        self._heads = posts.heads
        self._server = server
        self._connections = server.fast
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._peer: Peer | None = None
        self._buffer = b""
        self._needed = 0  # bytes of the first request in the buffer, if it is known and incomplete
        self._wait: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._made_s = self._answered_s = 0.0
        self._new_heads = 0
        self._is_reading = False
        self._is_paused = False  # reading
        self._is_blocked = False  # writing

    # ---- the methods of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._made_s = self._answered_s = self._loop.time()
        self._connections.open.add(self)
        limit_unacknowledged(transport, self._server.idle_s)
        self._idle = self._loop.call_later(self._server.idle_s, self._close_idle)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._buffer = self._buffer + data if self._buffer else data
        if not self.is_open and len(self._buffer) >= self._needed:
            self._read()
        is_busy = self.is_open or self._is_blocked
        if is_busy and len(self._buffer) > _AHEAD_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        return False  # the transport closes itself

    def connection_lost(self, _error: BaseException | None) -> None:
        self._leave()

    def pause_writing(self) -> None:
        self._is_blocked = True

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._read()

    # ---- for the server

    @property
    def is_answered(self) -> bool:
        """Return whether responses to all requests that have arrived were sent.

        On a new connection, the first request counts as arrived: it will come soon.
        """
        if self._transport is None:
            return True
        is_new = self._loop.time() < self._made_s + FIRST_REQUEST_S
        return not self.is_open and not self._needed and not self._is_blocked and not is_new

    def refuse_body(self) -> None:
        """Let aiohttp refuse a request with an incomplete body (503 `draining`)."""
        if self._needed and not self.is_open:
            self._pass_to_aiohttp(is_refused=True)

    def close(self) -> None:
        """Close the connection."""
        transport = self._transport
        if transport is not None:
            self._leave()
            transport.close()

    def answer(self) -> None:
        """Answer the request that has ended, and start the requests behind it."""
        ticket, self._ended, self.is_open = self._ended, None, False
        assert ticket is not None
        try:
            peer = self._peer
            self._respond(self._finish(ticket, None if peer is None else peer.address))
        except Exception:  # the outermost frame of this request
            log.exception("request failed")
            self._fail(MAYBE_WRITTEN)
        if self._buffer or self._is_paused:
            self._read()

    # ---- reading

    def _read(self) -> None:
        """Start the requests in the buffer, until one has to wait."""
        if self._is_reading:  # writing may call `resume_writing`, which calls this again
            return
        self._is_reading = True
        try:
            while (
                self._buffer
                and not self.is_open
                and not self._is_blocked
                and self._transport is not None
                and self._start_next()
            ):
                pass
        finally:
            self._is_reading = False
        has_room = not self.is_open or len(self._buffer) <= _AHEAD_BYTES
        if self._is_paused and has_room and self._transport is not None and not self._is_blocked:
            self._resume()

    def _start_next(self) -> bool:
        """Start the first request in the buffer. Return False if it has to wait."""
        data = self._buffer
        request = framed(data)
        if request is None:
            if not may_become_plain(data):
                self._pass_to_aiohttp()
            elif self._wait is None:
                self._wait = self._loop.call_later(_WAIT_S, self._end_wait)
            return False
        head = self._heads.find(request)
        if head is None:
            head = self._read_head(request)
        else:
            self._new_heads = 0
        _, _, body_start, body_end = request
        if head is None or body_end - body_start > self._posts.max_bytes:
            self._pass_to_aiohttp()
            return False
        if len(data) < body_end:
            self._wait_for(body_end)
            return False
        if self._wait is not None:
            self._stop_waiting()
        self._buffer = data[body_end:]
        self._start(head, data[body_start:body_end])
        return True

    def _read_head(self, request: Framed) -> PlainHead | None:
        """Read a head that is not known, and remember it if it is plain."""
        _, _, body_start, _ = request
        plain = self._posts.read_head(self._buffer[:body_start], self._server.header_max_bytes)
        if plain is None:
            return None
        topic, headers = plain
        if self._new_heads < _NEW_HEADS_MAX:
            self._new_heads += 1
            self._heads.learn(request, topic, headers)
        return PlainHead(topic, headers)

    def _start(self, head: PlainHead, body: bytes) -> None:
        """Start a request; it is answered at once or when it has ended."""
        peer = self._peer
        if peer is None:
            peer = self._peer = peer_at(self._transport)
        try:
            response = self._begin(head, body, peer, self._when_ended)
        except Refused as refused:
            self._fail(refused.failure)
            return
        except Exception:  # the outermost frame of this request
            log.exception("request failed")
            self._fail(INTERNAL_ERROR)
            return
        if response is None:
            self.is_open = True
        else:
            self._respond(response)

    def _wait_for(self, size: int) -> None:
        """Wait until so many bytes are in the buffer, or give up."""
        if self._needed:
            return
        if self._connections.waiting_bytes + size > _WAITING_BYTES:
            self._pass_to_aiohttp()
            return
        self._needed = size
        self._connections.waiting_bytes += size
        if self._wait is None:
            self._wait = self._loop.call_later(_WAIT_S, self._end_wait)

    def _stop_waiting(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None
        self._connections.waiting_bytes -= self._needed
        self._needed = 0

    def _end_wait(self) -> None:
        self._wait = None
        if not self.is_open and self._transport is not None:
            self._pass_to_aiohttp()

    def _pass_to_aiohttp(self, is_refused: bool = False) -> None:
        """Pass the connection to aiohttp, with all bytes that are not consumed."""
        transport, data = self._transport, self._buffer
        if self._is_paused:
            self._resume()
        self._leave()
        if not transport.is_closing():
            is_blocked = self._is_blocked
            self._server.take_over(transport, data, is_blocked=is_blocked, is_refused=is_refused)

    def _resume(self) -> None:
        self._is_paused = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    # ---- writing

    def _when_ended(self, ticket: Ticket) -> None:
        """Schedule the response to the open request, which may not have been noted as open yet."""
        self._ended = ticket
        self._connections.add_ended(self)

    def _respond(self, response: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._server.is_leaving and not self._buffer:
            transport.write(closing(response))
            self.close()
            return
        transport.write(response)
        self._answered_s = self._loop.time()

    def _fail(self, failure: Failure) -> None:
        """Respond with a failure and close the connection."""
        request_id = self._server.request_ids()
        reply = problem(failure, request_id)
        if self._transport is not None:
            self._transport.write(closing(on_the_wire(reply, request_id)))
        self.close()

    # ---- the end

    def _close_idle(self) -> None:
        if self._transport is None:
            return
        now_s = self._loop.time()
        since_s = self._answered_s
        if self.is_open or self._is_blocked or self._wait is not None:
            since_s = now_s
        due_s = since_s + self._server.idle_s
        if now_s < due_s:
            self._idle = self._loop.call_at(due_s, self._close_idle)
        else:
            self.close()

    def _leave(self) -> None:
        """Forget the transport; the connection does nothing from now on."""
        self._transport = None
        self._buffer = b""
        if self._wait is not None or self._needed:
            self._stop_waiting()
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._connections.open.discard(self)
