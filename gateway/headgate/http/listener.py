"""Listening ports with replaceable TLS, which lose no connection when they stop."""

import asyncio
import logging
import re
import secrets
import socket
import ssl
import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from aiohttp import web

from headgate.config.settings import HttpSettings
from headgate.errors_in_words import no_password
from headgate.model.outcome import malformed
from headgate.model.reply import problem

log = logging.getLogger("headgate.http")

_BACKLOG = 4096  # at 512 connections aiohttp's default of 128 costs seconds

# A classic BPF program (linux/filter.h) over the TCP headers of segments for a listening socket.
# It drops segments with SYN and without ACK, which begin a connection, and keeps all others.
_NO_NEW_CONNECTIONS = (
    (0x30, 0, 0, 13),  # load the byte of the flags
    (0x54, 0, 0, 0x12),  # and SYN | ACK
    (0x15, 0, 1, 0x02),  # if that is SYN alone,
    (0x06, 0, 0, 0),  # drop the segment,
    (0x06, 0, 0, 0xFFFF_FFFF),  # else keep it
)
_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python has no name for it before 3.14
_SO_DETACH_FILTER = 27
_TCPI_UNACKED = 24  # offset in struct tcp_info: the length of a listening socket's accept queue
_HANDSHAKES_S = 0.2  # connections whose last ACK is on its way
_ACCEPT_S = 2.0  # longest time for accepting all connections that the kernel has queued
_POLL_S = 0.02


class Listener:
    """A listening port.

    The sockets never change, so no client is refused while TLS is replaced: connections that wait
    for `accept` belong to the socket, not to the server that listens on it.

    Args:
        runner: Runner of the server.
        host: Host to listen on.
        port: Port to listen on.
        shares: Whether other processes may listen on the port too.
    """

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str,
        port: int,
        *,
        shares: bool = False,
    ) -> None:
        self._runner = runner
        self._host = host
        self._port = port
        self._shares = shares
        self._sockets: list[socket.socket] = []
        self._sites: list[tuple[web.SockSite, socket.socket]] = []

    async def start(
        self, context: ssl.SSLContext | None, inherited: Sequence[socket.socket] = ()
    ) -> None:
        """Open the sockets and listen.

        Args:
            context: Context of TLS; None without TLS.
            inherited: Bound sockets to listen on; without them, it opens its own.

        Raises:
            OSError: The port cannot be opened.
        """
        addresses = [] if inherited else await addresses_of(self._host, self._port)
        with ExitStack() as opened:
            for bound in inherited:
                self._sockets.append(opened.enter_context(bound))
                _keep_new_connections(bound)
            for family, address in addresses:
                self._sockets.append(opened.enter_context(socket.socket(family)))
                bind(self._sockets[-1], address, shares=self._shares)
            self._sites = await self._listen(context)
            opened.pop_all()

    async def renew(self, context: ssl.SSLContext) -> None:
        """Use another TLS context for new connections; open connections go on."""
        before, self._sites = self._sites, await self._listen(context)
        loop = asyncio.get_running_loop()
        for _, shared in before:
            loop.remove_reader(shared)
        # asyncio hands an accepted connection to the server one turn later. If the server is closed
        # by then, asyncio drops the connection silently and the client waits forever.
        await asyncio.sleep(0)
        for site, _ in before:
            await site.stop()

    async def stop_accepting(self) -> None:
        """Stop new connections, and accept those that the kernel has queued.

        When a socket is closed, the kernel resets the connections in its accept queue. They get no
        answer and do not move to other sockets of the port (tcp_migrate_req is off by default). So
        the queue must be empty before that and must stay empty: a filter drops new SYNs. A client
        whose SYN is dropped tries again after a second. It then reaches another process that
        listens on the port, or is refused.
        """
        filtered = [_drop_new_connections(listening) for listening in self._sockets]
        if not all(filtered):
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + _ACCEPT_S
        await asyncio.sleep(_HANDSHAKES_S)
        while any(map(_has_queued, self._sockets)):
            if loop.time() > end:
                return
            await asyncio.sleep(_POLL_S)
        await asyncio.sleep(0)  # asyncio makes the transport of a connection one turn later

    def close(self) -> None:
        """Close the sockets, once the runner has stopped its sites."""
        for listening in self._sockets:
            listening.close()

    @property
    def addresses(self) -> Iterator[tuple[str, int]]:
        """Yield the addresses of the sockets."""
        for listening in self._sockets:
            yield listening.getsockname()[:2]

    async def _listen(
        self, context: ssl.SSLContext | None
    ) -> list[tuple[web.SockSite, socket.socket]]:
        sites = []
        for listening in self._sockets:
            if isinstance(context, _TlsContext):
                context.port = listening.getsockname()[1]
            shared = listening.dup()  # closed with its site
            site = web.SockSite(self._runner, shared, ssl_context=context, backlog=_BACKLOG)
            await site.start()
            sites.append((site, shared))
        return sites


async def addresses_of(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Return family and address of each socket that listens on a port. Raises OSError."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, address) for family, _, _, _, address in addresses))


def bind(opened: socket.socket, address: tuple[Any, ...], *, shares: bool) -> None:
    """Bind a socket to an address of a port, which other processes may share. Raises OSError."""
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shares:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if opened.family == socket.AF_INET6:  # the IPv4 address of the name has its own socket
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    opened.setblocking(False)
    opened.bind(address)


def _keep_new_connections(inherited: socket.socket) -> None:
    """Detach the filter that a worker has left on the socket if it stopped by itself."""
    with suppress(OSError):  # there is none
        inherited.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def _drop_new_connections(listening: socket.socket) -> bool:
    """Attach the filter to a listening socket. Return whether the system supports it."""
    program = b"".join(struct.pack("=HBBI", *step) for step in _NO_NEW_CONNECTIONS)
    steps = array("B", program)  # the kernel copies it
    pointed = struct.pack("@HP", len(_NO_NEW_CONNECTIONS), steps.buffer_info()[0])
    try:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pointed)
    except OSError:
        return False
    return True


def _has_queued(listening: socket.socket) -> bool:
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCPI_UNACKED + 4)
    return bool(struct.unpack_from("@I", info, _TCPI_UNACKED)[0])


# ---- TLS of the HTTP ports


_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_CLIENTS = {"optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_DISCARDED_BYTES = 16_777_216  # of a plain request: most clients read the response earlier
_LOG_EVERY_S = 60.0
_HOST = re.compile(
    rb"^host:[ \t]*([A-Za-z0-9._:\[\]-]{1,255})[ \t]*\r?$", re.IGNORECASE | re.MULTILINE
)


class _PlainRequests:
    """Log of plain HTTP on ports with TLS: one line a minute for the whole process."""

    def __init__(self) -> None:
        self._next_s = float("-inf")
        self._left_out = 0

    def count(self, port: int) -> None:
        """Log a connection to the port, or count it for the next line."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            self._left_out += 1
            return
        log.info(
            "a client spoke plain HTTP to port %d, which serves HTTPS; it was answered 400",
            port,
            extra={"port": port, "left_out": self._left_out},
        )
        self._next_s, self._left_out = now_s + _LOG_EVERY_S, 0


_plain_requests = _PlainRequests()


class _Handshake(ssl.SSLObject):
    """The TLS side of a connection, which answers a client that speaks plain HTTP.

    asyncio and uvloop send what the handshake leaves in the outgoing buffer, as long as the
    handshake is not complete. So the response to plain HTTP goes there, and the handshake then
    waits for data that never completes it. It ends when the client closes, or at the timeout for
    handshakes. Until then the rest of the request is discarded: closing a socket with unread data
    would destroy the response.
    """

    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO
    _port: int
    _is_tls: bool | None = None  # None before the first byte
    _discarded = 0

    def begin(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, port: int) -> None:
        """Set the buffers of the connection and the port of its socket."""
        self._incoming, self._outgoing, self._port = incoming, outgoing, port

    def do_handshake(self) -> None:
        """Continue the handshake.

        Raises:
            ssl.SSLError: It failed, or (`ssl.SSLWantReadError`) needs more data.
        """
        if self._is_tls is None and self._incoming.pending:
            received = self._incoming.read()
            self._incoming.write(received)
            # A TLS client begins with the byte 22, a method of HTTP with a capital letter.
            self._is_tls = not b"A" <= received[:1] <= b"Z"
            if not self._is_tls:
                self._outgoing.write(_answer_in_plain_text(received))
                _plain_requests.count(self._port)
        if self._is_tls is False:
            self._discarded += len(self._incoming.read())
            if self._discarded > _DISCARDED_BYTES:
                raise ssl.SSLError("the client speaks plain HTTP")
            raise ssl.SSLWantReadError("the client speaks plain HTTP")
        super().do_handshake()


def _answer_in_plain_text(received: bytes) -> bytes:
    """Return the response to a plain request. received: the beginning of the request."""
    host = _HOST.search(received)
    address = "" if host is None else host[1].decode("ascii")
    detail = f"this port speaks HTTPS, and this is plain HTTP; use https://{address}"
    request_id = secrets.token_hex(8)
    reply = problem(malformed(detail), request_id)
    head = (
        f"HTTP/1.1 {reply.status} Bad Request\r\nContent-Type: {reply.content_type}\r\n"
        f"Content-Length: {len(reply.body)}\r\nX-Request-Id: {request_id}\r\n"
        "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + reply.body


class _TlsContext(ssl.SSLContext):
    """A context whose connections answer plain HTTP. port: the port of its socket."""

    sslobject_class = _Handshake
    port = 0

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **options: Any
    ) -> ssl.SSLObject:
        """Return the TLS side of a connection."""
        made = super().wrap_bio(incoming, outgoing, *args, **options)
        if isinstance(made, _Handshake):
            made.begin(incoming, outgoing, self.port)
        return made


def server_context(http: HttpSettings) -> ssl.SSLContext | None:
    """Return the TLS context of an HTTP port; None if no certificate is configured.

    Raises:
        OSError: A file cannot be used (`ssl.SSLError` is one).
    """
    if http.tls_cert_file is None:
        return None
    default = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context = _TlsContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_flags, context.keylog_filename = default.verify_flags, default.keylog_filename
    context.minimum_version = _VERSIONS[http.tls_min_version]
    if http.tls_client_ca_file is not None:
        context.load_verify_locations(http.tls_client_ca_file)
        context.verify_mode = _CLIENTS[http.tls_client_auth]
    context.load_cert_chain(http.tls_cert_file, http.tls_key_file, password=no_password)
    return context
