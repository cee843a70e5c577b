"""The fast path of requests: aiohttp parses them, the gateway answers them.

aiohttp creates a task, a request object and a response object for each request. The fast path
avoids them and answers in one write, which saves a tenth of a single event's CPU time
(loadtest/README.md). It takes a POST of events that has arrived completely: if its connection is
idle, the request starts at once, and its response is written when its ticket is done. All other
requests take aiohttp's path, with the same limits: other paths, incomplete or compressed bodies,
`Expect`, HTTP/1.0, and requests behind one that aiohttp has not answered.

A request with a known head is not even parsed (`http.known_heads`). For that, the parser must be
between two requests. This is certain as long as each request arrives alone, with its length.

The code depends on how aiohttp 3.14 keeps messages (`RequestHandler.data_received` and `start`).
tests/integration/http/test_bad_input_http.py fails if that changes (pipelining, lengths, chunks,
slow readers).
"""

from collections.abc import Mapping

from aiohttp import StreamReader
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from headgate.http.known_heads import Framed, frame
from headgate.http.server import HttpConnection, HttpServer
from headgate.http.short_way import UNREAD_BYTES, Front, ShortWay

_LOST = -1  # the start of the next request is unknown
_STRANGE_HEADS = 16  # in a row; then the client's heads are no longer learned


class ShortConnection(HttpConnection):
    """A connection whose events take the fast path (`short_way.ShortWay`)."""

    # _owed: bytes of the last request that have not arrived yet, or _LOST from then on.
    __slots__ = ("_is_starting", "_owed", "_plain", "_strange", "_way")

    def __init__(self, front: Front, server: HttpServer, **options: object) -> None:
        super().__init__(server, **options)
        self._plain = front.plain_posts
        self._way = ShortWay(front, self, server)
        self._is_starting = False
        self._owed = self._strange = 0

    def data_received(self, data: bytes) -> None:
        if self._owed == 0:
            rest = self._way.receive(data)
            if len(rest) < len(data):
                self._strange = 0
                if not rest:
                    return
                data = rest
        self._parse(data)

    def is_idle(self) -> bool:
        """Return whether aiohttp handles no request and the connection stays open."""
        waiter = self._waiter
        return (
            waiter is not None and not waiter.done() and not self._close and not self._force_close
        )

    def go_on(self) -> None:
        """Start requests that have arrived, as long as they take the fast path."""
        if self._is_starting:  # taking a body may resume reading, which calls this again
            return
        self._is_starting = True
        try:
            self._start_in_turn()
        finally:
            self._is_starting = False

    def _parse(self, data: bytes) -> None:
        """Let aiohttp parse received data."""
        framed = frame(data) if self._owed == 0 else None
        waiting = len(self._messages)
        waiter, self._waiter = self._waiter, None  # new requests must not wake aiohttp's loop yet
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._owed > 0:
            self._owed = max(self._owed - len(data), _LOST)
        elif self._owed == 0 and data:  # aiohttp calls with no data to continue with its buffer
            is_alone = len(self._messages) == waiting + 1
            self._owed = self._left_of(framed, len(data)) if framed and is_alone else _LOST
        self.go_on()

    def _left_of(self, framed: Framed, came: int) -> int:
        """Return the bytes still to arrive of the request that was parsed last, or _LOST.

        Args:
            framed: Position of the request in the data.
            came: Number of bytes that arrived.
        """
        message, payload = self._messages[-1]
        if (
            not isinstance(message, RawRequestMessage)
            or message.upgrade
            or message.chunked
            or payload.is_eof() != (came == framed.end)
        ):
            return _LOST
        if self._strange < _STRANGE_HEADS:
            self._strange += 1
            plain = self._shortcut(message, payload)
            if plain is not None:
                self._plain.heads.learn(framed, *plain)
            return framed.end - came
        return _LOST

    @property
    def is_answered(self) -> bool:
        return self._way.ticket is None and super().is_answered

    def _process_keepalive(self) -> None:
        """Close idle connections like aiohttp, but count requests on the fast path too."""
        way = self._way
        since_s = way.answered_s if way.ticket is None else self._loop.time()
        self._next_keepalive_close_time = max(
            self._next_keepalive_close_time, since_s + self._keepalive_timeout
        )
        super()._process_keepalive()

    def _start_in_turn(self) -> None:
        while self._messages and self._way.ticket is None and self._waits():
            message, payload = self._messages[0]
            plain = self._shortcut(message, payload)
            if plain is None:
                if self._waiter is not None:
                    self._waiter.set_result(None)
                return
            topic, headers = plain
            self._messages.popleft()
            self._consumed()
            self._way.begin(topic, self._take(payload), headers)

    def _waits(self) -> bool:
        """Return whether aiohttp's loop waits for a message and has not been woken."""
        return self._waiter is not None and not self._waiter.done()

    def _take(self, payload: StreamReader) -> bytes:
        """Return the complete body.

        `read_nowait` would resume reading at each call, which costs as much as parsing the
        request. It is needed only if reading was paused.
        """
        if self._reading_paused or payload is EMPTY_PAYLOAD:
            return payload.read_nowait(-1)
        return b"".join(payload._buffer)

    def _consumed(self) -> None:
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()

    def _shortcut(
        self, message: object, payload: StreamReader
    ) -> tuple[str, Mapping[bytes, bytes]] | None:
        """Return topic and headers of a request for the fast path; None for all others."""
        transport = self.transport
        if (
            not isinstance(message, RawRequestMessage)
            or transport is None
            or message.method != "POST"
            or message.version != HttpVersion11
            or message.should_close
            or not payload.is_eof()
            or transport.get_write_buffer_size() > UNREAD_BYTES
        ):
            return None
        return self._plain.read(message.path, message.raw_headers)
