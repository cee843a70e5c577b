"""The console of a real gateway while Kafka and Redis, and then the gateway itself, are gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from playwright.async_api import Browser, expect

from support.clients.http_client import JSON, post
from support.console.browser import CHROMIUM, Seen, page
from support.console.states import routes
from support.process.stack import PATIENCE, Gateway, RunningBroker, RunningRedis

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.kafka,
    pytest.mark.redis,
]

CONFIG = """
[http]
request_timeout_ms = 1000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 3000
lane_stall_ms = 2000
metadata_refresh_ms = 300
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 1
[producers.shop]
[topics."{topic}"]
key = ["/id"]
kind = "state"
suppress = "raw"
"""
PAGE_S = 5.0  # until a page is there, whatever is gone
SOON_MS = 30_000 * PATIENCE
PARTS = {"name": "shop", "partition": "0", "group": "billing", "id": "none"}
NOT_FOUND = {"/replays/{id}": 404, "/audits/{topic}": 404}
UNAVAILABLE = {**NOT_FOUND, "/audits/{topic}": 503}


@contextmanager
def paused(broker: RunningBroker) -> Iterator[None]:
    """Its sockets stay open, and nothing answers."""
    broker.pause()
    yield
    broker.resume()
    broker.wait()


@contextmanager
def killed(broker: RunningBroker) -> Iterator[None]:
    """Nobody listens."""
    broker.kill()
    yield
    broker.restart()


async def follow(seen: Seen, verdict: str, state: str, *names: str) -> None:
    """Until the open page, which nobody loads again, says how it is and since when."""
    await expect(seen.page.locator("#is-it-well")).to_have_text(verdict, timeout=SOON_MS)
    for name in names:
        row = seen.page.locator(
            "#live tr", has=seen.page.get_by_role("rowheader", name=name, exact=True)
        )
        await expect(row).to_contain_text(state, timeout=SOON_MS)
        await expect(row.locator("time")).to_have_count(1)


async def every_page_comes(seen: Seen, topic: str, state: str, others: dict[str, int]) -> None:
    """One after another, soon, and under the name of its state among the pictures."""
    for path in routes("GET"):
        began = time.monotonic()
        assert await seen.open(path.format(**PARTS, topic=topic)) == others.get(path, 200), path
        assert time.monotonic() - began < PAGE_S * PATIENCE, path
        name = path.replace("/", "-").replace("{", "").replace("}", "")
        await seen.picture(f"{state}{name}-1440-light")


@pytest.mark.parametrize("gone", [paused, pytest.param(killed, marks=pytest.mark.full)])
async def test_outages_are_followed_by_open_pages(
    gone: Callable[[RunningBroker], AbstractContextManager[None]],
    chromium: Browser,
    pausable: RunningBroker,
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    broker = pausable if gone is paused else start_broker()
    broker.create_topic(topic_name)
    redis = start_redis()
    config = CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url, topic=topic_name)
    gateway = start_gateway(config)
    url = gateway.management_url
    async with page(chromium, url) as first, page(chromium, url) as other:
        headers = {**JSON, "Headgate-Producer": "shop"}
        assert post(gateway.port, topic_name, b'{"id": 1}', headers).status == 201
        await first.open("")
        await follow(first, "All is well", "up", "kafka main", "redis")
        redis.kill()
        with gone(broker):
            await follow(first, "Not well", "down", "kafka main", "redis")
            await every_page_comes(other, topic_name, "outage", UNAVAILABLE)
        redis.restart()
        await follow(first, "All is well", "up", "kafka main", "redis")
        await every_page_comes(other, topic_name, "back", NOT_FOUND)
        gateway.kill()
        said = first.page.locator("#connection")
        await expect(said).to_contain_text("is lost since", timeout=SOON_MS)
        await first.picture("gateway-gone-1440-light")
        gateway.restart()
        await expect(said).to_contain_text("Connected again since", timeout=SOON_MS)
        await follow(first, "All is well", "up", "kafka main", "redis")
