"""The console in a real Chromium: opens pages, and says what is wrong with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from headgate.admin.app import management_app
from headgate.replays.second_tier import SecondTier
from headgate.supervisor.installation_log import InstallationLog
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of
from support.process.stack import eventually
from support.root import ROOT
from support.scale import is_full

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
PICTURES = ROOT / "build" / "browser"
DEADLINE_MS = 15_000
EVERYTHING = {
    "type": "tag",
    "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
PLACED = {"type": "rule", "values": ["target-size", "scrollable-region-focusable"]}
# The rows below are made like those above, and axe is what takes longest.
_WITHIN = {"exclude": [["tbody tr:nth-child(n+21)"]]}
_PLOTS_FIT = """[...document.querySelectorAll(".uplot")].every((one) =>
  one.querySelector(".u-wrap").offsetWidth === Math.max(200, one.parentElement.clientWidth))"""
_OPTIONS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Seen:
    """A page in the browser. errors: what its scripts or its policy complained about."""

    def __init__(self, page: Page, management_url: str) -> None:
        self.page = page
        self._console = f"{management_url.rstrip('/')}/console"
        self.errors: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.set_default_timeout(DEADLINE_MS)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    async def open(self, path: str = "") -> int:
        """Load a page of the console and wait until its scripts have run. Returns its status."""
        answer = await self.page.goto(f"{self._console}{path}")
        await self.page.wait_for_selector("#theme:not([hidden])")
        assert answer is not None
        return answer.status

    async def resize(self, width: int, scheme: Literal["light", "dark"]) -> None:
        """As the reader does who turns the telephone, at night; wait until plots have followed."""
        await self.page.set_viewport_size({"width": width, "height": 900})
        await self.page.emulate_media(color_scheme=scheme)
        await eventually(lambda: self.page.evaluate(_PLOTS_FIT))

    async def violations(self, rules: Mapping[str, object] = EVERYTHING) -> list[str]:
        """Of WCAG 2.2 AA and of good practice, as axe sees them."""
        if not await self.page.evaluate("typeof axe !== 'undefined'"):
            await self.page.evaluate(AXE)
        run = {"runOnly": rules, "resultTypes": ["violations"]}
        found: dict[str, Any] = await self.page.evaluate(
            "([within, options]) => axe.run(within, options)", [_WITHIN, run]
        )
        return [
            f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
            for one in found["violations"]
            for node in one["nodes"][:3]
        ]

    async def overflow(self) -> int:
        """Pixels by which the page is wider than the window."""
        width: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return width

    async def picture(self, name: str) -> None:
        """Keep what it looks like, in `make test-full`: drawing takes longer than all checks."""
        if not is_full():
            return
        PICTURES.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


@asynccontextmanager
async def browser() -> AsyncIterator[Browser]:
    """Headless; nothing but this machine can be reached."""
    assert CHROMIUM is not None
    async with async_playwright() as playwright:
        found = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=_OPTIONS, env={**os.environ, "LC_ALL": "C.UTF-8"}
        )
        try:
            yield found
        finally:
            await found.close()


@asynccontextmanager
async def served(
    instance: ConsoleInstance,
    services: SecondTier | None = None,
    store: KeptInMemory | None = None,
    log: InstallationLog | None = None,
) -> AsyncIterator[str]:
    """The management port over this instance: its address."""
    app = management_app(admin_of(instance, store or KeptInMemory(), services, log=log))
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


@asynccontextmanager
async def page(
    chromium: Browser, management_url: str, width: int = 1440, **context: Any
) -> AsyncIterator[Seen]:
    """A window of its own. context: see Playwright's new_context."""
    opened = await chromium.new_context(viewport={"width": width, "height": 900}, **context)
    try:
        yield Seen(await opened.new_page(), management_url)
    finally:
        await opened.close()
