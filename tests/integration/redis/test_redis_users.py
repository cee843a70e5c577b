"""A gateway whose Redis speaks TLS and lets each user do what its rule says, and nothing else."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import Answer, exchange, post
from support.identity.authority import Authority
from support.process.secured_redis import ADMIN, secured_redis
from support.process.stack import Gateway, RunningBroker, eventually
from support.root import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

PASSWORD = "p@ss/w:rd"
JSON = {"Content-Type": "application/json"}


def documented_rule() -> str:
    """The rule that operators copy."""
    page = (ROOT / "docs" / "operate" / "secure.md").read_text()
    (line,) = [one for one in page.splitlines() if one.startswith("user gateway ")]
    return line.removeprefix("user ").replace("PASSWORD", PASSWORD)


def test_the_documented_rule_has_every_command_of_the_scripts() -> None:
    scripts = (ROOT / "gateway/headgate").glob("*/*.lua")
    called = {name for one in scripts for name in re.findall(r"call\('(\w+)'", one.read_text())}
    assert {f"+{name.lower()}" for name in called} <= set(documented_rule().split())


class World(NamedTuple):
    config: str
    admin: Redis
    topic: str

    async def denied(self) -> list[Any]:
        """What Redis has refused."""
        found: list[Any] = await self.admin.execute_command("ACL", "LOG")
        return found


CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "rediss://{user}:p%40ss%2Fw%3Ard@{host}:{port}/0"
ssl_cafile = "{authority}"
quarantine_ms = 1
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
dedupe_ttl_s = 3600
"""


@pytest.fixture
async def world(
    tmp_path: Path, kafka: RunningBroker, topic_name: str, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    kafka.create_topic(topic_name, 1)
    authority = Authority(tmp_path)
    user, rule = request.param
    async with secured_redis(tmp_path, authority.issue("redis"), authority.file, [rule()]) as ports:
        tls, plain = ports
        admin = Redis(host=LOOPBACK, port=plain, username="admin", password=ADMIN)
        config = CONFIG.format(
            bootstrap=kafka.bootstrap,
            user=user,
            host=LOOPBACK,
            port=tls,
            authority=authority.file,
            topic=topic_name,
        )
        try:
            yield World(config, admin, topic_name)
        finally:
            await admin.aclose()


async def sent(gateway: Gateway, world: World, event: object, **headers: str) -> Any:
    """Off the event loop, which may be what relays TLS."""
    named = {**JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
    body = json.dumps(event).encode()
    return (await asyncio.to_thread(post, gateway.port, world.topic, body, named)).document


@pytest.mark.parametrize("world", [("gateway", documented_rule)], indirect=True, ids=[""])
async def test_the_documented_rule_is_enough_for_everything(
    world: World, start_gateway: Callable[..., Gateway]
) -> None:
    gateway = await asyncio.to_thread(start_gateway, world.config)

    async def ends_as(wanted: str, event: object, **headers: str) -> bool:
        page = await sent(gateway, world, event, **headers)
        return bool(page["outcome"] == wanted)

    async def managed(method: str, path: str, body: bytes = b"") -> Answer:
        return await asyncio.to_thread(exchange, gateway.management_port, method, path, JSON, body)

    await eventually(lambda: ends_as("unchanged", {"id": 1}), 20)
    assert await ends_as("published", {"id": 2}, Headgate_Event_Id="e-1")
    await eventually(lambda: ends_as("duplicate", {"id": 2}, Headgate_Event_Id="e-1"))
    first = await sent(gateway, world, {"id": 3}, Idempotency_Key="k-1")
    again = await sent(gateway, world, {"id": 3}, Idempotency_Key="k-1")
    assert (again["outcome"], again["offset"]) == ("duplicate", first["offset"])
    pause = b'{"scope":"all","reason":"test"}'
    for method in ("PUT", "GET", "DELETE"):
        answer = await managed(method, "/v1/pauses/billing", pause)
        assert answer.status == 200, answer.body
    for query in ("", "?key=1"):
        answer = await managed("DELETE", f"/v1/suppression/{world.topic}{query}")
        assert answer.status == 200, answer.body
    assert await world.denied() == []


OTHER_KEYS = f"gateway on >{PASSWORD} ~other:* -@all +@read +@write +@scripting +info"
NO_SCRIPTS = f"gateway on >{PASSWORD} ~* -@all +info +ping"


@pytest.mark.parametrize(
    "world",
    [
        ("gateway", lambda: OTHER_KEYS),
        ("gateway", lambda: NO_SCRIPTS),
        ("stranger", documented_rule),
    ],
    indirect=True,
    ids=["other keys", "no scripts", "another user"],
)
async def test_without_rights_nothing_is_suppressed_and_nothing_is_lost(
    world: World, start_gateway: Callable[..., Gateway]
) -> None:
    gateway = await asyncio.to_thread(start_gateway, world.config)
    for _ in range(3):
        assert (await sent(gateway, world, {"id": 1}))["outcome"] == "published"

    async def is_told() -> bool:
        page = (await asyncio.to_thread(exchange, gateway.port, "GET", "/ready")).document
        return not page["dependencies"]["redis"]["ok"]

    await eventually(is_told)
    assert await world.denied() != []
