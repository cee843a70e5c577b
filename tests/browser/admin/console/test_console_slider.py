"""The slider over partition counts: with the mouse, with keys, and without scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from support.console import audits, world
from support.console.browser import CHROMIUM, page, served

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


@pytest_asyncio.fixture(loop_scope="session")
async def address() -> AsyncIterator[str]:
    instance = world.empty()
    instance.audited = audits.some()
    async with served(instance) as found:
        yield found


async def test_the_slider_shows_what_would_be(chromium: Browser, address: str) -> None:
    async with page(chromium, address) as seen:
        await seen.open("/audits/worse")
        slider = seen.page.get_by_role("slider", name="Slide over partition counts")
        said = seen.page.locator("#foreseen [role=status]")
        await expect(said).to_contain_text("With 12 partitions, as now")
        assert await slider.get_attribute("aria-valuetext") == "12 partitions"
        await slider.focus()
        await seen.page.keyboard.press("ArrowRight")
        await expect(said).to_contain_text("With 13 partitions")
        assert await slider.get_attribute("aria-valuetext") == "13 partitions"
        await expect(seen.page.get_by_label("Partitions", exact=True)).to_have_value("13")
        await expect(slider).to_be_focused()
        await seen.page.keyboard.press("End")
        await expect(said).to_contain_text("With 128 partitions")
        await expect(seen.page.locator("#foreseen .chart")).to_have_count(2)
        await expect(seen.page.locator("#foreseen")).to_contain_text("Bytes with 128 partitions")
        box = await slider.bounding_box()
        assert box is not None
        await seen.page.mouse.click(box["x"] + 2, box["y"] + box["height"] / 2)
        await expect(said).to_contain_text("With 1 partition ")
        await seen.page.get_by_label("Partitions", exact=True).select_option("24")
        await expect(said).to_contain_text("With 24 partitions")
        await expect(slider).to_have_attribute("aria-valuetext", "24 partitions")
        assert await seen.violations() == []
        assert seen.errors == []


async def test_it_is_a_form_without_scripts(chromium: Browser, address: str) -> None:
    async with page(chromium, address, java_script_enabled=False) as seen:
        await seen.page.goto(f"{address}console/audits/worse")
        assert await seen.page.get_by_role("slider").count() == 0
        await seen.page.get_by_label("Partitions", exact=True).select_option("24")
        await seen.page.get_by_role("button", name="Show").click()
        await seen.page.wait_for_url("**/console/audits/worse?partitions=24*")
        said = seen.page.locator("#foreseen [role=status]")
        await expect(said).to_contain_text("With 24 partitions")
        assert seen.page.url.endswith("#what-if")
        await seen.page.get_by_text("All partition counts").click()
        await seen.page.get_by_role("link", name="48", exact=True).click()
        await expect(said).to_contain_text("With 48 partitions")
