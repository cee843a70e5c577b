"""The fast path of a connection: complete requests with events, and their responses.

`http.shortcut` finds the requests. It inherits from aiohttp and cannot be compiled; this module is.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Final, Protocol

from headgate.http.answer import closing, on_the_wire
from headgate.http.auth import Peer, peer_at
from headgate.http.known_heads import Framed, frame
from headgate.model.outcome import Failure, Reason
from headgate.model.publish import Ticket
from headgate.model.reply import problem

UNREAD_BYTES: Final = 65_536  # with more unread bytes, a client's requests take aiohttp's path

log = logging.getLogger("headgate.http.short_way")


class Heads(Protocol):
    """The interface of `known_heads.KnownHeads`."""

    def find(self, framed: Framed) -> tuple[str, Mapping[bytes, bytes]] | None: ...

    def learn(self, framed: Framed, topic: str, headers: Mapping[bytes, bytes]) -> None: ...


class Posts(Protocol):
    """The interface of `plain_post.PlainPosts`."""

    @property
    def heads(self) -> Heads: ...

    @property
    def max_bytes(self) -> int: ...

    def read(
        self, path: str, raw_headers: Sequence[tuple[bytes, bytes]]
    ) -> tuple[str, Mapping[bytes, bytes]] | None: ...


class Front(Protocol):
    """The interface of `events.EventsFront`."""

    @property
    def plain_posts(self) -> Posts: ...

    def begin(
        self,
        topic: str,
        body: bytes,
        headers: Mapping[bytes, bytes],
        peer: Peer,
        respond: Callable[[bytes], None],
        ended: Callable[[Ticket], None],
    ) -> Ticket | None: ...

    def finish(self, ticket: Ticket) -> bytes: ...


class Connection(Protocol):
    """The part of aiohttp's connection that is used here."""

    @property
    def transport(self) -> asyncio.Transport | None: ...

    @property
    def _messages(self) -> Sized: ...

    def is_idle(self) -> bool:
        """Return whether aiohttp handles no request on the connection."""
        ...

    def go_on(self) -> None:
        """Start requests that have arrived meanwhile."""
        ...

    def force_close(self) -> None: ...


class ServerState(Protocol):
    """State of the server. If `is_leaving`, each connection closes after its next response."""

    is_leaving: bool
    answers: "Answers"
    request_ids: Callable[[], str]


class Answers:
    """Requests of all connections that ended in this turn of the event loop.

    They are answered at the end of the turn, so that lanes can first report all their events.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: list[ShortWay] = []

    def add(self, way: "ShortWay") -> None:
        """Add a connection whose ticket is done."""
        if not self._ended:
            self._loop.call_soon(self._flush)
        self._ended.append(way)

    def _flush(self) -> None:
        ended, self._ended = self._ended, []
        for way in ended:
            way.answer()


class ShortWay:
    """The fast path of one connection.

    At most one request is open. Further requests wait in aiohttp's queue, so that responses are
    sent in the order of the requests.

    Attributes:
        ticket: Ticket of the open request.
        answered_s: Time of the last response, by the event loop's clock.
    """

    def __init__(self, front: Front, connection: Connection, server: ServerState) -> None:
        self.ticket: Ticket | None = None
        self._done: Ticket | None = None
        self.answered_s = 0.0
        self._front = front
        self._heads = front.plain_posts.heads
        self._max_bytes = front.plain_posts.max_bytes
        self._connection = connection
        self._server = server
        self._answers = server.answers
        self._time = asyncio.get_running_loop().time
        self._peer: Peer | None = None

    def receive(self, data: bytes) -> bytes:
        """Start the requests at the start of the data, as long as their heads are known.

        Returns:
            The rest of the data, for aiohttp's parser.
        """
        while data and self.ticket is None:
            framed = frame(data)
            if framed is None or len(data) < framed.end:
                break
            cached = self._heads.find(framed)
            if cached is None or framed.end - framed.start > self._max_bytes:
                break
            transport = self._connection.transport
            if transport is None or transport.get_write_buffer_size() > UNREAD_BYTES:
                break
            if not self._connection.is_idle():
                break
            self.begin(cached[0], data[framed.start : framed.end], cached[1])
            data = data[framed.end :]
        return data

    def begin(self, topic: str, body: bytes, headers: Mapping[bytes, bytes]) -> None:
        """Start a request; it is answered at once or when it has ended."""
        answering = (self._known_peer(), self._respond, self._ended)
        try:
            self.ticket = self._front.begin(topic, body, headers, *answering)
        except Exception:  # the outermost frame of this request
            self._fail()

    def answer(self) -> None:
        """Answer the request that has ended, and start the requests behind it."""
        self._answer()
        connection = self._connection
        if connection._messages:
            connection.go_on()

    def _ended(self, ticket: Ticket) -> None:
        """Schedule the response to a ticket: the request's own, or one that replaces it."""
        self._done = ticket
        self._answers.add(self)

    def _answer(self) -> None:
        ticket, self.ticket, self._done = self._done, None, None
        assert ticket is not None
        try:
            self._respond(self._front.finish(ticket))
        except Exception:  # the outermost frame of this request
            self._fail()

    def _respond(self, response: bytes) -> None:
        connection = self._connection
        transport = connection.transport
        if transport is None or transport.is_closing():
            return
        if self._server.is_leaving and not connection._messages:
            transport.write(closing(response))
            connection.force_close()
            return
        transport.write(response)
        self.answered_s = self._time()

    def _fail(self) -> None:
        """Respond with 500 and close the connection. Call it in an exception handler."""
        log.exception("request failed")
        connection = self._connection
        request_id = self._server.request_ids()
        reply = problem(Failure(Reason.INTERNAL, "an internal error"), request_id)
        if connection.transport is not None:
            connection.transport.write(closing(on_the_wire(reply, request_id)))
        connection.force_close()

    def _known_peer(self) -> Peer:
        """Return the connection's peer, which never changes."""
        if self._peer is None:
            transport = self._connection.transport
            self._peer = Peer(None) if transport is None else peer_at(transport)
        return self._peer
