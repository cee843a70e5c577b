"""What the load generator costs by itself: posts to a server that answers without looking.

    python loadtest/micro/generator.py

It must be several times cheaper than what it measures, or it measures itself. Prints Markdown.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import orjson
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from cases.run_driver import finish, start
from plan import Plan
from wire import HEAD_END, Encoding, content_length

SECONDS = 2.0
ONE = {"outcome": "published", "topic": "t", "partition": 1, "offset": 12345, "records": 1}
BODIES = {1: ONE, 50: {"summary": {"published": 50}, "outcomes": [ONE] * 50}}


class Answering(asyncio.Protocol):
    """Answers every whole request with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]  # TCP

    def data_received(self, data: bytes) -> None:
        if self._missing == 0:
            head, _, body = data.partition(HEAD_END)
            self._missing = content_length(head.lower()) - len(body)
        else:
            self._missing -= len(data)
        if self._missing == 0:
            self._transport.write(self._answer)


async def measured(encoding: Encoding, connections: int) -> dict[str, Any]:
    body = orjson.dumps(BODIES[1 if encoding == "single" else 50])
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answering(answer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    plan = Plan(
        f"http://127.0.0.1:{port}/", encoding=encoding, connections=connections, seconds=SECONDS
    )
    try:
        return await asyncio.to_thread(lambda: finish(start(plan), plan))
    finally:
        server.close()


async def table() -> None:
    sys.stdout.write("| requests | generator us/event | events/s |\n| --- | --- | --- |\n")
    runs: tuple[tuple[Encoding, int], ...] = (("single", 64), ("ndjson", 16), ("array", 16))
    for encoding, connections in runs:
        report = await measured(encoding, connections)
        cost = report["cpu_us_per_event"]["generator"]
        sys.stdout.write(
            f"| {encoding}, {connections} connections | {cost} | {report['events_per_s']:,} |\n"
        )


def main() -> None:
    uvloop.run(table())


if __name__ == "__main__":
    main()
