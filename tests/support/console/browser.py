"""The console in a real Chromium: opens pages, and says what is wrong with them."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestServer
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright

from headgate.edge.management.control_plane import Services
from headgate.edge.management.routes import management_app
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of
from support.root import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
PICTURES = ROOT / "build" / "browser"
DEADLINE_MS = 15_000
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_OPTIONS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


class Seen:
    """A page in the browser. errors: what its scripts or its policy complained about."""

    def __init__(self, page: Page, server: TestServer) -> None:
        self.page = page
        self._server = server
        self.errors: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.set_default_timeout(DEADLINE_MS)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    async def open(self, path: str = "") -> None:
        """Load a page of the console and wait until its scripts have run."""
        await self.page.goto(str(self._server.make_url(f"/console{path}")))
        await self.page.wait_for_selector("#theme:not([hidden])")

    async def violations(self) -> list[str]:
        """Of WCAG 2.2 AA and of good practice, as axe sees them."""
        await self.page.evaluate(AXE)
        run = {"runOnly": {"type": "tag", "values": _RULES}}
        found: dict[str, Any] = await self.page.evaluate(
            "options => axe.run(document, options)", run
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
        """Keep what it looks like."""
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
    instance: ConsoleInstance, services: Services | None = None
) -> AsyncIterator[TestServer]:
    """The management port over this instance."""
    app = management_app(admin_of(instance, KeptInMemory(), services))
    async with TestServer(app) as server:
        yield server


@asynccontextmanager
async def page(
    chromium: Browser, server: TestServer, width: int = 1440, **context: Any
) -> AsyncIterator[Seen]:
    """A window of its own. context: see Playwright's new_context."""
    opened = await chromium.new_context(viewport={"width": width, "height": 900}, **context)
    try:
        yield Seen(await opened.new_page(), server)
    finally:
        await opened.close()
