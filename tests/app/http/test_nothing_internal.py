"""Whatever is sent to a port, its answer names no address and no part of the gateway's making."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from headgate.admin.app import management_app
from headgate.config.settings import HttpSettings, Settings
from headgate.devstack.ports import LOOPBACK
from headgate.http.server import PagesRunner
from headgate.metrics.health import Readiness
from headgate.metrics.meter import Labels, Meter
from headgate.supervisor.coalescer_process import pages
from support.clients.http_client import Answer, Connection, request_bytes
from support.gateway.admin_world import TOPICS, FakeInstance, admin_of
from support.gateway.data_plane_world import DataPort, data_port
from support.gateway.internals import internals_of
from support.process.stack import free_port

POST = "/v1/topics/orders/events"
DEEP = b"[" * 100_000

# (what is wrong, the bytes, the status)
BAD_HTTP = [
    ("a header that is too long", request_bytes("GET", "/live", {"A": "x" * 9000}), 431),
    ("a path that is too long", request_bytes("GET", "/" + "x" * 9000, {}), 431),
    ("too many headers", request_bytes("GET", "/live", {f"A{n}": "x" for n in range(300)}), 431),
    ("no method", b"\x01\x02 / HTTP/1.1\r\n\r\n", 400),
    ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ("another version", b"GET /live HTTP/9.9\r\nHost: x\r\n\r\n", 400),
    ("a name with a space", request_bytes("GET", "/live", {"A b": "x"}), 400),
    ("a value with a NUL", request_bytes("GET", "/live", {"A": b"x\0y"}), 400),
    ("a length that is none", request_bytes("POST", POST, {}, b"", "abc"), 400),
    ("two lengths", request_bytes("POST", POST, {"Content-Length": "3"}, b"{}", "2"), 400),
    ("another encoding", request_bytes("POST", POST, {"Transfer-Encoding": "gzip"}, b"", ""), 400),
    ("an unknown path", request_bytes("GET", "/nowhere", {}), 404),
    ("an unknown method", request_bytes("PATCH", "/live", {}), 405),
]


class Site:
    """A port that is asked byte by byte."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def send(self, data: bytes) -> Answer:
        """The answer to these bytes."""

        def exchange() -> Answer:
            with Connection(self.port) as connection:
                connection.send(data)
                return connection.answer()

        return await asyncio.to_thread(exchange)


@pytest.fixture
async def data() -> AsyncIterator[DataPort]:
    async with data_port() as running:
        yield running


@pytest.fixture
async def management() -> AsyncIterator[Site]:
    app = management_app(admin_of(FakeInstance(Settings(topics=TOPICS))))
    runner = PagesRunner(app, HttpSettings().header_max_bytes, 1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield Site(runner.addresses[0][1])
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("data_sent", "status"), [one[1:] for one in BAD_HTTP], ids=[one[0] for one in BAD_HTTP]
)
async def test_bad_http(data: DataPort, management: Site, data_sent: bytes, status: int) -> None:
    for port in (data.port, management.port):
        answer = await Site(port).send(data_sent)
        assert internals_of(answer) == [], answer
        assert answer.headers["content-type"] == "application/problem+json", answer
        assert answer.document["status"] == answer.status
        if answer.status != 404:  # the management port has no path for events
            assert answer.status == status, answer
        assert len(answer.document["detail"]) < 300


async def test_a_header_that_is_too_long_is_told_by_its_limit(data: DataPort) -> None:
    answer = await Site(data.port).send(request_bytes("GET", "/live", {"A": "x" * 9000}))
    assert "http.header_max_bytes = 8190" in answer.document["detail"]


BODIES = [
    b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b"nan", b'{"id":NaN}', DEEP,
    b'{"id":' + b"9" * 5000 + b"}",
    b'{"id":"\\ud800"}', b'{"id":1} x', b"[1,", b'"x', b"null", b'{"a":1e999}',
]  # fmt: skip
TYPES = [
    "application/json", "application/x-ndjson", "application/cloudevents+json",
    "application/cloudevents-batch+json", "application/vnd.headgate.batch+json", "text/plain",
]  # fmt: skip


@pytest.mark.parametrize("content_type", TYPES)
async def test_bad_bodies(data: DataPort, content_type: str) -> None:
    for body in BODIES:
        for topic in ("orders", "deals", "clicks", "nowhere"):
            answer = await data.post(topic, body, {"Content-Type": content_type})
            assert internals_of(answer) == [], (body[:20], answer)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd", "br"])
async def test_bodies_that_do_not_decompress(data: DataPort, encoding: str) -> None:
    for body in (b"", b"x" * 100, b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd\x00"):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        assert internals_of(await data.post("orders", body, headers)) == []


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nab\r\n0\r\n\r\n", b"-1\r\n\r\n"])
async def test_malformed_chunks_are_answered_without_internals(data: DataPort, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    answer = await Site(data.port).send(request_bytes("POST", POST, headers, body, ""))
    assert answer.status == 400
    assert internals_of(answer) == [], answer


CHANGES = [
    ("POST", "/v1/replays"), ("POST", "/v1/snapshots"), ("POST", "/v1/offsets/translate"),
    ("PUT", "/v1/pauses/g"), ("DELETE", "/v1/pauses/g"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), CHANGES)
async def test_bad_bodies_of_changes(management: Site, method: str, path: str) -> None:
    for body in (*BODIES, b'{"scope":1,"reason":2}', b"9" * 5000, b'["\xff"]'):
        headers = {"Content-Type": "application/json"}
        answer = await management.send(request_bytes(method, path, headers, body))
        assert internals_of(answer) == [], (body[:20], answer)


async def test_pages_do_not_name_the_server(data: DataPort, management: Site) -> None:
    for port in (data.port, management.port):
        for path in ("/live", "/ready", "/metrics", "/problems", "/problems/malformed", "/docs",
                     "/openapi.json", "/topics", "/v3/clusters", "/v1/producers"):  # fmt: skip
            answer = await Site(port).send(request_bytes("GET", path, {}))
            assert answer.headers.get("server") in ("headgate", None), (path, answer)


@pytest.mark.parametrize("way", [{}, {"Content-Encoding": "identity"}])
async def test_answers_to_events_do_not_name_the_server(
    data: DataPort, way: dict[str, str]
) -> None:
    headers = {"Content-Type": "application/json", **way}
    answer = await data.post("orders", b'{"id":1}', headers)
    assert answer.status == 201
    assert internals_of(answer) == []


async def test_a_coalescer_of_its_own() -> None:
    meter, port = Meter(Labels({}, lambda _: False), lambda: 0.0), free_port()
    runner = pages(meter, lambda: Readiness(False, ()), HttpSettings().header_max_bytes)
    await runner.setup()
    await runner.listen(LOOPBACK, port)
    try:
        for sent in (request_bytes("GET", path, {}) for path in ("/live", "/ready", "/x")):
            assert internals_of(await Site(port).send(sent)) == []
    finally:
        await runner.cleanup()
