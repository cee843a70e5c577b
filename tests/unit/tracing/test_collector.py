"""What a collector may do to a gateway that sends it spans: nothing of it takes longer than the
timeout, and each way to end is known to the exporter."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest

from headgate.tracing.exporter import Answer, Collector, Exporter
from headgate.tracing.spans import Span, SpanKind
from support.network.accepting import accepting

TIMEOUT_S = 0.3
ENOUGH_S = 10.0  # far beyond the timeout, on a machine that is busy
SPAN = Span("POST", SpanKind.SERVER, "ab" * 16, "cd" * 8, "", "", 1, 2, {})
Behaviour = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def silent(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def drips(writer: asyncio.StreamWriter) -> None:
    for byte in b"HTTP/1.1 200 OK\r\nX: " + b"x" * 1000:
        writer.write(bytes([byte]))
        await asyncio.sleep(TIMEOUT_S / 5)


async def drips_its_body(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    for _ in range(1000):
        writer.write(b" ")
        await asyncio.sleep(TIMEOUT_S / 5)


async def resets(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def resets_halfway(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
    await writer.drain()
    writer.transport.abort()


async def speaks_something_else(writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x15\x03\x01 what?\r\n\r\n")
    writer.close()


async def never_ends(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"400\r\n" + b" " * 1024 + b"\r\n")
        await writer.drain()


def says(text: str, *pieces: bytes) -> Behaviour:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {text}\r\n".encode())
        size = sum(map(len, pieces))
        writer.write(f"Content-Length: {size}\r\nConnection: close\r\n\r\n".encode())
        for piece in pieces:
            await writer.drain()
            await asyncio.sleep(TIMEOUT_S / 10)
            writer.write(piece)
        writer.close()

    return answer


@asynccontextmanager
async def collector(behaviour: Behaviour) -> AsyncIterator[Collector]:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await behaviour(writer)
        writer.close()

    async with accepting(take) as port:
        made = Collector(f"http://127.0.0.1:{port}", {}, TIMEOUT_S)
        try:
            yield made
        finally:
            async with asyncio.timeout(ENOUGH_S):
                await made.close()


class Meter:
    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def spans(self, result: str, count: int) -> None:
        self.counted[result] += count


@pytest.mark.parametrize(
    "behaviour",
    [silent, drips, drips_its_body, resets, resets_halfway, speaks_something_else],
)
async def test_one_that_gives_no_answer_is_away_and_the_spans_wait(behaviour: Behaviour) -> None:
    async with collector(behaviour) as it:
        async with asyncio.timeout(ENOUGH_S):
            with pytest.raises((OSError, TimeoutError, aiohttp.ClientError)):
                await it.post(b"{}")
        meter = Meter()
        exporter = Exporter({}, it.post, meter.spans)
        exporter.take([SPAN])
        async with asyncio.timeout(ENOUGH_S):
            assert not await exporter._send()
            await exporter.close()
        assert +meter.counted == {"dropped": 1}


@pytest.mark.parametrize(
    ("behaviour", "answer"),
    [
        (says("200 OK", b"{", b"}"), Answer(200, b"{}")),
        (says("500 Oops"), Answer(500, b"")),
        (says("302 Found\r\nLocation: http://127.0.0.1:1/"), Answer(302, b"")),
        (says("429 Busy\r\nRetry-After: 17"), Answer(429, b"", 17.0)),
        (says("503 Busy\r\nRetry-After: Wed, 21 Oct 2026 07:28:00 GMT"), Answer(503, b"")),
        (says("503 Busy\r\nRetry-After: -5"), Answer(503, b"")),
        (says("503 Busy\r\nRetry-After: " + "9" * 400), Answer(503, b"", 999_999_999.0)),
        (never_ends, Answer(200, b" " * 4096)),
    ],
)
async def test_what_it_answers_is_read(behaviour: Behaviour, answer: Answer) -> None:
    async with collector(behaviour) as it, asyncio.timeout(ENOUGH_S):
        assert await it.post(b"{}") == answer
