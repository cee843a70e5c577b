"""The JavaScript client in a page of another origin: a real Chromium, gateway and Kafka."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from headgate.devstack.ports import LOOPBACK
from support.clients.node import PACKAGE, PROGRAMS
from support.console.browser import CHROMIUM, DEADLINE_MS
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port

pytestmark = [  # not `kafka`, which is never skipped under CI: Chromium may not be there
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]

CONFIG = """
[http]
cors_origins = ["{origin}"]
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."page.*"]
key = ["/id"]
"""
TOPICS = SENT, READ, GONE, CLOSED = "page.sent", "page.read", "page.gone", "page.closed"
PAGE = b"""<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,">
<script type="module">
  import * as steps from "/page.mjs";
  Object.assign(window, steps, { isReady: true });
</script>"""


class Shop(SimpleHTTPRequestHandler):
    """A page, and the client's files."""

    def do_GET(self) -> None:
        if self.path == "/":
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(PAGE)
        else:
            super().do_GET()

    def translate_path(self, path: str) -> str:
        root = PROGRAMS if path == "/page.mjs" else PACKAGE
        return str(root / path.lstrip("/"))

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def shop() -> Iterator[str]:
    """Serve the page; its origin."""
    with ThreadingHTTPServer((LOOPBACK, 0), Shop) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class World(NamedTuple):
    """origin: the page's."""

    origin: str
    gateway: Gateway
    kafka: RunningBroker

    def log(self, topic: str) -> list[LogRecord]:
        return read_log(self.kafka.bootstrap, topic)


@pytest.fixture(scope="module")
def world(
    kafka: RunningBroker, redis_server: RunningRedis, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    for topic in TOPICS:
        kafka.create_topic(topic, 3)
    with shop() as origin:
        text = CONFIG.format(origin=origin, bootstrap=kafka.bootstrap, redis=redis_server.url)
        gateway = Gateway(tmp_path_factory.mktemp("gateway"), text, (), {})
        try:
            gateway.wait()
            yield World(origin, gateway, kafka)
        finally:
            gateway.kill()


@pytest_asyncio.fixture(loop_scope="session")
async def page(chromium: Browser, world: World) -> AsyncIterator[Page]:
    """The shop's page, in a window of its own: nothing is known yet of the gateway."""
    context = await chromium.new_context()
    try:
        opened = await context.new_page()
        opened.set_default_timeout(DEADLINE_MS)
        await opened.goto(world.origin)
        await opened.wait_for_function("window.isReady")
        yield opened
    finally:
        await context.close()


async def test_what_a_page_sends_is_in_kafka(world: World, page: Page) -> None:
    outcomes = await page.evaluate("args => send(...args)", [world.gateway.url, SENT])
    assert {(one["name"], one.get("reason")) for one in outcomes} == {("published", None)}
    at = {(one.partition, one.offset): one for one in await asyncio.to_thread(world.log, SENT)}
    keys = [at.pop((one["partition"], one["offset"])).key for one in outcomes]
    sent = ["ключ '鍵'*".encode(), b"b", b"gone", b"large", *(str(n).encode() for n in range(100))]
    assert (keys, at) == (sent, {})


async def test_a_page_can_read_why_and_whether_it_is_a_repeat(world: World, page: Page) -> None:
    nobody = f"http://{LOOPBACK}:{free_port()}"
    found = await page.evaluate("args => read(...args)", [world.gateway.url, READ, nobody])
    refusal = found["refusal"]
    assert (refusal["reason"], refusal["status"]) == ("unknown_topic", 404)
    assert "nowhere" in refusal["detail"]
    assert found["twice"] == ["published", "duplicate"]
    assert found["exposed"] == [None, None, "true"]
    assert all(found["ids"]), found
    assert found["away"] == "unknown"  # a page cannot know that nothing was sent


async def goes_elsewhere(page: Page) -> None:
    await page.goto("about:blank")


async def closes(page: Page) -> None:
    await page.close(run_before_unload=True)


@pytest.mark.parametrize(("leave", "topic"), [(goes_elsewhere, GONE), (closes, CLOSED)])
async def test_what_a_page_still_has_outlives_it(
    world: World, page: Page, leave: Callable[[Page], Awaitable[None]], topic: str
) -> None:
    arguments = [world.gateway.url, topic, 100, "x" * 400]
    await page.evaluate("args => take(...args)", arguments)
    await leave(page)
    found = await eventually(lambda: asyncio.to_thread(whole, world, topic, 100))
    assert {one.key for one in found} == {str(n).encode() for n in range(100)}


def whole(world: World, topic: str, count: int) -> list[LogRecord]:
    """The log, once it has so many records."""
    log = world.log(topic)
    return log if len(log) >= count else []
