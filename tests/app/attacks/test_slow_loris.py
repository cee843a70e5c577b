"""Slow clients: whatever they draw out, the connection ends after a short configured time.

Each test drips for as long as it is let, so a gateway without the limit never ends it. The limits
are fractions of a second here, and no test asks how much later than that the connection ended.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from headgate.config.settings import HttpSettings
from headgate.devstack.ports import LOOPBACK
from support.attacks.targets import PORTS, Target, target
from support.process.stack import eventually

SHORT = HttpSettings(idle_timeout_ms=300, body_timeout_ms=300)
DRIP_S = 0.02
FOR_EVER_S = 30.0
OK = b"HTTP/1.1 20"


async def drip(to: Target, start: bytes, piece: bytes) -> bytes:
    """Send a start and then piece after piece, until the server closes. What it has answered."""
    reader, writer = await asyncio.open_connection(LOOPBACK, to.port)
    answer = asyncio.ensure_future(reader.read())
    try:
        async with asyncio.timeout(FOR_EVER_S):
            writer.write(start)
            while not answer.done():
                writer.write(piece)
                await asyncio.wait([answer], timeout=DRIP_S)
            try:
                return await answer
            except ConnectionError:  # it closed while we still sent
                return b""
    finally:
        answer.cancel()
        writer.transport.abort()


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_that_sends_nothing(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path, SHORT) as to:
        assert await drip(to, b"", b"") == b""


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_the_request_line(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path, SHORT) as to:
        assert OK not in await drip(to, b"POST /", b"a")
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_headers(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path, SHORT) as to:
        start = to.head("Content-Length: 9")[:-2]
        assert OK not in await drip(to, start, b"X-A: b\r\n")
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_headers_behind_a_good_request(tmp_path: Path, kind: str) -> None:
    """On a connection that was alive already: the last answer is where its time begins."""
    async with target(kind, tmp_path, SHORT) as to:
        start = to.request("good") + to.head("Content-Length: 9")[:-2]
        answer = await drip(to, start, b"X-A: b\r\n")
        assert answer.count(OK) == 1 or answer == b""
        assert to.done() == ["good"]


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_a_body(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path, SHORT) as to:
        answer = await drip(to, to.head("Content-Length: 1000000"), b" ")
        assert b" 408 " in answer or answer == b""
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_chunks(tmp_path: Path, kind: str) -> None:
    async with target(kind, tmp_path, SHORT) as to:
        answer = await drip(to, to.head("Transfer-Encoding: chunked"), b"1\r\n \r\n")
        assert b" 408 " in answer or answer == b""
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
@pytest.mark.parametrize("drop", [b"a", b"X-A: b\r\n"], ids=["extension", "trailers"])
async def test_slow_loris_on_chunk_extensions_and_trailers(
    tmp_path: Path, kind: str, drop: bytes
) -> None:
    start = b"1;" if drop == b"a" else b"1\r\n1\r\n0\r\n"
    async with target(kind, tmp_path, SHORT) as to:
        answer = await drip(to, to.head("Transfer-Encoding: chunked") + start, drop)
        assert OK not in answer
        assert to.done() == []


@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_on_a_body_that_nobody_reads(tmp_path: Path, kind: str) -> None:
    """Refused by its head: the rest is read on for two seconds, that the client sees the answer."""
    async with target(kind, tmp_path, SHORT) as to:
        start = b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        answer = await drip(to, start, b" ")
        assert b" 404 " in answer or answer == b""


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux gives up such clients")
@pytest.mark.parametrize("kind", PORTS)
async def test_slow_loris_that_takes_no_answers(tmp_path: Path, kind: str) -> None:
    """It asks for megabytes and reads nothing: the connection is given up, with what it holds."""
    loop = asyncio.get_running_loop()
    async with target(kind, tmp_path, SHORT) as to:
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.setblocking(False)
            await loop.sock_connect(peer, (LOOPBACK, to.port))
            asking = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
            await loop.sock_sendall(peer, asking)
            await eventually(lambda: not is_open(peer))


def is_open(peer: socket.socket) -> bool:
    """Whether the other side still knows the connection: TCP's own state, without reading."""
    try:
        peer.send(b" ")
    except BlockingIOError:
        return True  # it reads no more requests, since we read no answers
    except ConnectionError:
        return False
    return True
