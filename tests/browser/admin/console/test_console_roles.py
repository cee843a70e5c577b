"""The console for callers who may not: each page says which role is missing, and offers no form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from playwright.async_api import Browser

from headgate.config.settings import AuthSettings
from support.console.browser import CHROMIUM, Seen, page, served
from support.console.states import Situation, gone, much, routes
from support.gateway.admin_world import TOKENS

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Debian: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="session"),
]


@asynccontextmanager
async def as_who(chromium: Browser, behind: Situation, *who: str) -> AsyncIterator[list[Seen]]:
    """A window of each of them; their browsers are asked for the token, and send it."""
    auth = AuthSettings(mode=("token",))
    instance = behind.instance
    instance.settings = replace(instance.settings, auth=auth, producers=TOKENS)
    async with served(instance, behind.services, behind.store, behind.log) as address:
        known = [{"username": "me", "password": f"{one}-token"} for one in who]
        opened = [page(chromium, address, http_credentials=one) for one in known]
        seen = [await one.__aenter__() for one in opened]
        yield seen
        for one in opened:
            await one.__aexit__(None, None, None)


async def test_who_may_not_look_is_told_on_every_page_which_role_is_missing(
    chromium: Browser,
) -> None:
    behind = await gone()
    async with as_who(chromium, behind, "shop") as (seen,):
        for path in routes("GET"):
            assert await seen.open(path.format_map(behind.parts)) == 403, path
            said = await seen.page.locator("main").inner_text()
            assert "this needs the role 'view'" in said, path
            assert await seen.page.locator("form, nav").count() == 0, path
        for width in (360, 800, 1440):
            await seen.resize(width, "light")
            await seen.picture(f"refused-{width}-light")
            assert (await seen.violations(), await seen.overflow()) == ([], 0)


async def test_who_may_only_look_is_told_what_it_takes_to_change_something(
    chromium: Browser,
) -> None:
    behind = await much()
    pages = routes("GET")
    async with as_who(chromium, behind, "viewer", "operator") as (viewer, operator):
        for path in pages:
            assert await viewer.open(path.format_map(behind.parts)) == 200, path
        for action in routes("POST"):
            shown_on = max((one for one in pages if action.startswith(one)), key=len)
            query = "?topic={topic}" if shown_on == action else ""
            path = f"{shown_on}{query}".format_map(behind.parts)
            form = f"form[method=post][action*='{action.format_map(behind.parts)}']"
            await operator.open(path)
            assert await operator.page.locator(form).count() > 0, action
            await viewer.open(path)
            dry_run_alone = viewer.page.locator(form).get_by_role("button", name="Dry run")
            assert await viewer.page.locator(form).count() == await dry_run_alone.count(), action
            assert await viewer.page.get_by_role("button", name="Create").count() == 0
            said = await viewer.page.locator("main").inner_text()
            assert "you need the role operate" in said, action
            await viewer.picture(f"viewer{action.replace('/', '-').format_map(behind.parts)}-1440")
