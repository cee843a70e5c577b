"""A replay from the wizard's first field to its end: real Kafka, a real runner, a real browser."""

from __future__ import annotations

import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import pytest
from playwright.async_api import Browser, Locator, Page, expect

from support.console.browser import CHROMIUM, page
from support.kafka.kafka_log import LogRecord
from support.network.prometheus_answers import PrometheusAnswers
from support.process.stack import PATIENCE, Gateway, eventually
from support.scenarios.replay_copies import replayed, wanted
from support.scenarios.replay_world import BASE_MS, Api, ReplayRunner, Two, mirror, post

pytestmark = [  # not `kafka`, which is never skipped under CI: Chromium may not be there
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(600),
]

FROM_MS, TO_MS = BASE_MS + 600_000, BASE_MS + 2_400_000
KEYS = ("key-0", "key-3")
TEXT = "x" * 4_000  # a runner that is slow fetches 64 KiB at a time
BYTES_PER_S = 60_000
SOON_MS = 60_000 * PATIENCE
PART = re.compile(r"\b[1-9]\d?(\.\d+)? %")
# Where a moment is on the plot, by what it is drawn from.
PLACE = """(figure, at) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const box = figure.querySelector(".u-over").getBoundingClientRect();
  const span = (data.rows[0][1].length - 1) * data.step;
  return [box.x + box.width * (at / 1000 - data.start) / span, box.y + box.height / 2];
}"""


@asynccontextmanager
async def configured(two: Two) -> AsyncIterator[str]:
    """With hours of figures to brush over: a gateway that has just started has none itself."""
    async with PrometheusAnswers().running() as prometheus:
        yield two.config(f'[replays]\n[console]\nprometheus_url = "{prometheus}"\n')


async def brush(seen: Page, start_ms: int, end_ms: int) -> tuple[int, int]:
    """Drag over the chart. Returns what the form says then, in ms."""
    figure = seen.locator("#plot-brush")
    await seen.mouse.move(*await figure.evaluate(PLACE, start_ms))
    await seen.mouse.down()
    await seen.mouse.move(*await figure.evaluate(PLACE, end_ms), steps=5)
    await seen.mouse.up()
    chosen = [await seen.locator(one).input_value() for one in ("#from", "#to")]
    start, end = (round(datetime.fromisoformat(one).timestamp() * 1000) for one in chosen)
    return start, end


async def test_from_the_brush_to_the_last_record(
    chromium: Browser,
    two: Two,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
    start_runner: Callable[..., ReplayRunner],
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(0, 3_000, 99), aborted=1, text=TEXT)
    post(two, topic_name, 1, range(7, 3_000, 49), text=TEXT)
    mirror(two, topic_name)
    runner = start_runner()
    async with configured(two) as config:
        gateway = start_gateway(config)
        async with page(chromium, gateway.management_url) as seen:
            await seen.open("/replays")
            await seen.page.get_by_role("link", name="New replay").click()
            await seen.page.get_by_label("Topic", exact=True).fill(topic_name)
            await seen.page.get_by_role("button", name="Choose").click()
            start, end = await brush(seen.page, FROM_MS, TO_MS)
            assert abs(start - FROM_MS) + abs(end - TO_MS) < 120_000, "a pixel is half a minute"

            def is_in_time(one: LogRecord) -> bool:
                return start <= one.timestamp_ms < end

            def is_wanted(one: LogRecord) -> bool:
                return is_in_time(one) and one.key is not None and one.key.decode() in KEYS

            in_time = len(wanted(two, topic_name, is_in_time))
            expected = wanted(two, topic_name, is_wanted)
            assert 0 < len(expected) < in_time
            await seen.page.get_by_label("Keys").fill("\n".join(KEYS))
            await seen.page.get_by_label("topic: copy").check()
            await seen.page.get_by_label("Most bytes per second").fill(str(BYTES_PER_S))
            create = seen.page.get_by_role("button", name="Create")
            await expect(create).to_be_disabled()
            await seen.page.get_by_role("button", name="Dry run").click()
            await expect(seen.page.locator("#outcome")).to_contain_text(f"Records{in_time}")
            await seen.picture("wizard-dry-run-1440-light")
            await create.click()
            await seen.page.wait_for_url(re.compile(r"/console/replays/[0-9a-f-]{36}(#.*)?$"))
            replay = {"id": re.findall(r"[0-9a-f-]{36}", seen.page.url)[0]}
            await seen.page.evaluate("document.body.dataset.loaded = 'once'")
            await stop_halfway(Api(gateway), replay, runner)
            await expect(progress(seen.page)).to_have_text(PART, timeout=SOON_MS)
            await expect(seen.page.locator("#live .state")).to_have_text("copying")
            await seen.picture("wizard-copying-1440-light")
            runner.signal(signal.SIGCONT)
            await follow(seen.page, len(expected), in_time)
            await seen.picture("wizard-ready-1440-light")
            assert replayed(two, replay) == expected
            seen.page.once("dialog", lambda asked: asked.accept())
            await seen.page.get_by_role("button", name="Cancel for good").click()
            state = seen.page.locator("#live .state")
            await expect(state).to_have_text("cancelled", timeout=SOON_MS)
            assert seen.errors == []


async def stop_halfway(api: Api, replay: dict[str, str], runner: ReplayRunner) -> None:
    """The runner stands still while some is copied and some is not."""

    def is_halfway() -> bool:
        now = api.get(f"/v1/replays/{replay['id']}")
        return bool(0 < now["done"]["read"] < now["planned"]["records"])

    await eventually(is_halfway, 60)
    runner.signal(signal.SIGSTOP)


def progress(seen: Page) -> Locator:
    return seen.locator("#live p", has=seen.get_by_label("Progress"))


async def follow(seen: Page, copied: int, planned: int) -> None:
    """Until all is copied, by what arrives on a page that nobody loads again."""
    live = seen.locator("#live")
    await expect(live.locator(".state")).to_have_text("ready", timeout=SOON_MS)
    await expect(progress(seen)).to_have_text(re.compile("100 %"))
    await expect(live).to_contain_text(re.compile(rf"Copied\s*{copied}\s*of {planned} planned"))
    await expect(live.get_by_role("heading", name="How to consume it")).to_be_visible()
    await expect(seen.locator("body")).to_have_attribute("data-loaded", "once")
