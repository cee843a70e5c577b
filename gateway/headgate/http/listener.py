"""Listening ports with replaceable TLS, which lose no connection when they stop."""

import asyncio
import socket
import ssl
import struct
from array import array
from collections.abc import Iterator
from contextlib import ExitStack

from aiohttp import web

from headgate.config.settings import HttpSettings

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
        self, runner: web.BaseRunner, host: str, port: int, *, shares: bool = False
    ) -> None:
        self._runner = runner
        self._host = host
        self._port = port
        self._shares = shares
        self._sockets: list[socket.socket] = []
        self._sites: list[tuple[web.SockSite, socket.socket]] = []

    async def start(self, context: ssl.SSLContext | None) -> None:
        """Open the sockets and listen.

        Raises:
            OSError: The port cannot be opened.
        """
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with ExitStack() as opened:
            for family, _, _, _, address in dict.fromkeys(addresses):
                self._sockets.append(opened.enter_context(socket.socket(family)))
                self._bind(self._sockets[-1], address)
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

    def _bind(self, opened: socket.socket, address: tuple[object, ...]) -> None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._shares:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if opened.family == socket.AF_INET6:  # the IPv4 address of the name has its own socket
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)

    async def _listen(
        self, context: ssl.SSLContext | None
    ) -> list[tuple[web.SockSite, socket.socket]]:
        sites = []
        for listening in self._sockets:
            shared = listening.dup()  # closed with its site
            site = web.SockSite(self._runner, shared, ssl_context=context, backlog=_BACKLOG)
            await site.start()
            sites.append((site, shared))
        return sites


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


def server_context(http: HttpSettings) -> ssl.SSLContext | None:
    """Return the TLS context of an HTTP port; None if no certificate is configured.

    Raises:
        OSError: A file cannot be used (`ssl.SSLError` is one).
    """
    if http.tls_cert_file is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=http.tls_client_ca_file)
    context.minimum_version = _VERSIONS[http.tls_min_version]
    if http.tls_client_ca_file is not None:
        context.verify_mode = _CLIENTS[http.tls_client_auth]
    # Without a password, OpenSSL would ask for it on the terminal.
    context.load_cert_chain(http.tls_cert_file, http.tls_key_file, password=lambda: b"-")
    return context
