"""The console's pages of consumer groups: what the monitor says, and why if it says nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.admin.instance import Monitored
from support.console import world
from support.console.world import ConsoleInstance
from support.gateway.admin_world import KeptInMemory, admin_of

Client = TestClient[Any, Any]


@asynccontextmanager
async def opened(instance: ConsoleInstance) -> AsyncIterator[Client]:
    app = management_app(admin_of(instance, KeptInMemory()))
    async with TestClient(TestServer(app)) as client:
        yield client


async def text_of(client: Client, path: str) -> str:
    answer = await client.get(f"/console{path}")
    assert answer.status == 200, await answer.text()
    return await answer.text()


async def test_a_stuck_group_is_seen_as_a_picture() -> None:
    async with opened(await world.small()) as client:
        text = await text_of(client, "/groups/billing")
    assert 'class="back"' in text
    assert "c1-app (c1)" in text
    assert "lag 3 (broker), 1 (client)" in text


async def test_a_group_of_ten_thousand_partitions_has_a_small_page() -> None:
    instance = await world.small()
    (group,) = instance.groups["/v1/groups/billing"]["on"]
    one, fall = group["partitions"][0], group["recent_regressions"][0]
    group["partitions"] = [{**one, "partition": each, "lag": each} for each in range(10_000)]
    group["recent_regressions"] = [fall] * 300
    async with opened(instance) as client:
        text = await text_of(client, "/groups/billing")
    assert len(text) < 150_000, "it is sent again whenever something has changed"
    assert "The worst 100 of 10,000" in text
    assert "The newest 50 of 300" in text
    assert "orders 9999<" in text
    assert "orders 9899<" not in text


async def test_a_partitions_page_has_the_groups_that_read_it() -> None:
    async with opened(await world.small()) as client:
        text = await text_of(client, "/topics/orders/partitions/0")
        assert '<a href="/console/groups/billing">billing</a>' in text
        assert ">REWIND<" in text
        assert "c2-app at /10.0.0.1 (c2)" in text
        assert "topic=orders&amp;partition=0" in text
        assert "At most the worst" not in text
        text = await text_of(client, "/topics/orders/partitions/9")
        assert "No group with members or commits reads this partition." in text
    async with opened(await world.busy(1, 2, 1)) as client:
        assert "billing" not in await text_of(client, "/topics/topic-001/partitions/0")
    instance = await world.small()
    instance.groups["/v1/groups/billing"]["on"] *= 50
    async with opened(instance) as client:
        assert "At most the worst 50 are" in await text_of(client, "/topics/orders/partitions/0")
    instance.groups = {}
    async with opened(instance) as client:
        text = await text_of(client, "/topics/orders/partitions/0")
    assert "start `headgate monitor`" in text
    assert "Share of bytes" in text


async def test_a_monitor_that_answers_nonsense_is_named() -> None:
    instance = await world.small()
    instance.groups = {"/v1/groups": ["no", "object"]}
    async with opened(instance) as client:
        assert "is not a headgate monitor" in await text_of(client, "/groups")


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b'{"reason": "unauthenticated", "detail": "no such token"}',
         ("unauthenticated", "no such token", "log in with a token")),
        (403, b'{"reason": "forbidden", "detail": "needs the role view"}',
         ("forbidden", "needs the role view", "give yourself the role view")),
        (503, b'{"reason": "issuer_unavailable", "detail": "no keys"}',
         ("issuer_unavailable", "no keys", "auth.jwt_jwks_url has to answer")),
        (503, b"<h1>Unavailable</h1>",
         ("overloaded", "the monitor answered 503", "load the page again")),
        (403, b"<h1>Forbidden</h1>",
         ("forbidden", "the monitor answered 403", "give yourself the role view")),
        (502, b"<h1>Bad Gateway</h1>",
         ("internal", "the monitor answered 502", "what runs at monitor.url")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/groups", "/groups/billing"])
async def test_why_a_monitor_refuses_is_shown(
    path: str, status: int, body: bytes, said: tuple[str, str, str]
) -> None:
    instance = await world.small()
    instance.refused = Monitored(status, "application/problem+json", body)
    async with opened(instance) as client:
        text = await text_of(client, path)
    assert f"<b>{said[0]}</b>: {said[1]}. " in text
    assert said[2] in text, "what to do"
    assert "Start it" not in text, "it runs"
