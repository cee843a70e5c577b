"""What the console's scripts do for a reader: live figures, times, colours, keyboard, brushing."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from headgate.config.settings import ProducerSettings, Settings
from headgate.model.outcome import Outcome, OutcomeName
from headgate.model.policy import TopicPolicy
from support.console import world
from support.console.browser import CHROMIUM, page, served
from support.console.replays import some_replays
from support.console.world import ConsoleInstance

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def instance() -> ConsoleInstance:
    return await world.small()


@pytest_asyncio.fixture(loop_scope="session")
async def server(instance: ConsoleInstance) -> AsyncIterator[str]:
    async with served(instance, (await some_replays()).services()) as found:
        yield found


async def post_more(instance: ConsoleInstance, events: int) -> None:
    new = [Outcome(OutcomeName.PUBLISHED, 0, 0, b"%d" % key) for key in range(events)]
    instance.meter.account("shop", "orders", new, [650] * events)
    await instance.refresh()


async def test_figures_arrive_and_take_nothing_from_the_reader(
    chromium: Browser, server: str, instance: ConsoleInstance
) -> None:
    async with page(chromium, server) as seen:
        await seen.open("/producers")
        row = seen.page.locator("tr", has=seen.page.get_by_role("link", name="shop"))
        before = await row.inner_text()
        link = seen.page.get_by_role("link", name="shop")
        await link.focus()
        await post_more(instance, 60_000)
        await expect(row).not_to_have_text(before)
        await expect(row).to_contain_text("k/s")
        await expect(link).to_be_focused()  # what is focused is changed, not replaced
        assert seen.errors == []


async def test_a_plot_goes_on_without_being_drawn_again(
    chromium: Browser, server: str, instance: ConsoleInstance
) -> None:
    async with page(chromium, server) as seen:
        await seen.open("")
        await seen.page.wait_for_selector("#plot-outcomes canvas")
        await seen.page.evaluate("document.querySelector('#plot-outcomes canvas').dataset.mine = 1")
        before = await seen.page.locator("#plot-outcomes .summary").inner_text()
        await post_more(instance, 60_000)
        instance.history.note(instance.history.whole._last * 10 + 20, instance.figures)
        await expect(seen.page.locator("#plot-outcomes .summary")).not_to_have_text(before)
        assert await seen.page.locator("#plot-outcomes canvas[data-mine]").count() == 1
        assert seen.errors == []


async def test_a_plot_of_one_moment_is_about_that_moment(chromium: Browser) -> None:
    """What began a minute ago had an axis of three years."""
    policies = (TopicPolicy("orders", "main", key=("/id",)),)
    instance = ConsoleInstance(Settings(producers={"shop": ProducerSettings()}, topics=policies))
    minute = time.time() // 60 * 60
    for second in (0, 10, 20):
        await post_more(instance, 100)
        instance.history.note(minute + second, instance.figures)
    async with served(instance) as server, page(chromium, server) as seen:
        await seen.open("/producers/shop")
        await seen.page.wait_for_selector("#plot-outcomes canvas")
        chart = "drawn.get('plot-outcomes').chart"
        assert await seen.page.evaluate(f"{chart}.data[0].length") == 1
        assert await seen.page.evaluate(f"{chart}.scales.x.max - {chart}.scales.x.min") <= 600
        assert seen.errors == []


async def test_updates_wait_while_they_are_paused(
    chromium: Browser, server: str, instance: ConsoleInstance
) -> None:
    async with page(chromium, server) as seen:
        await seen.open("")
        pause = seen.page.get_by_role("button", name="Pause updates")
        await pause.click()
        before = await seen.page.locator("#live").inner_text()
        note = (
            "addEventListener('htmx:sseBeforeMessage', () => { document.body.dataset.held = 1; })"
        )
        await seen.page.evaluate(note)
        await post_more(instance, 60_000)
        await expect(seen.page.locator("body")).to_have_attribute("data-held", "1")
        assert await seen.page.locator("#live").inner_text() == before
        await seen.page.get_by_role("button", name="Updates are paused").click()
        await post_more(instance, 60_000)
        await expect(seen.page.locator("#live")).not_to_have_text(before)


async def test_times_are_the_readers_and_utc_is_told(chromium: Browser, server: str) -> None:
    async with page(chromium, server, timezone_id="America/New_York", locale="en-US") as seen:
        await seen.open("/audits")
        await seen.open("/groups/billing")
        shown = seen.page.locator("time").first
        assert re.search(r"UTC$", await shown.get_attribute("title") or "")
        utc = await shown.get_attribute("datetime") or ""
        hour = (int(utc[11:13]) - 5) % 24  # in November
        assert f"{(hour - 1) % 12 + 1}:{utc[14:16]}" in await shown.inner_text()
        assert "America/New_York" in await seen.page.locator("footer").inner_text()


async def test_colours_are_kept_for_the_next_page(chromium: Browser, server: str) -> None:
    async with page(chromium, server, color_scheme="light") as seen:
        await seen.open("")
        colour = "getComputedStyle(document.body).backgroundColor"
        light = await seen.page.evaluate(colour)
        for _ in range(2):
            await seen.page.locator("#theme").click()
        await expect(seen.page.locator("#theme")).to_have_text("Theme: dark")
        dark = await seen.page.evaluate(colour)
        assert dark != light
        await seen.open("/topics")
        assert await seen.page.evaluate(colour) == dark
        assert seen.errors == []


async def test_the_keyboard_is_enough(chromium: Browser, server: str) -> None:
    async with page(chromium, server) as seen:
        await seen.open("/topics")
        await seen.page.keyboard.press("Tab")
        await expect(seen.page.get_by_text("Skip to the content")).to_be_focused()
        await seen.page.keyboard.press("Enter")
        await seen.page.keyboard.press("Tab")
        place = "document.activeElement.closest('main') !== null"
        assert await seen.page.evaluate(place)
        for _ in range(40):
            if await seen.page.evaluate("document.activeElement.textContent") == "orders":
                break
            await seen.page.keyboard.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await seen.page.evaluate(outline) == "solid"
        await seen.page.keyboard.press("Enter")
        await seen.page.wait_for_url("**/console/topics/orders")


async def test_a_time_is_chosen_by_dragging_over_the_plot(chromium: Browser, server: str) -> None:
    async with page(chromium, server) as seen:
        await seen.open("/replays/new?topic=orders")
        plot = await seen.page.locator("#plot-brush .u-over").bounding_box()
        assert plot is not None
        middle = plot["y"] + plot["height"] / 2
        await seen.page.mouse.move(plot["x"] + plot["width"] * 0.25, middle)
        await seen.page.mouse.down()
        await seen.page.mouse.move(plot["x"] + plot["width"] * 0.75, middle, steps=5)
        await seen.page.mouse.up()
        start = await seen.page.locator("#from").input_value()
        end = await seen.page.locator("#to").input_value()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", start)
        assert start < end
        await expect(seen.page.locator("#from-shown")).not_to_be_empty()
        await seen.page.get_by_role("button", name="Dry run").click()
        await expect(seen.page.locator("#outcome")).to_contain_text("20,000")
        await expect(seen.page.locator("#from")).to_have_value(start)
        await seen.picture("dry-run-1440-light")
        await seen.page.get_by_role("button", name="Create").click()
        await seen.page.wait_for_url(re.compile(r"/console/replays/[0-9a-f-]{36}(#.*)?$"))
        await expect(seen.page.locator("main")).to_contain_text(start)
        assert seen.errors == []


async def test_texts_are_copied(chromium: Browser, server: str) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    async with page(chromium, server, permissions=permissions) as seen:
        await seen.open("/producers/shop")
        await seen.page.locator("#tell ~ .copy .copier").click()
        await expect(seen.page.locator("#tell ~ .copy .copier")).to_have_text("Copied")
        text = await seen.page.evaluate("navigator.clipboard.readText()")
        assert text.startswith("Producer shop, as Headgate sees it:")


async def test_what_needs_no_script_works_without(chromium: Browser, server: str) -> None:
    async with page(chromium, server, java_script_enabled=False) as seen:
        await seen.page.goto(f"{server}console/producers")
        await seen.page.get_by_label("Search by name").fill("sho")
        await seen.page.get_by_role("button", name="Search").click()
        await seen.page.get_by_role("link", name="shop").click()
        assert "UTC" in await seen.page.locator("time").first.inner_text()
