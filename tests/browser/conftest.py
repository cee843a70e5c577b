"""One Chromium for all tests of a worker: a start costs a second."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio
from playwright.async_api import Browser

from support.console.browser import browser


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """Each test opens windows of its own in it."""
    async with browser() as found:
        yield found
