"""What an event in a batch costs before any code of ours runs: libraries and sockets alone.

    python loadtest/micro/floor.py --yardstick 28.6

A published event of an NDJSON request of 50 is received, checked, digested, reserved in Redis,
encoded, compressed, sent and answered. This adds up what the C code for that takes, in tight loops
with hot caches and ready arguments: parsing by aiohttp, msgspec and hiredis, blake2b, aiokafka's
encoder with zstd, orjson, and the bytes through loopback sockets. No objects for events, no event
loop, no lanes, no figures, no error is looked for. So no design on these libraries comes below it.
Answers go without orjson (`model/reply.py`), and the compiled gateway does without msgspec and
blake2b (`native/_scanner.c`; `pieces.py` has its figure) and aiokafka's encoder and checksum
(`native/_records.c`).

--yardstick: processor time of a batched event of the yardstick (`loadtest/run.py pairs --case
ndjson-published` on the same machine), to show the sum as a ratio. Prints Markdown.
"""

import argparse
import asyncio
import socket
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, cast

import hiredis
import orjson
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from aiokafka.record.default_records import DefaultRecordBatchBuilder

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from headgate.formats.decode import decode
from headgate.formats.json_text import KeyReader
from headgate.kafka.producer import keep_zstd
from headgate.model.content import Digester
from headgate.model.keys import KeyRule
from headgate.native.chosen import packed
from micro.pieces import each, microseconds
from wire import CONTENT_TYPES, encode
from workload import Shape, events

EVENTS = 50
_ZSTD = 4
_HEADERS = [
    ("content-type", b"application/json"),
    ("hg-event-id", b"0" * 36),
    ("hg-producer", b"loadtest"),
    ("hg-received-at", b"1700000000000"),
]


class Loopback:
    """One TCP connection of this process with itself."""

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self._near = socket.create_connection(server.getsockname())
            self._far, _ = server.accept()
        for one in (self._near, self._far):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        self._near.close()
        self._far.close()

    def carry(self, data: bytes) -> None:
        """Send and receive it. The gateway has one end of each connection only: half of this."""
        self._near.sendall(data)
        left = len(data)
        while left:
            left -= len(self._far.recv(262_144))


def batch(values: list[bytes], keys: list[bytes]) -> bytes:
    """As a lane's batch: encoded, compressed, with its checksum."""
    builder: Any = DefaultRecordBatchBuilder(
        2, _ZSTD, is_transactional=0, producer_id=1, producer_epoch=0, base_sequence=0,
        batch_size=1_000_000,
    )  # fmt: skip
    append = builder.append
    for offset, value in enumerate(values):
        append(offset, 1_700_000_000_000, keys[offset], value, _HEADERS)
    return bytes(builder.build())


def parsed(request: bytes, loop: asyncio.AbstractEventLoop) -> None:
    """The request, by aiohttp's parser."""
    parser = HttpRequestParser(BaseProtocol(loop), loop, 65_536)
    parser.feed_data(request)


def read_reply(reply: bytes) -> object:
    reader = hiredis.Reader()
    reader.feed(reply)
    return reader.gets()


def pieces(
    wire: Loopback, loop: asyncio.AbstractEventLoop
) -> list[tuple[str, Callable[[], object], float]]:
    """(name, what is called, events a call)."""
    values = list(islice(events(Shape()), EVENTS))
    keys = [cast(str, orjson.loads(value)["id"]).encode() for value in values]
    body = encode(values, "ndjson")
    head = b"POST /v1/topics/bench/events HTTP/1.1\r\nHost: localhost:8080\r\n"
    head += b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(body)
    shown = {"outcome": "published", "topic": "bench", "partition": 3, "offset": 1_000_000}
    shown |= {"key": keys[0].decode(), "event_id": "0" * 36, "records": 1}
    answer = {"summary": {"published": EVENTS}, "outcomes": [shown] * EVENTS}
    entry = b"headgate:" + b"0" * 32 + b":6:" + b"0" * 32 + b":k:" + keys[0]
    command = [entry] * EVENTS + [b"r" + b"0" * 70] * EVENTS  # reserve, and the last settlement
    call, reply = packed(b"EVALSHA", command), b"*%d\r\n" % EVENTS + b":-2\r\n" * EVENTS
    record_batch = batch(values, keys)
    read_key, digester = KeyReader(KeyRule.parse(["/id"])), Digester(b"fingerprint")
    headers = {b"content-type": CONTENT_TYPES["ndjson"]}

    def carried() -> None:
        for data in (head + body, orjson.dumps(answer), record_batch, call, reply):
            wire.carry(data)

    return [
        ("request parsed (aiohttp)", lambda: parsed(head + body, loop), EVENTS),
        ("UTF-8 checked, cut at line ends", lambda: decode(body, headers), EVENTS),
        (
            "brackets counted",
            each(lambda one: one.count(b"{") + one.count(b"["), values),
            EVENTS,
        ),
        ("JSON checked, key read (msgspec)", each(read_key, values), EVENTS),
        ("digest (blake2b)", each(digester.digest, values), EVENTS),
        ("Redis call joined", lambda: b"".join(command), EVENTS),
        ("Redis reply read (hiredis)", lambda: read_reply(reply), EVENTS),
        ("records encoded, zstd, checksum (aiokafka)", lambda: batch(values, keys), EVENTS),
        ("answer (orjson)", lambda: orjson.dumps(answer), EVENTS),
        ("sockets, one end of each", carried, 2 * EVENTS),
    ]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--yardstick", type=float, help="us/event of the yardstick's batches")
    yardstick = options.parse_args().yardstick
    keep_zstd()
    wire, loop = Loopback(), asyncio.new_event_loop()
    sys.stdout.write("| piece | us/event |\n| --- | --- |\n")
    total = 0.0
    for name, call, per_call in pieces(wire, loop):
        spent = microseconds(call, cast(int, per_call))
        total += spent
        sys.stdout.write(f"| {name} | {spent:.2f} |\n")
    ratio = f", {total / yardstick:.2f} of the yardstick's" if yardstick else ""
    sys.stdout.write(f"| together | {total:.2f}{ratio} |\n")
    wire.close()
    loop.close()


if __name__ == "__main__":
    main()
