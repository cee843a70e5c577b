"""`GET /v1/status`: the verdict of a running instance, and what it asks of the monitor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin import status
from headgate.admin.app import management_app
from headgate.admin.instance import Monitored
from headgate.config.settings import AuthSettings, Settings
from headgate.model.outcome import Failure
from support.console import world
from support.console.pages import opened
from support.gateway.admin_world import TOKENS, KeptInMemory, admin_of
from support.scenarios.group_world import GROUP


async def page_of(client: TestClient[Any, Any], status_code: int = 200) -> dict[str, Any]:
    answer = await client.get("/v1/status")
    assert answer.status == status_code
    page: dict[str, Any] = await answer.json()
    return page


async def test_reasons_keep_their_time_and_are_forgotten() -> None:
    instance = await world.small()
    async with opened(instance) as client:
        page = await page_of(client)
        assert page["state"] == "degraded"
        [rewound] = [row for row in page["reasons"] if "went back" in row["what"]]
        assert (rewound["subject"], rewound["severity"]) == (GROUP, "warning")
        assert rewound["href"] == f"/console/groups/{GROUP}"
        assert await page_of(client) == page
        instance.is_ready = False
        down = await page_of(client)
        assert (down["state"], down["reasons"][0]["subject"]) == ("down", "gateway")
        instance.is_ready = True
        assert await page_of(client) == page


async def test_it_is_well_since_the_last_reason_ended() -> None:
    instance = world.empty()
    instance.groups = {"/v1/groups": {"groups": [], "next": None, "clusters": []}}
    async with opened(instance) as client:
        well = await page_of(client)
        assert (well["state"], well["reasons"]) == ("ok", [])
        instance.is_ready = False
        down = await page_of(client)
        instance.is_ready = True
        again = await page_of(client)
        assert again["since"] >= down["reasons"][0]["since"] > well["since"]
        assert await page_of(client) == again


async def test_causes_get_their_time_although_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_LOOK_S", 0.01)
    instance = world.empty()
    async with opened(instance) as client:
        instance.is_ready = False
        await asyncio.sleep(0.3)
        first = status.time.time()
        page = await page_of(client)
        [down] = [row for row in page["reasons"] if row["subject"] == "gateway"]
        assert down["since"] < str(status.iso(first))


class Counting(world.ConsoleInstance):
    """asked: how often the monitor was. hangs: it does not answer."""

    asked = 0
    hangs = False

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        return await super().monitored(path, authorization)


async def test_the_monitor_is_asked_once_in_a_few_seconds() -> None:
    instance = Counting(Settings())
    for groups in ({}, world.monitored(1)):
        instance.groups, instance.asked = groups, 0
        async with opened(instance) as client:
            for _ in range(5):
                await page_of(client)
                await client.get("/console")
        assert instance.asked == 1


async def test_a_monitor_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "_MONITOR_S", 0.05)
    instance = Counting(Settings())
    instance.hangs = True
    async with opened(instance) as client:
        [reason] = (await page_of(client))["reasons"]
    assert reason["detail"].startswith("the monitor did not answer within 0.05 s")


async def test_a_monitor_of_another_version_is_a_reason() -> None:
    instance = Counting(Settings())
    instance.groups = {"/v1/groups": {"groups": [{"name": "billing"}], "next": None}}
    async with opened(instance) as client:
        [reason] = (await page_of(client))["reasons"]
    assert "not of this version" in reason["detail"]


async def test_it_needs_the_role_view() -> None:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS)
    app = management_app(admin_of(world.ConsoleInstance(settings), KeptInMemory()))
    async with TestClient(TestServer(app)) as client:
        for name, expected in (("viewer", 200), ("operator", 200), ("shop", 403)):
            answer = await client.get(
                "/v1/status", headers={"Authorization": f"Bearer {name}-token"}
            )
            assert answer.status == expected
        assert (await client.get("/v1/status")).status == 401
