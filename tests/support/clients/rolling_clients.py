"""Clients that keep their connections, and follow `/ready` and `Connection: close`."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import JSON, events_path, exchange, request_bytes
from support.process.stack import Gateway

_POLL_EVERY_S = 0.1
_FRESH_S = 0.5  # what was seen of a gateway that long ago is not relied on
_PAUSES_S = (0.0, 0.0, 0.02, 0.2)  # between a client's requests
_WAIT_S = 60.0


class RollingClients:
    """counts: `answered`, `sent away` (told to close), `draining` (503), `not there` (no connection
    could be made). broken: what went wrong with a connection, and at which gateway.
    """

    def __init__(self, gateways: Sequence[Gateway], topic: str, clients: int) -> None:
        self._gateways = {gateway.port: gateway for gateway in gateways}
        self._path = events_path(topic)
        self._clients = clients
        self._seen_ready: dict[int, float] = {}
        self._numbers = itertools.count()
        self._is_stopping = False
        self.counts: Counter[str] = Counter()
        self.answered: Counter[int] = Counter()
        self.broken: list[str] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[RollingClients]:
        """Send within the block. At its end every request has its answer."""
        polling = [asyncio.create_task(self._poll(port)) for port in self._gateways]
        clients = [asyncio.create_task(self._send()) for _ in range(self._clients)]
        try:
            yield self
        finally:
            self._is_stopping = True
            await asyncio.gather(*clients)
            for task in polling:
                task.cancel()
            await asyncio.wait(polling)

    async def _poll(self, port: int) -> None:
        """As a load balancer does."""
        management = self._gateways[port].management_port
        while True:
            asked = _now()
            try:
                answer = await asyncio.to_thread(exchange, management, "GET", "/ready")
                is_ready = answer.status == 200
            except Exception:
                is_ready = False
            if is_ready:
                self._seen_ready[port] = asked
            else:
                self._seen_ready.pop(port, None)
            await asyncio.sleep(_POLL_EVERY_S)

    async def _send(self) -> None:
        while not self._is_stopping:
            fresh = [port for port, at in self._seen_ready.items() if _now() - at < _FRESH_S]
            if not fresh:
                await asyncio.sleep(_POLL_EVERY_S)
                continue
            port = random.choice(fresh)
            try:
                reader, writer = await asyncio.open_connection(LOOPBACK, port)
            except OSError:
                self.counts["not there"] += 1
                self._seen_ready.pop(port, None)
                continue
            try:
                await self._use(port, reader, writer)
            except (OSError, EOFError, TimeoutError) as error:
                self.broken.append(f"{port}: {error!r}")
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _use(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One event after the other, until the answer says that the connection ends.

        Or for a while, as connection pools do: else a gateway that is back would get no client.
        """
        for _ in range(random.randrange(20, 200)):
            if self._is_stopping:
                return
            body = b'{"id":%d}' % next(self._numbers)
            writer.write(request_bytes("POST", self._path, JSON, body))
            async with asyncio.timeout(_WAIT_S):
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length: ")[2].partition("\r\n")[0]
                await reader.readexactly(int(length))
            status = int(head.split(" ")[1])
            self.counts["answered" if status == 201 else "draining"] += 1
            if status not in (201, 503):
                self.broken.append(f"{port}: status {status}")
            self.answered[port] += status == 201
            if "\r\nconnection: close\r\n" in head:
                self.counts["sent away"] += 1
                return
            await asyncio.sleep(random.choice(_PAUSES_S))


def _now() -> float:
    return asyncio.get_running_loop().time()
