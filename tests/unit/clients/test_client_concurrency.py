"""The cost of a request does not grow with the number of requests under way."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headgate_client import AsyncClient, Published

BODY = b'{"outcome":"published","partition":0,"offset":1,"event_id":"a","records":1}'
HEAD = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
ANSWER = HEAD % len(BODY) + BODY


class Slow(asyncio.Protocol):
    """Answers each request after 20 ms."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):  # the end of the body
            loop = asyncio.get_running_loop()
            loop.call_later(0.02, self._transport.write, ANSWER)


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Counts the calls of Python functions: unlike time, noise does not change them much."""
    calls = [0]

    def count(_frame: Any, event: str, _argument: Any) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


async def calls_of_an_event(at_once: int) -> float:
    server = await asyncio.get_running_loop().create_server(Slow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    events = 2 * at_once
    async with AsyncClient(f"http://127.0.0.1:{port}") as client:
        gate = asyncio.Semaphore(at_once)

        async def send(number: int) -> None:
            async with gate:
                assert isinstance(await client.send("orders", {"n": number}, key="a"), Published)

        with counted_calls() as calls:
            await asyncio.gather(*map(send, range(events)))
    server.close()
    return calls[0] / events


async def test_many_requests_at_once_cost_as_much_each_as_a_few() -> None:
    few, many = await calls_of_an_event(8), await calls_of_an_event(160)
    assert many < 1.5 * few
