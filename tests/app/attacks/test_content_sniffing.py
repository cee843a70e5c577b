"""No answer of any port is guessed at by a browser: each has X-Content-Type-Options: nosniff."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from headgate.admin.app import management_app
from headgate.config.settings import Settings
from headgate.devstack.ports import LOOPBACK
from support.attacks.targets import management_pages
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import data_port

NOSNIFF = b"x-content-type-options: nosniff"
HOST = b"Host: x\r\n"
POST = b"POST /v1/topics/orders/events HTTP/1.1\r\n" + HOST
BODY = b"Content-Length: 8\r\n"
DATA = {
    "a plain post": POST + BODY + b"\r\n" + b'{"id":1}',
    "the same head again": (POST + BODY + b"\r\n" + b'{"id":1}') * 3,
    "a post that is refused": POST + BODY + b"\r\n" + b"nonsense",
    "another encoding": POST + BODY + b"Content-Encoding: identity\r\n\r\n" + b'{"id":1}',
    "an unknown encoding": POST + BODY + b"Content-Encoding: br\r\n\r\n" + b'{"id":1}',
    "chunks": POST + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"id":1}\r\n0\r\n\r\n',
    "an expectation": POST + BODY + b'Expect: 100-continue\r\n\r\n{"id":1}',
    "another expectation": POST + BODY + b'Expect: nothing\r\n\r\n{"id":1}',
    "two lengths": POST + b"Content-Length: 9\r\n" + BODY + b"\r\n" + b'{"id":1}',
    "no host": b"GET /live HTTP/1.1\r\n\r\n",
    "nonsense": b"\x00\x01\r\n\r\n",
    "a long header": POST + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
    "another method": b"DELETE /live HTTP/1.1\r\n" + HOST + b"\r\n",
    "OPTIONS": b"OPTIONS /v1/topics/orders/events HTTP/1.1\r\n" + HOST + b"Origin: http://a\r\n\r\n",
    "HTTP/1.0": b"GET /live HTTP/1.0\r\n" + HOST + b"\r\n",
    "an upgrade": b"GET /live HTTP/1.1\r\n" + HOST + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    "records": b"POST /v3/clusters/c-1/topics/orders/records HTTP/1.1\r\n" + HOST
    + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "v2": b"POST /topics/orders HTTP/1.1\r\n" + HOST + BODY + b"\r\n" + b'{"id":1}',
    **{
        f"{method} {path}": f"{method} {path} HTTP/1.1\r\n".encode() + HOST + b"\r\n"
        for method in ("GET", "HEAD")
        for path in (
            "/live", "/ready", "/problems", "/problems/malformed", "/openapi.json", "/docs",
            "/docs/none", "/none", "/topics", "/v3/clusters", "/v1/topics/orders/events",
        )
    },
}  # fmt: skip


async def answers(port: int, data: bytes) -> list[bytes]:
    """The heads of the answers, in lower case, without those that only say `go on`."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        try:
            last = b"GET /live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            writer.write(data + last)
            read = await reader.read()
        except ConnectionResetError:
            read = b""
        finally:
            writer.close()
    # Problem documents name HTTP/1.1, too, but no status behind it.
    heads = re.findall(rb"HTTP/1\.[01] (?!100)\d{3} .*?\r\n\r\n", read, re.DOTALL)
    return [head.lower() for head in heads]


def unguarded(heads: Iterable[bytes]) -> list[bytes]:
    return [head for head in heads if head.split(b"\r\n").count(NOSNIFF) != 1]


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
async def test_content_sniffing_of_the_data_port(data: bytes) -> None:
    async with data_port() as port:
        heads = await answers(port.port, data)
    assert heads
    assert unguarded(heads) == []


@pytest.mark.parametrize("kind", ["management", "one"])
async def test_content_sniffing_of_every_page(kind: str, tmp_path: Path) -> None:
    settings = Settings(topics=TOPICS)
    app = management_app(admin_of(FakeInstance(settings)))
    routes = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None
    }
    assert len(routes) > 50
    async with management_pages(app, kind, tmp_path, settings.http) as port:
        for method, canonical in sorted(routes):
            path = canonical.replace("{", "").replace("}", "")
            heads = await answers(port, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert heads, (method, path)
            assert unguarded(heads) == [], (method, path)
        for name, data in DATA.items():
            assert unguarded(await answers(port, data)) == [], name
