"""The short way of a request through aiohttp: parsed by it, answered without it.

aiohttp makes a task, a request and a response for each request. Going without, and answering in
one write, took a tenth off the CPU of a single event (loadtest/README.md). A POST of events that
is there as a whole needs none of them: when its connection is idle it starts at once, and
its answer to the transport when its ticket is done. Whatever is unusual (another path, a body
still on its way or compressed, `Expect`, `Idempotency-Key`, HTTP/1.0, a request behind one that is
not answered yet and was not taken here) takes aiohttp's own way, with the same limits.

It builds on how aiohttp 3.14 keeps its messages (`RequestHandler.data_received` and `start`);
tests/integration/edge/test_bad_input_http.py shows a change (pipelining, lengths, chunks, slow
readers).
"""

import logging
from collections.abc import Mapping

from aiohttp import StreamReader
from aiohttp.http import HttpVersion11, RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD

from headgate.core.http.reply import problem
from headgate.core.outcome import Failure, Reason
from headgate.core.publish import Ticket
from headgate.edge.answer import closing, on_the_wire
from headgate.edge.events import EventsFront
from headgate.edge.server import KEEP_ALIVE_S, HttpConnection, HttpServer

_UNREAD_BYTES = 65_536  # a client that does not read its answers waits in aiohttp's writer

log = logging.getLogger("headgate.edge.shortcut")


class ShortConnection(HttpConnection):
    """A connection whose events take the short way.

    At most one request of the short way is open; what arrives meanwhile waits in aiohttp's queue,
    so that answers leave in the order of their requests.
    """

    __slots__ = ("_front", "_is_starting", "_open", "_plain", "_remote")

    def __init__(self, front: EventsFront, server: HttpServer, **options: object) -> None:
        super().__init__(server, **options)
        self._front = front
        self._plain = front.plain_posts
        self._open: Ticket | None = None
        self._is_starting = False
        self._remote: str | None = None

    def data_received(self, data: bytes) -> None:
        waiter, self._waiter = self._waiter, None  # what arrives must not wake aiohttp's loop yet
        try:
            super().data_received(data)
        finally:
            self._waiter = waiter
        self._go_on()

    @property
    def is_answered(self) -> bool:
        return self._open is None and super().is_answered

    def _process_keepalive(self) -> None:
        """As aiohttp, which does not know that a request of the short way is open."""
        if self._open is not None:
            self._next_keepalive_close_time = self._loop.time() + KEEP_ALIVE_S
        super()._process_keepalive()

    def _go_on(self) -> None:
        """Start what has arrived, as long as it takes the short way."""
        if self._is_starting:  # taking a body may read on, and so come back here
            return
        self._is_starting = True
        try:
            self._start_in_turn()
        finally:
            self._is_starting = False

    def _start_in_turn(self) -> None:
        while self._messages and self._open is None and self._is_idle():
            message, payload = self._messages[0]
            found = self._shortcut(message, payload)
            if found is None:
                if self._waiter is not None:
                    self._waiter.set_result(None)
                return
            topic, headers = found
            self._messages.popleft()
            self._consumed()
            body = self._take(payload)
            self._next_keepalive_close_time = self._loop.time() + KEEP_ALIVE_S
            self._begin(topic, body, headers)

    def _is_idle(self) -> bool:
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
            or transport.get_write_buffer_size() > _UNREAD_BYTES
        ):
            return None
        return self._plain.read(message.path, message.raw_headers)

    def _begin(self, topic: str, body: bytes, headers: Mapping[bytes, bytes]) -> None:
        try:
            ticket = self._front.begin(topic, body, headers, self._peer(), self._respond)
        except Exception:  # the outermost frame of this request
            self._fail()
            return
        if ticket is None:
            return
        if ticket.done:
            self._answer(ticket)
        else:
            self._open = ticket
            # Not at once: the lane that reports this has others to report.
            ticket.waiter = self._soon

    def _soon(self, ticket: Ticket) -> None:
        self._loop.call_soon(self._answer, ticket)

    def _answer(self, ticket: Ticket) -> None:
        self._open = None
        try:
            self._respond(self._front.finish(ticket))
        except Exception:  # the outermost frame of this request
            self._fail()
            return
        if self._messages:
            self._go_on()

    def _respond(self, response: bytes) -> None:
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        if self._server.is_leaving and self._is_last():
            transport.write(closing(response))
            self.force_close()
            return
        transport.write(response)
        self._next_keepalive_close_time = self._loop.time() + KEEP_ALIVE_S

    def _fail(self) -> None:
        """Answer 500, the last of this connection. Called with the exception at hand."""
        log.exception("request failed")
        request_id = self._request_id()
        reply = problem(Failure(Reason.INTERNAL, "an internal error"), request_id)
        if self.transport is not None:
            self.transport.write(closing(on_the_wire(reply, request_id)))
        self.force_close()

    def _peer(self) -> str | None:
        if self._remote is None:
            peer = self.peername
            self._remote = str(peer[0]) if isinstance(peer, tuple) else ""
        return self._remote
