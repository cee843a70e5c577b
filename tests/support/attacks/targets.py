"""Where attacks go: the data port, the management port, and both as one, in the test's process.

Each target says what it was made to do, so that a test can compare that with what was asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.http.server import PagesRunner
from headgate.supervisor.control import Forward
from headgate.supervisor.parent import management_sites
from support.gateway.admin_world import TOPICS, FakeInstance, KeptInMemory, admin_of
from support.gateway.data_plane_world import data_port

PORTS = ("data", "management", "one")
DEADLINE_S = 20.0  # a green test does not wait for it


class Target(NamedTuple):
    """A running port. line: how a request that does something begins; `name` goes into its body.

    done: the names of the requests that were carried out, in order.
    """

    port: int
    line: str
    path: str
    body: Callable[[str], bytes]
    done: Callable[[], list[str]]

    def request(self, name: str, *fields: str, body: bytes | None = None) -> bytes:
        """A good request that does something, with its length and these header lines."""
        content = self.body(name) if body is None else body
        return self.head(f"Content-Length: {len(content)}", *fields) + content

    def head(self, *fields: str) -> bytes:
        """The head of such a request, and only these lines beside what each has."""
        own = (self.line, "Host: localhost", "Content-Type: application/json")
        return "\r\n".join((*own, *fields, "", "")).encode("latin-1")


class Answers(NamedTuple):
    """What came back. statuses: of each answer.  is_closed: by the server."""

    statuses: list[int]
    is_closed: bool
    raw: bytes


def _event(name: str) -> bytes:
    return b'{"id":"%s"}' % name.encode()


def _pause(name: str) -> bytes:
    return b'{"scope":"all","reason":"%s"}' % name.encode()


@asynccontextmanager
async def target(
    kind: str, folder: Path, http: HttpSettings | None = None
) -> AsyncIterator[Target]:
    """Run one of PORTS."""
    http = http or HttpSettings()
    if kind == "data":
        async with data_port(http=http) as running:
            room = running.room

            def written() -> list[str]:
                values = [publish.record.value or b"" for publish in room.written]
                return [value.split(b'"')[3].decode() for value in values]

            path = "/v1/topics/orders/events"
            yield Target(running.port, f"POST {path} HTTP/1.1", path, _event, written)
        return
    store = KeptInMemory()

    def kept() -> list[str]:
        return [intent.reason for intent in store.groups.get("g", {})]

    app = management_app(admin_of(FakeInstance(Settings(http=http, topics=TOPICS)), store))
    line = "PUT /v1/pauses/g HTTP/1.1"
    async with management_pages(app, kind, folder, http) as port:
        yield Target(port, line, "/v1/pauses/g", _pause, kept)


@asynccontextmanager
async def management_pages(
    app: web.Application, kind: str, folder: Path, http: HttpSettings
) -> AsyncIterator[int]:
    """The pages on a port of their own (`management`), or behind a worker's (`one`)."""
    if kind == "management":
        pages = PagesRunner(app, http.header_max_bytes, 0.1, http.idle_timeout_ms / 1000)
        await pages.setup()
        try:
            await web.TCPSite(pages, "127.0.0.1", 0).start()
            yield pages.addresses[0][1]
        finally:
            await pages.cleanup()
        return
    forward, one_port = Forward(folder), dataclasses.replace(http, port=1, management_port=1)
    async with (
        management_sites(app, one_port, folder / "parent.sock"),
        data_port(others=forward, http=one_port) as front,
    ):
        try:
            yield front.port
        finally:
            await forward.close()


async def answers(
    port: int, data: bytes, *, step: int = 0, due: int = 0, quiet_s: float = DEADLINE_S
) -> Answers:
    """Send bytes as they are, and read until the server closes, or is quiet for so long.

    step: so many bytes at a time, each in a segment of its own.
    due: so many answers come for certain. They are waited for on the slowest of machines: only
    behind them does silence say something.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw, is_closed = bytearray(), False
    try:
        with suppress(TimeoutError):
            for at in range(0, len(data), step or len(data)):
                writer.write(data[at : at + (step or len(data))])
                await writer.drain()
                if step:
                    await asyncio.sleep(0)
            while not is_closed:
                is_due = due > 0 and len(_statuses(raw)) < due
                async with asyncio.timeout(DEADLINE_S if is_due else quiet_s):
                    piece = await reader.read(65_536)
                raw += piece
                is_closed = not piece
    except ConnectionError:  # closed before it has read all: what it answered may be lost
        is_closed = True
    finally:
        writer.transport.abort()
    return Answers(_statuses(raw), is_closed, bytes(raw))


def _statuses(raw: bytes | bytearray) -> list[int]:
    """Of all answers but interim ones. No body of ours looks like a status line."""
    found = [int(status) for status in re.findall(rb"HTTP/1\.[01] ([0-9]{3}) ", raw)]
    return [status for status in found if status >= 200]
