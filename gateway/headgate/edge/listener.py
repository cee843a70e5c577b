"""A port that is listened on, whose TLS can be replaced while it is."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack

from aiohttp import web

_BACKLOG = 4096  # at 512 connections aiohttp's default of 128 costs seconds


class Listener:
    """shares: whether other processes may listen on the port, too.

    The sockets stay the same for as long as it lasts, so no client is refused while TLS is
    replaced: what waits for `accept` belongs to the socket, not to who listens on it.
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
        """Listen. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(
            self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        with ExitStack() as opened:
            for family, _, _, _, address in dict.fromkeys(found):
                self._sockets.append(opened.enter_context(socket.socket(family)))
                self._bind(self._sockets[-1], address)
            self._sites = await self._listen(context)
            opened.pop_all()

    async def renew(self, context: ssl.SSLContext) -> None:
        """Use this for connections that come from now on; those that are open go on."""
        before, self._sites = self._sites, await self._listen(context)
        loop = asyncio.get_running_loop()
        for _, shared in before:
            loop.remove_reader(shared)
        # asyncio hands what it has accepted to the server one turn later, and drops it without a
        # word where that one is closed by then: its client would wait for ever.
        await asyncio.sleep(0)
        for site, _ in before:
            await site.stop()

    def close(self) -> None:
        """Let go of the port, once the runner has stopped its sites."""
        for one in self._sockets:
            one.close()

    @property
    def addresses(self) -> Iterator[tuple[str, int]]:
        """Where it listens."""
        for one in self._sockets:
            yield one.getsockname()[:2]

    def _bind(self, opened: socket.socket, address: tuple[object, ...]) -> None:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._shares:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if opened.family == socket.AF_INET6:  # the IPv4 one of the same name has its own socket
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.setblocking(False)
        opened.bind(address)

    async def _listen(
        self, context: ssl.SSLContext | None
    ) -> list[tuple[web.SockSite, socket.socket]]:
        sites = []
        for one in self._sockets:
            shared = one.dup()  # closed with its site
            site = web.SockSite(self._runner, shared, ssl_context=context, backlog=_BACKLOG)
            await site.start()
            sites.append((site, shared))
        return sites
