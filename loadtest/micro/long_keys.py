"""How long one long key holds up the event loop of a worker, and what its answer weighs.

    PYTHONPATH=gateway:tests .venv/bin/python loadtest/micro/long_keys.py [MEGABYTES ...]

A data port with real sockets and the real pipeline, lanes in memory. A probe wakes up each
millisecond; its longest delay while a request is read and answered is the stall. Prints Markdown.
"""

import asyncio
import sys
import time
from collections.abc import Mapping

from support.gateway.data_plane_world import DataPort, data_port

MEGABYTE = 1_000_000
V2 = "application/vnd.kafka.json.v2+json"
JSON = {"Content-Type": "application/json"}


def requests(key: bytes) -> dict[str, tuple[str, Mapping[str, str | bytes], bytes]]:
    """Path, headers and body of each way in which a key comes in a body."""
    events, v2 = "/v1/topics/orders/events", "/topics/orders"
    v3 = "/v3/clusters/c-1/topics/orders/records"
    envelope = {"Content-Type": "application/vnd.headgate.batch+json"}
    cloud = {"Content-Type": "application/cloudevents+json"}
    about = b'"specversion":"1.0","id":"1","source":"s","type":"t"'
    record = b'{"records":[{"key":"%s","value":{"id":"%s"}}]}'
    return {
        "pointer": (events, JSON, b'{"id":"%s"}' % key),
        "envelope": (events, envelope, b'{"events":[{"key":"%s","value":{"id":1}}]}' % key),
        "CloudEvent": (events, cloud, b'{%s,"partitionkey":"%s","data":{"id":1}}' % (about, key)),
        "Confluent v2": (v2, {"Content-Type": V2}, record % (key, b"1")),
        "Confluent v3": (v3, JSON, b'{"key":{"type":"STRING","data":"%s"}}' % key),
    }


async def stall_of(
    port: DataPort, path: str, headers: Mapping[str, str | bytes], body: bytes
) -> tuple[int, int, float]:
    """The status, the bytes of the answer, and the longest delay in seconds."""
    longest, is_over = 0.0, False

    async def probe() -> None:
        nonlocal longest
        before = time.perf_counter()
        while not is_over:
            await asyncio.sleep(0.001)
            now = time.perf_counter()
            longest, before = max(longest, now - before), now

    watching = asyncio.create_task(probe())
    await asyncio.sleep(0.1)
    longest = 0.0
    answer = await port.ask("POST", path, headers, body)
    is_over = True
    await watching
    return answer.status, len(answer.body), longest


async def main() -> None:
    sizes = [int(given) for given in sys.argv[1:]] or [3, 16]
    say = sys.stdout.write
    say("| way | MB | status | bytes of the answer | stall, ms |\n|---|---|---|---|---|\n")
    async with data_port() as port:
        port.room.admission.max_bytes = 1 << 30
        for size in sizes:
            for way, (path, headers, body) in requests(b"k" * (size * MEGABYTE - 1000)).items():
                found = [await stall_of(port, path, headers, body) for _ in range(3)]
                status, length, stall = min(found, key=lambda one: one[2])
                say(f"| {way} | {size} | {status} | {length} | {stall * 1000:.0f} |\n")


asyncio.run(main())
