"""The console of a real gateway while Kafka, Redis, its monitor and it itself are gone."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from headgate.devstack.child import Child
from support.clients.http_client import JSON, post
from support.console.browser import CHROMIUM, Seen, page
from support.console.states import routes
from support.process.stack import PATIENCE, Gateway, RunningBroker, RunningRedis, free_port

pytestmark = [  # not `kafka`, which is never skipped under CI: Chromium may not be there
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.redis,
    pytest.mark.timeout(600),
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
[monitor]
port = {monitor_port}
interval_ms = 300
patience_ms = 1000
state_file = "{state_file}"
[producers.shop]
[topics."{topic}"]
key = ["/id"]
kind = "state"
suppress = "raw"
"""
PAGE_S = 5.0  # until a page is there, whatever is gone
NO_MONITOR, WATCHED = "no monitor answers", "Limits of the monitor"
GONE = "is lost since"
SOON_MS = 30_000 * PATIENCE
PARTS = {"name": "shop", "partition": "0", "group": "billing", "id": "none"}
NOT_FOUND = {"/replays/{id}": 404, "/audits/{topic}": 404, "/audits/{topic}/compare": 404}
UNAVAILABLE = {**NOT_FOUND, "/audits/{topic}": 503, "/audits/{topic}/compare": 503}


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


async def follow_groups(seen: Seen, text: str, away: int = 0) -> None:
    """Until the open page of groups says this. away: so many clusters are, as it says."""
    await expect(seen.page.locator("#live")).to_contain_text(text, timeout=SOON_MS)
    await expect(seen.page.locator("#live .worry.bad")).to_have_count(away, timeout=SOON_MS)


async def every_page_comes(
    seen: Seen, topic: str, others: dict[str, int], state: str | None = None
) -> None:
    """One after another, soon. state: what its pictures are named after, None: there are none."""
    for path in routes("GET"):
        began = time.monotonic()
        assert await seen.open(path.format(**PARTS, topic=topic)) == others.get(path, 200), path
        assert time.monotonic() - began < PAGE_S * PATIENCE, path
        if state is not None:
            name = path.replace("/", "-").replace("{", "").replace("}", "")
            await seen.picture(f"{state}{name}-1440-light")


@pytest.fixture
def start_monitor(tmp_path: Path) -> Iterator[Callable[[Path], Child]]:
    with ExitStack() as ending:

        def start(config: Path) -> Child:
            command = [sys.executable, "-m", "headgate", "monitor", "--config", str(config)]
            child = Child("monitor", command, tmp_path / "monitor.log")
            ending.callback(child.kill)
            return child

        yield start


@pytest.mark.parametrize("gone", [paused, pytest.param(killed, marks=pytest.mark.full)])
async def test_outages_are_followed_by_open_pages(
    gone: Callable[[RunningBroker], AbstractContextManager[None]],
    chromium: Browser,
    pausable: RunningBroker,
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    start_monitor: Callable[[Path], Child],
    topic_name: str,
    tmp_path: Path,
) -> None:
    broker = pausable if gone is paused else start_broker()
    broker.create_topic(topic_name)
    redis = start_redis()
    config = CONFIG.format(
        bootstrap=broker.bootstrap, redis=redis.url, topic=topic_name,
        monitor_port=free_port(), state_file=tmp_path / "state.json",
    )  # fmt: skip
    gateway = start_gateway(config)
    url = gateway.management_url
    async with (
        page(chromium, url) as first, page(chromium, url) as groups, page(chromium, url) as other,
    ):  # fmt: skip
        await groups.open("/groups")
        await follow_groups(groups, NO_MONITOR)
        monitor = start_monitor(gateway.config)
        headers = {**JSON, "Headgate-Producer": "shop"}
        assert post(gateway.port, topic_name, b'{"id": 1}', headers).status == 201
        await follow_groups(groups, WATCHED)
        await first.open("")
        await follow(first, "All is well", "up", "kafka main", "redis")
        await expect(first.page.locator("#live .worry")).to_have_count(0)
        await other.open("/producers/shop")
        await expect(other.page.locator("#live")).not_to_contain_text("malformed")
        assert post(gateway.port, topic_name, b"{", headers).status == 400
        await expect(other.page.locator("#live")).to_contain_text("malformed", timeout=SOON_MS)
        redis.kill()
        with gone(broker):
            await follow(first, "Down", "down", "kafka main", "redis")
            worries = first.page.locator("#live .worry.bad")
            await expect(worries.first).to_contain_text("The gateway accepts no events")
            await expect(worries.nth(1).locator("a")).to_have_attribute(
                "href", "/console/log?q=kafka+main"
            )
            await every_page_comes(other, topic_name, UNAVAILABLE, "outage")
            if gone is killed:  # one that stands still is given half a minute by the monitor
                await follow_groups(groups, WATCHED, away=1)
        redis.restart()
        await follow(first, "All is well", "up", "kafka main", "redis")
        await follow_groups(groups, WATCHED)
        await every_page_comes(other, topic_name, NOT_FOUND)
        monitor.kill()
        await follow_groups(groups, NO_MONITOR)
        await follow(first, "Degraded", "up", "kafka main", "redis")
        await expect(first.page.locator("#live .worry.warn")).to_contain_text(NO_MONITOR)
        gateway.kill()
        said = first.page.locator("#connection")
        for one in (first, groups):
            await expect(one.page.locator("#connection")).to_contain_text(GONE, timeout=SOON_MS)
        await first.picture("gateway-gone-1440-light")
        gateway.restart()
        await expect(said).to_contain_text("Connected again since", timeout=SOON_MS)
        await follow(first, "Degraded", "up", "kafka main", "redis")
