"""What the console changes: by whom, from where, and that it is noted."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, Settings
from headgate.replays.registry import Control
from support.console import world
from support.console.replays import ReplaysInMemory, some_replays
from support.console.world import ConsoleInstance
from support.gateway.admin_world import TOKENS, TOPICS, KeptInMemory, admin_of

Client = TestClient[Any, Any]
WIZARD = {"topic": "orders", "name": "again", "from": "-2h", "to": "now", "mode": "topic",
          "once": "k1"}  # fmt: skip


class Opened:
    """A console where callers have tokens."""

    def __init__(self, client: Client, instance: ConsoleInstance, replays: ReplaysInMemory) -> None:
        self.client = client
        self.instance = instance
        self.replays = replays

    async def token(self, who: str, path: str = "/console/topics/deals") -> str:
        text = await (await self.client.get(path, headers=basic(who))).text()
        found = re.search(r'name="csrf" value="([^"]+)"', text)
        return found[1] if found else ""

    async def post(self, who: str, path: str, **fields: str) -> aiohttp.ClientResponse:
        return await self.client.post(path, data=fields, headers=basic(who), allow_redirects=False)

    async def changes(self) -> list[dict[str, Any]]:
        answer = await self.client.get("/v1/changes", headers=basic("operator"))
        found: list[dict[str, Any]] = (await answer.json())["changes"]
        return found


def basic(who: str) -> dict[str, str]:
    """As a browser sends it."""
    return {"Authorization": aiohttp.encode_basic_auth("me", f"{who}-token")}


@asynccontextmanager
async def opened() -> AsyncIterator[Opened]:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    instance = ConsoleInstance(settings, groups=world.monitored(1))
    replays = await some_replays()
    replays.calls.clear()
    admin = admin_of(instance, KeptInMemory(), replays.services())
    async with TestClient(TestServer(management_app(admin))) as client:
        yield Opened(client, instance, replays)


async def test_a_browser_is_asked_for_a_token() -> None:
    async with opened() as console:
        answer = await console.client.get("/console")
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic ")
        assert "view" in await answer.text()
        assert (await console.client.get("/console", headers=basic("shop"))).status == 403
        assert (await console.client.get("/console", headers=basic("viewer"))).status == 200


async def test_who_may_only_look_is_shown_no_form() -> None:
    async with opened() as console:
        assert await console.token("viewer") == ""
        assert await console.token("operator") != ""


async def test_forgetting_is_carried_out_and_noted() -> None:
    async with opened() as console:
        csrf = await console.token("operator")
        path = "/console/topics/deals/forget"
        answer = await console.post("operator", path, csrf=csrf, key="2342565")
        assert (answer.status, answer.headers["Location"]) == (303, "/console/topics/deals")
        await console.post("operator", path, csrf=csrf)
        assert console.instance.forgotten == [("deals", b"2342565"), ("deals", None)]
        assert [one["what"] for one in await console.changes()] == ["forget", "forget"]


@pytest.mark.parametrize("given", ["", "none", "viewer"], ids=["no token", "wrong", "another's"])
async def test_a_form_without_the_callers_token_changes_nothing(given: str) -> None:
    async with opened() as console:
        csrf = await console.token("viewer", "/console/replays/new?topic=orders")
        fields = {"csrf": csrf if given == "viewer" else given} if given else {}
        for path in ("/console/topics/deals/forget", "/console/groups/billing/pause",
                     "/console/replays/new", "/console/replays/x/cancel"):  # fmt: skip
            answer = await console.post("operator", path, **fields)
            assert answer.status == 403, path
        assert console.instance.forgotten == []
        assert console.replays.calls == []
        assert await console.changes() == []


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_a_page_of_elsewhere_changes_nothing_even_with_the_token(
    headers: dict[str, str],
) -> None:
    async with opened() as console:
        csrf = await console.token("operator")
        answer = await console.client.post(
            "/console/topics/deals/forget",
            data={"csrf": csrf},
            headers={**basic("operator"), **headers},
        )  # fmt: skip
        assert answer.status == 403
        assert console.instance.forgotten == []


async def test_who_may_not_operate_changes_nothing() -> None:
    async with opened() as console:
        csrf = await console.token("viewer", "/console/replays/new?topic=orders")
        for path in ("/console/topics/deals/forget", "/console/groups/billing/pause",
                     "/console/replays/x/pause"):  # fmt: skip
            answer = await console.post("viewer", path, csrf=csrf, reason="r")
            assert answer.status == 403, path
        answer = await console.post("viewer", "/console/replays/new", csrf=csrf, do="create",
                                    **WIZARD)  # fmt: skip
        assert "forbidden" in await answer.text()
        assert await console.changes() == []


async def test_pausing_and_resuming_a_group() -> None:
    async with opened() as console:
        csrf = await console.token("operator")
        path = "/console/groups/billing"
        await console.post("operator", f"{path}/pause", csrf=csrf, reason="deploy")
        part = {"reason": "poison", "topic": "orders", "partition": "3"}
        await console.post("operator", f"{path}/pause", csrf=csrf, **part)
        text = await (await console.client.get(path, headers=basic("viewer"))).text()
        assert "deploy" in text
        assert "orders 3" in text
        await console.post("operator", f"{path}/resume", csrf=csrf, reason="deploy")
        await console.post("operator", f"{path}/resume", csrf=csrf, **part)
        text = await (await console.client.get(path, headers=basic("viewer"))).text()
        assert "This group is not paused." in text
        whats = [one["what"] for one in await console.changes()]
        assert whats == ["resume", "resume", "pause", "pause"]
        answer = await console.post("operator", f"{path}/pause", csrf=csrf, reason="")
        assert answer.status == 400


@pytest.mark.parametrize(
    ("topic", "partition"),
    [("orders", "1234567890123"), ("orders", "-1"), ("orders", "x"), ("", "3")],
)
async def test_a_partition_that_is_none_pauses_nothing(topic: str, partition: str) -> None:
    """Neither another one, nor the whole group."""
    async with opened() as console:
        csrf = await console.token("operator")
        fields = {"csrf": csrf, "reason": "r", "topic": topic, "partition": partition}
        answer = await console.post("operator", "/console/groups/billing/pause", **fields)
        assert answer.status == 400
        assert "partition" in await answer.text()
        assert await console.changes() == []


async def test_the_wizard_refuses_a_time_that_no_clock_has() -> None:
    async with opened() as console:
        fields = {**WIZARD, "csrf": await console.token("operator"), "do": "dry"}
        fields["from"] = "9" * 5000
        answer = await console.post("operator", "/console/replays/new", **fields)
        assert answer.status == 200
        assert "<b>malformed</b>" in await answer.text()


async def test_the_wizard_tries_then_creates_once() -> None:
    async with opened() as console:
        csrf = await console.token("operator")
        more = {"keys": "17\r\n18", "producers": "shop", "equals": '{"/status": "paid"}',
                "partitions": "0, 3", "bytes_per_s": "1000000"}  # fmt: skip
        answer = await console.post("operator", "/console/replays/new", csrf=csrf, do="dry",
                                    **WIZARD, **more)  # fmt: skip
        text = await answer.text()
        assert answer.status == 200
        assert "20,000" in text
        assert "headgate replay create --name again --topic orders --from 2h --to now" in text
        assert "/v1/replays" in text
        body = {
            "name": "again", "topic": "orders", "from": {"relative": "-2h"},
            "to": {"relative": "now"}, "deliver": {"mode": "topic"}, "partitions": [0, 3],
            "filter": {"keys": ["17", "18"], "producers": ["shop"], "equals": {"/status": "paid"}},
            "rate": {"bytes_per_s": 1_000_000},
        }  # fmt: skip
        assert console.replays.calls == [("create", {**body, "dry_run": True}, "operator", None)]
        answer = await console.post("operator", "/console/replays/new", csrf=csrf, do="create",
                                    **WIZARD, **more)  # fmt: skip
        assert answer.status == 303
        assert console.replays.calls[1:] == [("create", body, "operator", "k1")]
        shown = await console.client.get(answer.headers["Location"], headers=basic("viewer"))
        assert "again" in await shown.text()
        assert (await console.changes())[0]["what"] == "replay"


async def test_a_refused_dry_run_says_what_is_mirrored_and_keeps_the_form() -> None:
    async with opened() as console:
        console.replays.uncovered.add("orders")
        csrf = await console.token("operator")
        answer = await console.post("operator", "/console/replays/new", csrf=csrf, do="dry",
                                    **WIZARD)  # fmt: skip
        text = await answer.text()
        assert "not_covered" in text
        assert "1700" in text
        assert 'value="-2h"' in text
        wrong = {**WIZARD, "equals": "no json"}
        answer = await console.post("operator", "/console/replays/new", csrf=csrf, do="dry",
                                    **wrong)  # fmt: skip
        assert "equals is no JSON" in await answer.text()


async def test_a_replay_is_paused_resumed_and_cancelled() -> None:
    async with opened() as console:
        csrf = await console.token("operator")
        replay = next(iter(console.replays.registry)).id
        for action in ("pause", "resume", "cancel"):
            answer = await console.post("operator", f"/console/replays/{replay}/{action}",
                                        csrf=csrf)  # fmt: skip
            assert answer.status == 303
        wanted = [Control.PAUSE, Control.RUN, Control.CANCEL]
        assert console.replays.calls == [("control", replay, one) for one in wanted]
        whats = [one["what"] for one in await console.changes()]
        assert whats == ["cancel replay", "resume replay", "pause replay"]
