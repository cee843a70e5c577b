"""The console's pages as a client without a browser gets them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.replays.second_tier import SecondTier
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of

Client = TestClient[Any, Any]


@asynccontextmanager
async def opened(
    instance: ConsoleInstance, services: SecondTier | None = None
) -> AsyncIterator[Client]:
    """A client of the management port over this instance."""
    app = management_app(admin_of(instance, KeptInMemory(), services))
    async with TestClient(TestServer(app)) as client:
        yield client


async def text_of(client: Client, path: str, status: int = 200) -> str:
    """A page of the console."""
    answer = await client.get(f"/console{path}")
    assert answer.status == status, await answer.text()
    assert answer.content_type == "text/html"
    return await answer.text()
