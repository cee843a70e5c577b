"""A data connection on a real socket: nothing that has arrived stays without an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from aiohttp import web

from headgate.devstack.ports import LOOPBACK
from headgate.http.answer import problem_response, response_to
from headgate.http.auth import Peer
from headgate.http.connection import PlainHead, PlainPosts, on_the_wire
from headgate.http.request_log import RequestLog
from headgate.http.server import HttpServer
from headgate.model.outcome import Refused
from headgate.model.publish import Ticket
from headgate.model.reply import JSON, Reply
from support.identity.authority import Authority
from support.process.stack import eventually

SHORT = "POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n"
LONG = "POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nOrigin: x\r\n"
PAGE = "GET /page HTTP/1.1\r\nHost: x\r\n"
BAD = b"nonsense\r\n\r\n"
WAIT_S = 10.0  # a green test does not wait for it


class Front:
    """Stands in for `EventsFront`: requests end when the test says so, or at once.

    A body `fail` is a bug at once, `late` one after the end, `wait` stays open; others are answered
    with themselves.
    """

    def __init__(self) -> None:
        self.plain_posts = PlainPosts(1000)
        self.open: list[Ticket] = []
        self.bodies: dict[int, bytes] = {}

    def begin(
        self,
        head: PlainHead,
        body: bytes,
        peer: Peer,
        ended: Callable[[Ticket], None],
    ) -> bytes | None:
        if body == b"fail":
            raise KeyError("a bug")
        if body == b"none":
            return on_the_wire(Reply(503, JSON, (), body), "id")
        ticket = Ticket(head.topic, "shop", "id", 0.0)
        self.bodies[id(ticket)] = body
        ticket.done = body != b"wait"
        self.open.append(ticket)  # kept, so that ids stay their own
        if body == b"late":
            ended(ticket)
            return None
        if ticket.done:
            return self.finish(ticket, peer.address)
        ticket.waiter = ended
        return None

    def finish(self, ticket: Ticket, remote: str | None) -> bytes:
        assert remote == LOOPBACK
        body = self.bodies[id(ticket)]
        if body == b"late":
            raise KeyError("a bug")
        return on_the_wire(Reply(200, JSON, (), body), "id")

    def end(self) -> None:
        """End what is open."""
        for ticket in self.open:
            if not ticket.done:
                ticket.done = True
                assert ticket.waiter is not None
                ticket.waiter(ticket)


class Room:
    """A server with one client. pages: what is asked for that does not take the short way."""

    def __init__(self, idle_s: float = 75.0, context: ssl.SSLContext | None = None) -> None:
        self.context = context
        self.front = Front()
        front = cast(Any, self.front)
        self.server = HttpServer(self.handle, 8190, lambda: "id", RequestLog(), front, idle_s)
        self.failure: Exception | None = None
        self.pages = asyncio.Event()
        self.pages.set()
        self.asked = 0

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked += 1
        try:
            body = await request.read()
        except Refused as refused:
            return problem_response(refused.failure, "id")
        await self.pages.wait()
        if self.failure is not None:
            raise self.failure
        return response_to(request, Reply(200, JSON, (), body or b"page"), "id")

    async def open(self, trust: ssl.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.listening = await loop.create_server(self.server, LOOPBACK, 0, ssl=self.context)
        self.reader, self.writer = await self.connect(trust)

    async def connect(
        self, trust: ssl.SSLContext | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = self.listening.sockets[0].getsockname()[1]
        return await asyncio.open_connection(LOOPBACK, port, ssl=trust)

    async def close(self) -> None:
        self.pages.set()
        self.listening.close()
        self.writer.close()
        await self.server.shutdown(1.0)

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(requests))

    async def answer(self) -> tuple[int, str, str]:
        """Status, body, and what the answer says of the connection."""
        async with asyncio.timeout(WAIT_S):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            body = await self.reader.readexactly(int(fields["Content-Length"]))
        assert head.lower().count("\r\nconnection:") == ("Connection" in fields)
        return int(head.split(" ")[1]), body.decode(), fields.get("Connection", "")

    async def is_closed(self) -> bool:
        async with asyncio.timeout(WAIT_S):
            return await self.reader.read(1) == b""

    async def until(self, is_done: Callable[[], bool]) -> None:
        await eventually(is_done, WAIT_S, 0.005)


def request(head: str, body: str = "") -> bytes:
    return f"{head}\r\n{body}".encode()


@pytest_asyncio.fixture
async def room() -> AsyncIterator[Room]:
    made = Room()
    await made.open()
    yield made
    await made.close()


def worse_than_info(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno > logging.INFO]


# ---- waiting for longer than a connection may be idle


@pytest.mark.parametrize("head", [SHORT, LONG])
async def test_a_request_may_wait_longer_than_a_connection_may_be_idle(
    head: str,
) -> None:
    room = Room(idle_s=0.1)
    await room.open()
    try:
        room.pages.clear()
        room.send(request(head, "wait"))
        await room.until(lambda: bool(room.front.open) or room.asked == 1)
        await asyncio.sleep(0.35)
        room.front.end()
        room.pages.set()
        assert await room.answer() == (200, "wait", "")
        assert await room.is_closed()  # idle for 0.1 s
    finally:
        await room.close()


# ---- one bad request behind good ones


@pytest.mark.parametrize("head", [SHORT, LONG])
@pytest.mark.parametrize("count", [1, 3, 31, 32, 33, 100])
async def test_good_requests_before_a_bad_one_are_answered(
    room: Room, head: str, count: int
) -> None:
    bodies = [f"{number:04}" for number in range(count)]
    room.send(*(request(head, body) for body in bodies), BAD)
    assert [await room.answer() for _ in bodies] == [(200, body, "") for body in bodies]
    status, text, connection = await room.answer()
    assert (status, connection) == (400, "close")
    assert '"malformed"' in text
    assert await room.is_closed()


@pytest.mark.parametrize(
    "bad",
    [
        b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"POST /v1/topics/orders/events HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        b"POST / HTTP/9.9\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA b: c\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 9000 + b"\r\n\r\n",
    ],
)
async def test_whatever_is_bad_about_it(room: Room, bad: bytes) -> None:
    room.send(request(SHORT, "wait"))
    await room.until(lambda: bool(room.front.open))
    room.send(request(SHORT, "none"), request(LONG, "more"), request(PAGE), bad)
    await asyncio.sleep(0.05)
    room.front.end()
    answers = [await room.answer() for _ in range(5)]
    assert room.asked == 2
    assert [one[:2] for one in answers[:4]] == [
        (200, "wait"),
        (503, "none"),
        (200, "more"),
        (200, "page"),
    ]
    assert answers[4][0] in (400, 431)
    assert answers[4][2] == "close"
    assert await room.is_closed()


async def test_a_body_that_breaks_off_fails_at_once(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    await room.until(lambda: room.asked == 1)
    room.send(b"zz\r\n")
    status, _, connection = await room.answer()
    assert (status, connection) == (400, "close")
    assert await room.is_closed()
    assert worse_than_info(caplog) == []


async def test_so_does_a_queued_one(room: Room) -> None:
    room.send(request(SHORT, "wait"))
    await room.until(lambda: bool(room.front.open))
    room.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
    await asyncio.sleep(0.05)
    room.send(b"zz\r\n")
    await asyncio.sleep(0.05)
    room.front.end()
    assert await room.answer() == (200, "wait", "")
    assert (await room.answer())[2] == "close"


# ---- plain posts that come in parts, and connections that go over to aiohttp


async def test_head_and_body_may_come_in_two_segments(room: Room) -> None:
    for body in ("good", "more"):
        room.send(request(SHORT))
        await asyncio.sleep(0.02)
        room.send(body.encode())
        assert await room.answer() == (200, body, "")
    assert (room.asked, len(room.server.fast.open)) == (0, 1)
    assert room.server.fast.waiting_bytes == 0


@pytest.mark.parametrize("sent", [request(SHORT, "go"), request(SHORT)[:40]])
async def test_a_request_that_stays_incomplete_goes_to_aiohttp(room: Room, sent: bytes) -> None:
    room.send(request(SHORT, "good"), sent)
    assert await room.answer() == (200, "good", "")
    await room.until(lambda: not room.server.fast.open)
    room.send(request(SHORT, "good")[len(sent) :])
    assert await room.answer() == (200, "good", "")
    assert (room.asked, room.server.fast.waiting_bytes) == (1, 0)


async def test_too_many_waiting_bytes_go_to_aiohttp_at_once(room: Room) -> None:
    room.server.fast.waiting_bytes = 16_777_216
    room.send(request(SHORT, "go"))
    await room.until(lambda: room.asked == 1)
    room.send(b"od")
    assert await room.answer() == (200, "good", "")
    assert room.server.fast.waiting_bytes == 16_777_216


async def test_a_connection_is_handed_over_once(room: Room) -> None:
    for head, body in ((SHORT, "good"), (LONG, "good"), (SHORT, "good"), (PAGE, "")) * 3:
        room.send(request(head, body))
        assert await room.answer() == (200, body or "page", "")
    assert room.asked == 11
    assert len(room.server.connections) == 1


async def test_a_connection_with_tls_is_passed_to_aiohttp(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("server")
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(pair.certificate, pair.key)
    room = Room(context=served)
    await room.open(ssl.create_default_context(cafile=str(authority.file)))
    try:
        large = "x" * 400_000
        sized = LONG.replace("4", str(len(large)))
        requests = [(SHORT, "good"), (LONG, "more"), (sized, large), (PAGE, ""), (SHORT, "last")]
        room.send(*(request(head, body) for head, body in requests * 3))
        for _, body in requests * 3:
            assert await room.answer() == (200, body or "page", "")
        assert len(room.server.connections) == 1
    finally:
        await room.close()


async def test_a_client_that_leaves_with_an_open_request(room: Room) -> None:
    room.send(request(SHORT, "wait"), request(SHORT, "good"), request(SHORT, "par")[:-1])
    await room.until(lambda: bool(room.front.open))
    room.writer.transport.abort()
    await room.until(lambda: not room.server.fast.open)
    room.front.end()
    await asyncio.sleep(0.05)
    assert len(room.front.open) == 1
    assert room.server.fast.waiting_bytes == 0


async def test_a_client_that_reads_nothing_gets_no_more_than_the_buffers_hold() -> None:
    """Nothing starts while its responses wait, and nothing more is read."""
    room = Room()
    await room.open()
    try:
        raw = room.writer.transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        cast(asyncio.ReadTransport, room.writer.transport).pause_reading()
        body = "x" * 900
        plain = request(SHORT.replace("4", "900"), body)
        count = 0
        while count < 20_000 and room.writer.transport.get_write_buffer_size() < 1_000_000:
            room.send(*[plain] * 50)
            count += 50
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        started = len(room.front.open)
        await asyncio.sleep(0.1)
        assert len(room.front.open) == started < count
        cast(asyncio.ReadTransport, room.writer.transport).resume_reading()
        for _ in range(count):
            assert await room.answer() == (200, body, "")
        assert len(room.front.open) == count
    finally:
        await room.close()


async def test_reading_pauses_behind_an_open_request(room: Room) -> None:
    room.send(request(SHORT, "wait"))
    await room.until(lambda: bool(room.front.open))
    room.send(*[request(SHORT, "good")] * 100_000)
    await asyncio.sleep(0.3)
    [fast] = cast(Any, room.server.fast.open)
    assert len(fast._buffer) < 1_000_000
    assert room.writer.transport.get_write_buffer_size() > 0
    room.front.end()
    assert await room.answer() == (200, "wait", "")
    for _ in range(100):
        assert await room.answer() == (200, "good", "")
    room.writer.transport.abort()
    await room.until(lambda: not room.server.fast.open)


async def test_an_idle_connection_is_closed_and_an_unfinished_head_does_not_keep_it() -> None:
    room = Room(idle_s=0.3)
    await room.open()
    try:
        room.send(request(SHORT, "good"), SHORT.encode())
        assert await room.answer() == (200, "good", "")
        assert await room.is_closed()
    finally:
        await room.close()


async def test_chunks_behind_each_other_are_read_one_request_at_a_time(room: Room) -> None:
    chunked = PAGE.replace("GET", "POST") + "Transfer-Encoding: chunked\r\n"
    one = request(chunked, "2;a=b\r\n{}\r\n0\r\nA: b\r\n\r\n")
    room.server.is_leaving = True
    data = one * 3
    for at in range(0, len(data), 7):
        room.send(data[at : at + 7])
        await asyncio.sleep(0)
    assert [await room.answer() for _ in range(3)] == [
        (200, "{}", ""),
        (200, "{}", ""),
        (200, "{}", "close"),
    ]


# ---- a server that leaves


@pytest.mark.parametrize(("head", "body"), [(SHORT, "good"), (LONG, "good"), (PAGE, "")])
async def test_each_answer_sends_the_client_away(room: Room, head: str, body: str) -> None:
    room.send(request(head, body))
    assert (await room.answer())[2] == ""
    room.server.is_leaving = True
    room.send(request(head, body))
    assert await room.answer() == (200, body or "page", "close")
    assert await room.is_closed()


async def test_what_was_open_when_it_began_to_leave(room: Room) -> None:
    room.send(request(SHORT, "wait"))
    await room.until(lambda: bool(room.front.open))
    room.server.is_leaving = True
    room.front.end()
    assert await room.answer() == (200, "wait", "close")
    assert await room.is_closed()


async def test_refusals_send_the_client_away(room: Room) -> None:
    room.server.is_leaving = True
    room.send(request(SHORT, "none"))
    assert await room.answer() == (503, "none", "close")
    assert await room.is_closed()


async def test_of_pipelined_requests_the_last_answer_says_it(room: Room) -> None:
    room.server.is_leaving = True
    requests = [(SHORT, "aaaa"), (LONG, "bbbb"), (SHORT, "none"), (PAGE, "")] * 25
    room.send(*(request(head, body) for head, body in requests))
    answers = [await room.answer() for _ in requests]
    assert [body for _, body, _ in answers] == [body or "page" for _, body in requests]
    assert [connection for *_, connection in answers] == [""] * 99 + ["close"]
    assert await room.is_closed()


async def test_it_waits_for_what_has_arrived(room: Room) -> None:
    """On a connection that was idle until now, and for what is still open."""
    room.send(request(SHORT, "good"))
    await room.answer()
    room.server.is_leaving = True
    room.send(request(SHORT, "wait"))
    leaving = asyncio.ensure_future(room.server.answered(WAIT_S))
    await room.until(lambda: len(room.front.open) == 2)
    await asyncio.sleep(0.1)
    assert not leaving.done()
    room.front.end()
    await leaving
    assert await room.answer() == (200, "wait", "close")


async def test_it_waits_for_pages_but_not_for_idle_connections(room: Room) -> None:
    _, idle = await room.connect()
    room.pages.clear()
    room.send(request(PAGE))
    await room.until(lambda: room.asked == 1)
    leaving = asyncio.ensure_future(room.server.answered(WAIT_S))
    await asyncio.sleep(0.1)
    assert not leaving.done()
    room.pages.set()
    await leaving
    idle.close()


async def test_a_body_on_its_way_is_refused(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    """The client may send the rest of it before it reads the answer."""
    room.send(request(LONG, "ab"))
    await room.until(lambda: room.asked == 1)
    room.server.is_leaving = True
    room.server.refuse_bodies()
    await asyncio.sleep(0.05)
    room.send(b"cd")
    status, text, connection = await room.answer()
    assert (status, connection) == (503, "close")
    assert '"draining"' in text
    assert await room.is_closed()
    assert worse_than_info(caplog) == []


async def test_it_does_not_wait_for_ever(room: Room) -> None:
    room.send(request(SHORT, "wait"))
    await room.until(lambda: bool(room.front.open))
    await room.server.answered(0.05)
    assert not room.front.open[0].done


# ---- bugs, and clients that leave


@pytest.mark.parametrize(
    ("body", "failure"), [("fail", (500, "internal")), ("late", (504, "unknown"))]
)
async def test_a_bug_is_answered(
    room: Room, caplog: pytest.LogCaptureFixture, body: str, failure: tuple[int, str]
) -> None:
    room.send(request(SHORT, body))
    status, text, connection = await room.answer()
    assert connection == "close"
    assert (status, json.loads(text)["reason"]) == failure
    assert await room.is_closed()
    assert worse_than_info(caplog) != []


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_no_error(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.send(request(LONG, "abc"))
    await room.until(lambda: room.asked == 1)
    room.writer.transport.abort()
    await room.until(lambda: not room.server.connections)
    assert worse_than_info(caplog) == []


async def test_a_client_that_leaves_before_the_answer_is_no_error(
    room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.pages.clear()
    room.send(request(PAGE))
    await room.until(lambda: room.asked == 1)
    room.writer.transport.abort()
    await asyncio.sleep(0.05)
    room.pages.set()
    await room.until(lambda: not room.server.connections)
    assert worse_than_info(caplog) == []
