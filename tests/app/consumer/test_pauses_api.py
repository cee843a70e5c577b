"""The pages of pause intent, over a store in memory; the real one is in tests/integration."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from headgate.admin.app import management_app
from headgate.config.settings import AuthSettings, Settings
from support.gateway.admin_world import TOKENS, TOPICS, FakeInstance, KeptInMemory, admin_of

DEPLOY = {"scope": "all", "reason": "deploy"}
IS_JSON = {"Content-Type": "application/json"}
OPERATOR = {"scope": {"topic": "orders", "partition": 3}, "reason": "operator"}


@pytest.fixture
def store() -> KeptInMemory:
    return KeptInMemory()


@pytest.fixture
async def client(store: KeptInMemory) -> AsyncIterator[TestClient[Any, Any]]:
    admin = admin_of(FakeInstance(Settings(topics=TOPICS)), store)
    async with TestClient(TestServer(management_app(admin))) as client:
        yield client


async def kept(client: TestClient[Any, Any]) -> list[Any]:
    """By reason, as two may come within one millisecond."""
    page = await (await client.get("/v1/pauses/billing")).json()
    return sorted(page["intents"], key=lambda one: str(one["reason"]))


async def intents(client: TestClient[Any, Any]) -> list[Any]:
    return [{"scope": one["scope"], "reason": one["reason"]} for one in await kept(client)]


async def test_each_reason_comes_and_goes_by_itself(client: TestClient[Any, Any]) -> None:
    headers = {"Headgate-Producer": "till"}
    for _ in range(2):  # the second time changes nothing
        answer = await client.put("/v1/pauses/billing", json=DEPLOY, headers=headers)
        assert answer.status == 200
    await client.put("/v1/pauses/billing", json=OPERATOR)
    assert await intents(client) == [DEPLOY, OPERATOR]
    assert (await kept(client))[0]["by"] == "till"
    assert (await client.delete("/v1/pauses/billing", json=DEPLOY)).status == 200
    assert await intents(client) == [OPERATOR]
    assert (await client.delete("/v1/pauses/billing", json=DEPLOY)).status == 404
    newest, *_ = (await (await client.get("/v1/changes")).json())["changes"]
    assert (newest["what"], newest["group"], newest["scope"]) == ("resume", "billing", "all")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"scope": "all"}',
        b'{"scope": "some", "reason": "x"}',
        b'{"scope": {"partition": 1}, "reason": "x"}',
        b'{"scope": {"topic": "orders", "partition": -1}, "reason": "x"}',
        b'{"scope": {"topic": "orders", "partition": true}, "reason": "x"}',
        b'{"scope": {"topic": "orders", "partition": null}, "reason": "x"}',
        b'{"scope": {"topic": "orders", "partition": 18446744073709551616}, "reason": "x"}',
        b'{"scope": {"topic": "\\ud800"}, "reason": "x"}',
        b'{"scope": "all", "reason": ""}',
        b'{"scope": "all", "reason": "\\u0000"}',
        b'{"scope": "all", "reason": 1}',
        b'{"scope": "all", "reason": "x", "for": 1}',
        b"[" * 4_000,
        b"x" * 5_000,
    ],
)
async def test_what_makes_no_sense_is_refused(client: TestClient[Any, Any], body: bytes) -> None:
    answer = await client.put("/v1/pauses/billing", data=body, headers=IS_JSON)
    assert answer.status == 400
    assert (await answer.json())["reason"] == "malformed"
    assert await intents(client) == []


async def test_a_group_has_a_bounded_number_of_reasons(client: TestClient[Any, Any]) -> None:
    for number in range(100):
        body = {"scope": "all", "reason": f"{number}"}
        assert (await client.put("/v1/pauses/billing", json=body)).status == 200
    assert (await client.put("/v1/pauses/billing", json=DEPLOY)).status == 400


async def test_without_redis_it_says_so(client: TestClient[Any, Any], store: KeptInMemory) -> None:
    store.is_away = True
    answer = await client.put("/v1/pauses/billing", json=DEPLOY)
    assert (answer.status, (await answer.json())["reason"]) == (503, "redis_unavailable")


async def test_only_operators_may_pause() -> None:
    settings = Settings(auth=AuthSettings(mode=("token",)), producers=TOKENS, topics=TOPICS)
    admin = admin_of(FakeInstance(settings), KeptInMemory())
    async with TestClient(TestServer(management_app(admin))) as client:
        asked = {
            name: await client.put(
                "/v1/pauses/billing", json=DEPLOY, headers={"Authorization": f"Bearer {name}-token"}
            )
            for name in ("viewer", "operator")
        }
        assert {name: one.status for name, one in asked.items()} == {"viewer": 403, "operator": 200}


async def test_a_body_may_come_in_pieces_and_has_a_limit(client: TestClient[Any, Any]) -> None:
    async def body(*pieces: bytes) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece
            await asyncio.sleep(0.02)

    pieces = body(b'{"scope": "all", ', b'"reason": "deploy"}')
    answer = await client.put("/v1/pauses/billing", data=pieces, headers=IS_JSON)
    assert answer.status == 200
    assert await intents(client) == [DEPLOY]
    large = body(*(b" " * 65_536 for _ in range(17)))
    answer = await client.put("/v1/pauses/billing", data=large, headers=IS_JSON)
    assert answer.status == 413
    assert "1048576 bytes" in (await answer.json())["detail"]
