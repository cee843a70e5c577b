"""A live page says when it is no longer live, since when, and when it is again."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from headgate.model.outcome import Refused
from support.console import world
from support.console.browser import CHROMIUM, page, served
from support.console.replays import ReplaysInMemory
from support.console.states import AWAY

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]
AT = r"\d+ \w+ 20\d\d, \d\d:\d\d:\d\d"


class SomeReplays(ReplaysInMemory):
    """is_away: their registry cannot be asked."""

    is_away = False

    async def show(self, replay_id: str) -> dict[str, Any]:
        if self.is_away:
            raise Refused(AWAY)
        return await super().show(replay_id)


async def test_a_gateway_that_says_nothing_is_lost_until_it_says_something(
    chromium: Browser,
) -> None:
    """As after the sleep of a laptop, or behind a network that takes packets and delivers none."""
    instance = await world.small()
    async with served(instance) as address, page(chromium, address, locale="en-GB") as seen:
        await seen.page.clock.install()
        await seen.open("")
        said = seen.page.locator("#connection")
        await expect(said).to_be_hidden()
        await seen.page.clock.fast_forward(60_000)
        await expect(said).to_have_text(re.compile(f"is lost since {AT}\\. What is shown is of"))
        await seen.picture("lost-1440-light")
        assert await seen.violations() == []
        instance.is_ready = False  # something to show
        await expect(said).to_have_text(re.compile(f"Connected again since {AT}, after \\d+ s"))


async def test_a_page_that_cannot_be_made_now_says_so_and_stays(chromium: Browser) -> None:
    instance, replays = await world.small(), SomeReplays()
    body = {"name": "again", "topic": "orders", "from": {"relative": "-2h"}}
    made, _ = await replays.create({**body, "deliver": {"mode": "seek"}}, "alice", None)
    async with (
        served(instance, replays.services()) as address,
        page(chromium, address, locale="en-GB") as seen,
    ):
        await seen.open(f"/replays/{made['id']}")
        said = seen.page.locator("#connection")
        before = await seen.page.locator("#live").inner_text()
        replays.is_away = True
        await expect(said).to_have_text(re.compile(f"Not up to date since {AT}: {AWAY.detail}"))
        assert await seen.page.locator("#live").inner_text() == before
        replays.is_away = False
        await expect(said).to_have_text(re.compile(f"Up to date again since {AT}"))
        assert seen.errors == []
