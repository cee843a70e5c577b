"""Heads that are known by their bytes: no request is read otherwise than aiohttp reads it."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
from aiohttp import web

from headgate.http.answer import response_to
from headgate.http.auth import Peer
from headgate.http.connection import Framed, KnownHeads, PlainHead, PlainPosts, on_the_wire
from headgate.http.request_log import RequestLog
from headgate.http.server import HttpServer
from headgate.model.publish import Ticket
from headgate.model.reply import JSON, Reply
from headgate.model.request import NO_OPTIONS, read_options
from headgate.native.chosen import framed as frame

HEAD = b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"


def framed(data: bytes) -> Framed:
    found = frame(data)
    assert found is not None
    return found


def test_where_a_request_lies() -> None:
    found = framed(HEAD + b"X-Request-Id: a\r\n\r\nbodymore")
    _, own, start, end = found
    assert (start, end) == (len(HEAD) + 19, len(HEAD) + 23)
    assert own == {b"x-request-id": b"a"}


def test_only_values_that_are_its_own_may_differ() -> None:
    known, headers = KnownHeads(), {b"host": b"x", b"content-length": b"4", b"traceparent": b"a"}
    known.learn(framed(HEAD + b"traceparent: a\r\n\r\n"), "orders", headers)
    other = HEAD.replace(b"4", b"12345") + b"traceparent: b\r\n\r\n"
    found = known.find(framed(other))
    assert found is not None
    assert (found.topic, found.options) == ("orders", None)
    assert found.headers == {b"host": b"x", b"traceparent": b"b"}
    for change in ((b"Host: x", b"Host: y"), (b"trace", b"Trace"), (b"orders", b"order2")):
        assert known.find(framed(other.replace(*change))) is None


@pytest.mark.parametrize(
    "line",
    [
        b"Headgate-Force: true",
        b"Headgate-Force: perhaps",
        b"Headgate-Header-A: b",
        b"Prefer: return=minimal",
        b"Headgate-Key: a",
        b"Headgate-Event-Id: a",
        b"Headgate-Timestamp: 1",
        b"traceparent: a",
        b"tracestate: a=b",
        b"Idempotency-Key: a",
        b"X-Request-Id: a",
        b"Headgate-Nonsense: a",
    ],
)
def test_the_options_of_a_known_head_are_those_of_its_headers(line: bytes) -> None:
    data = HEAD + line + b"\r\n\r\n"
    read = PlainPosts(10).read_head(data, 8190)
    assert read is not None
    known = KnownHeads()
    known.learn(framed(data), *read)
    for value in (b"a", b"c"):
        head = known.find(framed(data.replace(b": a", b": " + value)))
        if head is not None and head.options is not None:
            assert head.options == read_options(head.headers)
    is_read = line.startswith((b"Headgate-H", b"Prefer", b"tracestate", b"Idem", b"X-"))
    head = known.find(framed(data))
    assert head is not None
    assert (head.options is not None) == (is_read or line.endswith(b": true"))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (b"Headgate-Key: a", b"Headgate-Key: "),
        (b"Headgate-Key: \r\nHeadgate-Key: a", b"Headgate-Key: a\r\nHeadgate-Key: "),
        (b"Headgate-Key: a\r\nHEADGATE-KEY: b", b"Headgate-Key: a\r\nHEADGATE-KEY: b"),
        (b"Headgate-Key: a\r\nHeadgate-Key: b c", b"Headgate-Key: a\r\nHeadgate-Key: b c"),
        (b"Headgate-Key: a", b"HEADGATE-KEY: b"),
    ],
)
async def test_the_second_is_read_as_if_it_came_alone(first: bytes, second: bytes) -> None:
    chunks = [HEAD + line + b"\r\n\r\nbody" for line in (first, second)]
    expected = await answers(chunks, [False] * 2, [True] * 2, KnownHeads(0))
    assert await answers(chunks, [False] * 2, [True] * 2, KnownHeads()) == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEAD,
        HEAD.replace(b": 4", b": 4 ") + b"\r\n",
        HEAD.replace(b": 4", b": +4") + b"\r\n",
        HEAD.replace(b": 4", b": 0x4") + b"\r\n",
        HEAD.replace(b": 4", b": 1234567890") + b"\r\n",
        HEAD.replace(b"Content-Length", b"Length") + b"\r\n",
        HEAD + b"content-length: 4\r\n\r\n",
        HEAD + b"X-Request-Id: a\r\nX-Request-Id: a\r\n\r\n",
        HEAD + b"A: " + b"a" * 4096 + b"\r\n\r\n",
    ],
)
def test_what_is_not_looked_at(data: bytes) -> None:
    assert frame(data) is None


def test_only_some_heads_are_remembered() -> None:
    known = KnownHeads()
    for number in range(2500):
        one = framed(b"A: %d" % number + HEAD + b"\r\n")
        known.learn(one, "orders", {})
        found = known.find(one)
        assert found is not None
        assert (found.topic, found.headers, found.options) == ("orders", {}, NO_OPTIONS)
    assert len(known._known) <= 1000


# ---- the same bytes over connections with and without a memory


class Front:
    """Answers each request with all that was read of it."""

    def __init__(self, heads: KnownHeads, waits: list[bool]) -> None:
        self.plain_posts = PlainPosts(1000, heads)
        self.waits = waits
        self.open: list[tuple[Ticket, bytes]] = []

    def begin(
        self,
        head: PlainHead,
        body: bytes,
        _peer: Peer,
        ended: Callable[[Ticket], None],
    ) -> bytes | None:
        read = said(head.topic, head.headers, body)
        if not self.waits.pop():
            return on_the_wire(Reply(200, JSON, (), read), "id")
        ticket = Ticket(head.topic, "shop", "id", 0.0)
        ticket.waiter = ended
        self.open.append((ticket, read))
        return None

    def finish(self, ticket: Ticket, _remote: str | None) -> bytes:
        read = next(read for one, read in self.open if one is ticket)
        return on_the_wire(Reply(200, JSON, (), read), "id")

    def end(self) -> None:
        for ticket, _ in self.open:
            if not ticket.done:
                ticket.done = True
                assert ticket.waiter is not None
                ticket.waiter(ticket)


def said(topic: str, headers: Mapping[bytes, bytes], body: bytes) -> bytes:
    rest = sorted((name, value) for name, value in headers.items() if name != b"content-length")
    return repr((topic, rest, body)).encode()


async def handle(request: web.BaseRequest) -> web.StreamResponse:
    """The ordinary way."""
    body = await request.read()
    headers = {name.lower(): value for name, value in request.raw_headers}
    read = said(f"{request.method} {request.path}", headers, body)
    return response_to(request, Reply(200, JSON, (), read), "id")


class Wire(asyncio.Transport):
    """What a connection has written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


async def answers(
    chunks: list[bytes],
    waits: list[bool],
    ends: list[bool],
    heads: KnownHeads,
) -> bytes:
    """What a client gets that sends these chunks. waits: which requests end only later, after one
    of the chunks where `ends` says so."""
    front = Front(heads, waits.copy())
    server = HttpServer(handle, 8190, lambda: "id", RequestLog(), cast(Any, front))
    wire = Wire()
    wire.set_protocol(server())
    wire.protocol.connection_made(wire)
    await asyncio.sleep(0)
    for chunk, is_end in zip(chunks, ends, strict=False):
        if not wire.is_closed:
            wire.protocol.data_received(chunk)
        for _ in range(24 if is_end else 0):
            front.end()
            await asyncio.sleep(0)
    for _ in range(30 * len(chunks)):
        front.end()
        await asyncio.sleep(0)
    wire.protocol.connection_lost(None)
    await server.shutdown(1.0)
    lines = wire.written.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"Date: "))


LINES = (
    [b"Host: x"] * 12
    + [b"Content-Length: %d", b"content-length: %d"] * 8
    + [b"Content-Type: application/json", b"X-Request-Id: %d", b"Headgate-Key: %d", b"A: b"] * 2
    + [b"Content-Length:%d", b"CONTENT-LENGTH: %d", b"Content-Length : %d", b"Content-Length: %d "]
    + [b"Transfer-Encoding: chunked", b"Connection: close", b"Connection: keep-alive"]
    + [b"Connection: Upgrade", b"Upgrade: websocket", b"Expect: 100-continue", b"Origin: x"]
    + [b" folded", b"A:\tb", b"A: b\x00", b"A: \xff", b"A", b": b", b"A: b\nC: d", b"\r"]
    + [b"Headgate-Key: \xc3\xa9", b"Headgate-Key:", b"Idempotency-Key: %d", b"traceparent: %d"]
)
OWN = [b"Headgate-Key: %d", b"X-Request-Id: %d", b"traceparent: %d", b"A: b"]
STARTS = (
    [b"POST /v1/topics/orders/events HTTP/1.1"] * 12
    + [b"POST /v1/topics/a%2Eb/events HTTP/1.1", b"POST /v1/topics/orders/events?x=1 HTTP/1.1"]
    + [b"POST /v1/topics/orders/events HTTP/1.0", b"GET /v1/topics/orders/events HTTP/1.1"]
    + [b"POST  /v1/topics/orders/events HTTP/1.1", b"post /v1/topics/orders/events HTTP/1.1"]
    + [b"CONNECT x:1 HTTP/1.1", b"POST http://x/v1/topics/orders/events HTTP/1.1"]
)


def lines_of(some: random.Random) -> list[bytes]:
    """Most have what a request needs."""
    if some.random() < 0.6:
        return [
            STARTS[0],
            b"Host: x",
            b"Content-Length: %d",
            *some.sample(OWN, k=some.randint(0, 2)),
        ]
    lines = [some.choice(STARTS), b"Host: x", b"Content-Length: %d"]
    lines += some.choices(LINES, k=some.choice([0, 0, 0, 1, 2, 4]))
    if some.random() < 0.1:
        lines.remove(some.choice(lines))
    if some.random() < 0.3:
        rest = lines[1:]
        some.shuffle(rest)
        lines[1:] = rest
    return lines


def conversation(some: random.Random) -> list[bytes]:
    """Requests of few kinds, most of them one in each chunk."""
    kinds = [lines_of(some) for _ in range(some.choice([1, 1, 2, 3]))]
    requests: list[bytes] = []
    for _ in range(some.randint(4, 20)):
        smuggled = some.choice(requests) if requests else b"x" * 1200
        body = some.choice([b"", b"{}", b"ab" * 5, b"POST / HTTP/1.1\r\n\r\n", smuggled])
        length = len(body) + (some.random() < 0.03)
        lines = [line.replace(b"%d", b"%d" % length) for line in some.choice(kinds)]
        requests.append(b"\r\n".join(lines) + b"\r\n\r\n" + body)
    way = some.random()
    if way < 0.5:
        return requests
    if way < 0.7:  # cut where requests, and those within bodies, begin and end
        return [
            part for one in requests for part in re.split(rb"(?<=\r\n\r\n)|(?=POST)", one) if part
        ]
    data, chunks = b"".join(requests), list[bytes]()
    while data:
        size = some.choice([len(requests[0]), 1, 40, 200, 3000, some.randint(1, 500)])
        chunks.append(data[:size])
        data = data[size:]
    return chunks


async def test_a_body_that_comes_in_parts_may_look_like_requests() -> None:
    known = HEAD.replace(b"4", b"2") + b"\r\n{}"
    head = HEAD.replace(b"4", b"%d" % (3 * len(known))) + b"\r\n"
    chunks = [known, known, head, known, known, known, known]
    heads, waits, ends = KnownHeads(), [False] * 9, [True] * 9
    answer = await answers(chunks, waits, ends, heads)
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert answer.count(repr(known * 3)[2:-1].encode()) == 1
    assert heads.hits == 4  # the second, the third before and behind its body, and the last


@pytest.mark.parametrize("seed", range(10))
async def test_the_answers_are_the_same(seed: int) -> None:
    some, hits = random.Random(seed), 0
    for _ in range(30):
        chunks = conversation(some)
        waits = [some.random() < 0.3 for _ in range(500)]
        promptness = some.choice([0.5, 1.0])
        ends = [some.random() < promptness for _ in range(5000)]
        known = KnownHeads()
        expected = await answers(chunks, waits, ends, KnownHeads(0))
        assert await answers(chunks, waits, ends, known) == expected
        hits += known.hits
    assert hits > 30
