"""The two ways to read a request: the native one as the server drives it, and aiohttp's parser."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from aiohttp import web
from aiohttp.hdrs import TRANSFER_ENCODING
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD

from headgate.http.answer import response_to
from headgate.http.auth import Peer
from headgate.http.connection import FastConnection, PlainHead, PlainPosts
from headgate.http.request_log import RequestLog
from headgate.http.server import HttpConnection, HttpServer, ambiguity
from headgate.model.publish import Ticket
from headgate.model.reply import JSON, Reply

MAX_BYTES = 1000  # of a body: few bytes reach it
HOST = ((b"Host", b"x"),)
_TURNS = 8  # of the event loop, for a request on the ordinary way
SENTINEL = b"GET /sentinel HTTP/1.1\r\nHost: x\r\n\r\n"


class Read(NamedTuple):
    """A request, as the pipeline sees it: header names in lower case, without the length."""

    topic: str
    headers: Mapping[bytes, bytes]
    body: bytes


class Front:
    """Notes what comes the short way. Stands in for `EventsFront`."""

    def __init__(self) -> None:
        self.plain_posts = PlainPosts(MAX_BYTES)
        self.taken: list[Read] = []

    def begin(
        self,
        head: PlainHead,
        body: bytes,
        _peer: Peer,
        _ended: Callable[[Ticket], None],
    ) -> bytes | None:
        self.taken.append(Read(head.topic, without_length(head.headers), body))
        return b""

    def finish(self, ticket: Ticket, _remote: str | None) -> bytes:
        raise AssertionError("there are no tickets")


class Wire(asyncio.Transport):
    """Its client reads everything."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Native:
    """What a connection reads itself of some bytes."""

    def __init__(self, front: Front, http: HttpServer) -> None:
        self._front = front
        self.header_max_bytes, self.idle_s = http.header_max_bytes, http.idle_s
        self.is_leaving, self.request_ids, self.fast = False, http.request_ids, http.fast
        self._rest = b""

    def take_over(self, _transport: Any, data: bytes, **_: bool) -> None:
        self._rest = data

    def receive(self, data: bytes) -> bytes:
        """Give a connection the data. What it leaves to aiohttp, or waits with."""
        self._rest = b""
        begin, finish, posts = self._front.begin, self._front.finish, self._front.plain_posts
        connection: Any = FastConnection(begin, finish, posts, cast(Any, self))
        connection.connection_made(Wire())
        connection.data_received(data)
        rest: bytes = self._rest or connection._buffer
        connection.connection_lost(None)
        return rest


class Server:
    """The real one, without a socket."""

    def __init__(self, header_max_bytes: int) -> None:
        self.front = Front()
        self.http = HttpServer(
            self._handle, header_max_bytes, lambda: "id", RequestLog(), cast(Any, self.front)
        )
        self.native = Native(self.front, self.http)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """The ordinary way."""
        body = await request.read()
        self.front.taken.append(read_of(request._message, body))
        return response_to(request, Reply(200, JSON, (), b"{}"), "id")

    async def connect(self) -> Wire:
        wire = Wire()
        wire.set_protocol(self.http())
        wire.protocol.connection_made(wire)
        return wire

    async def converse(self, chunks: Sequence[bytes], turns: int) -> list[Read]:
        """What a connection reads, on whatever way; heads are learned as ever.

        turns: of the event loop, after each chunk.
        """
        wire = await self.connect()
        read = self.front.taken
        read.clear()
        for chunk in chunks:
            wire.protocol.data_received(chunk)
            for _ in range(turns):
                await asyncio.sleep(0)
        for _ in range(2 + sum(chunk.count(b" HTTP/") for chunk in chunks)):
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if is_idle(wire.protocol):
                break
        wire.protocol.connection_lost(None)
        await asyncio.sleep(0)
        return [Read(one.topic, without_length(one.headers), one.body) for one in read]


class Aiohttp:
    """The parser that the server gives a connection, which stays between two requests."""

    def __init__(self, server: Server) -> None:
        self._posts = server.front.plain_posts
        self._connection = server.http.connection()
        self._connection.transport = Wire()
        self._parser: Any = self._connection._parser
        self.is_upgraded = False  # what came behind such a request was not looked at

    def converse(self, chunks: Sequence[bytes]) -> list[Read]:
        """The requests that have come as a whole, up to nonsense or the last of the connection."""
        found: list[tuple[Any, Any]] = []
        try:
            for chunk in chunks:
                found += self._messages(chunk)
                if self.is_upgraded:
                    break
        except HttpProcessingError:
            found += parsed_before(self._parser)
        read: list[Read] = []
        for message, payload in found:
            if not payload.is_eof() or ambiguity(message) is not None:
                break
            read.append(read_of(message, _body(payload)))
            if message.should_close:
                break
        return read

    def read(self, data: bytes) -> list[Read]:
        """The requests that the data is made of, each of which may take the short way. Raises
        AssertionError if there is anything else, and aiohttp's errors."""
        messages = self._messages(data + SENTINEL)
        last, _ = messages.pop()
        assert (last.method, last.path) == ("GET", "/sentinel"), f"aiohttp is elsewhere: {last}"
        return [self._read(message, payload) for message, payload in messages]

    def _messages(self, data: bytes) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        some, self.is_upgraded, _ = self._parser.feed_data(data)
        while some and not self.is_upgraded:
            found += some
            for _ in some:
                self._parser.message_consumed()
            some, self.is_upgraded, _ = self._parser.feed_data(b"")
        return [*found, *some]

    def _read(self, message: Any, payload: Any) -> Read:
        assert (message.method, message.version) == ("POST", HttpVersion11), message
        assert not any((message.should_close, message.upgrade, message.chunked)), message
        assert payload.is_eof(), f"the body is not whole: {message}"
        found = self._posts.read(message.path, message.raw_headers)
        assert found is not None, f"no plain post: {message}"
        topic, headers = found
        assert isinstance(headers, dict)
        body = _body(payload)
        assert int(headers.pop(b"content-length")) == len(body), message
        return Read(topic, headers, body)


def is_idle(protocol: Any) -> bool:
    if not isinstance(protocol, HttpConnection):
        return not protocol.is_open
    return protocol._request is None and not protocol._held and not protocol._has_whole


def parsed_before(parser: object) -> list[tuple[Any, Any]]:
    """Take the requests that aiohttp's parser had read when it raised: only Python's garbage
    collector can list them."""
    for held in gc.get_referents(parser):
        first = held[0] if isinstance(held, list) and held else None
        if isinstance(first, tuple) and isinstance(first[0], RawRequestMessage):
            taken = [request for request in held if _is_whole(*request)]
            held.clear()
            return taken
    return []


def _is_whole(message: RawRequestMessage, payload: Any) -> bool:
    """A request without a body shows no end; it is whole unless it has a Transfer-Encoding."""
    if payload is EMPTY_PAYLOAD:
        return TRANSFER_ENCODING not in message.headers
    return bool(payload.is_eof())


def read_of(message: RawRequestMessage, body: bytes) -> Read:
    """Of any request; one that is no post of events has its whole target for a topic."""
    post = PlainPosts(MAX_BYTES).read(message.path, HOST) if message.method == "POST" else None
    topic = f"{message.method} {message.path}" if post is None else post[0]
    headers = {name.lower(): value for name, value in message.raw_headers}
    return Read(topic, without_length(headers), body)


def without_length(headers: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    return {name: value for name, value in headers.items() if name != b"content-length"}


def _body(payload: Any) -> bytes:
    return payload.read_nowait(-1) if payload is EMPTY_PAYLOAD else b"".join(payload._buffer)
