"""The short way of a request through aiohttp: parsed by it, answered without it.

aiohttp makes a task, a request and a response for each request. Going without, and answering in
one write, took a tenth off the CPU of a single event (loadtest/README.md). A POST of events that
is there as a whole needs none of them: when its connection is idle it starts at once, and
its answer to the transport when its ticket is done. Whatever is unusual (another path, a body
still on its way or compressed, `Expect`, HTTP/1.0, a request behind one that is not answered yet
and was not taken here) takes aiohttp's own way, with the same limits.

A request whose head is known is not even parsed (`edge.known_heads`). That needs to know where the
parser is between two requests: it is as long as each request came alone, with its length.

It builds on how aiohttp 3.14 keeps its messages (`RequestHandler.data_received` and `start`);
tests/integration/edge/test_bad_input_http.py shows a change (pipelining, lengths, chunks, slow
readers).
"""

from collections.abc import Mapping

from aiohttp import StreamReader
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from headgate.edge.known_heads import Framed, frame
from headgate.edge.server import HttpConnection, HttpServer
from headgate.edge.short_way import UNREAD_BYTES, Front, ShortWay

_LOST = -1  # it is not known where the next request begins
_STRANGE_HEADS = 16  # in a row: a client whose heads are all different is not looked at any more


class ShortConnection(HttpConnection):
    """A connection whose events take the short way (`short_way.ShortWay`)."""

    # _owed: bytes of the last request that have not come yet, or _LOST for good.
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
        """Whether nothing is under way that aiohttp has read, and the connection stays."""
        waiter = self._waiter
        return (
            waiter is not None and not waiter.done() and not self._close and not self._force_close
        )

    def go_on(self) -> None:
        """Start what has arrived, as long as it takes the short way."""
        if self._is_starting:  # taking a body may read on, and so come back here
            return
        self._is_starting = True
        try:
            self._start_in_turn()
        finally:
            self._is_starting = False

    def _parse(self, data: bytes) -> None:
        """Have aiohttp read it."""
        framed = frame(data) if self._owed == 0 else None
        waiting = len(self._messages)
        waiter, self._waiter = self._waiter, None  # what arrives must not wake aiohttp's loop yet
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        if self._owed > 0:
            self._owed = max(self._owed - len(data), _LOST)
        elif self._owed == 0 and data:  # aiohttp calls without, to go on with what it has
            is_alone = len(self._messages) == waiting + 1
            self._owed = self._left_of(framed, len(data)) if framed and is_alone else _LOST
        self.go_on()

    def _left_of(self, framed: Framed, came: int) -> int:
        """How much has yet to come of the request that was parsed last, or _LOST."""
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
            found = self._shortcut(message, payload)
            if found is not None:
                self._plain.heads.learn(framed, *found)
            return framed.end - came
        return _LOST

    @property
    def is_answered(self) -> bool:
        return self._way.ticket is None and super().is_answered

    def _process_keepalive(self) -> None:
        """As aiohttp, which knows nothing of requests that take the short way."""
        way = self._way
        since_s = way.answered_s if way.ticket is None else self._loop.time()
        self._next_keepalive_close_time = max(
            self._next_keepalive_close_time, since_s + self._keepalive_timeout
        )
        super()._process_keepalive()

    def _start_in_turn(self) -> None:
        while self._messages and self._way.ticket is None and self._waits():
            message, payload = self._messages[0]
            found = self._shortcut(message, payload)
            if found is None:
                if self._waiter is not None:
                    self._waiter.set_result(None)
                return
            topic, headers = found
            self._messages.popleft()
            self._consumed()
            self._way.begin(topic, self._take(payload), headers)

    def _waits(self) -> bool:
        """Whether aiohttp's loop waits for a message, and has not been woken for one."""
        return self._waiter is not None and not self._waiter.done()

    def _take(self, payload: StreamReader) -> bytes:
        """The whole body. `read_nowait` would ask for more reading at each call, which costs as
        much as parsing the request; that is needed only where reading was held up."""
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
        """Topic and headers of a request that may take the short way."""
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
