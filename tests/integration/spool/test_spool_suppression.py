"""While an event of a topic is spooled, no gateway answers `unchanged` for that topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients.http_client import exchange, post
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 10000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[redis]
url = "{redis}"
quarantine_ms = 1000
[spool]
path = "{folder}"
[topics.deals]
key = ["/id"]
kind = "state"
suppress = "raw"
dedupe_ttl_s = 600
spool = true
spool_after_ms = 300
"""


def send(gateway: Gateway, value: str, event_id: str | None = None) -> str:
    headers = {"Content-Type": "application/json"}
    if event_id is not None:
        headers["Headgate-Event-Id"] = event_id
    found = post(gateway.port, "deals", json.dumps({"id": 1, "v": value}).encode(), headers)
    return str(found.document.get("outcome") or found.document)


async def ask(gateway: Gateway, value: str, event_id: str | None = None) -> str:
    return await asyncio.to_thread(send, gateway, value, event_id)


async def until(gateway: Gateway, value: str, outcome: str) -> None:
    async def is_so() -> bool:
        return await ask(gateway, value) == outcome

    await eventually(is_so, 30, 0.1)


async def test_nothing_is_unchanged_anywhere_while_something_is_spooled(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    broker, redis = start_broker(), start_redis()
    broker.create_topic("deals", 3)
    one, other = (
        start_gateway(
            CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url, folder=tmp_path / name)
        )
        for name in ("one", "other")
    )
    for gateway in (one, other):  # both compare, and know the topic
        await until(gateway, "x", "unchanged")
    broker.kill()
    assert await ask(one, "y", "y-1") == "spooled"
    # In Kafka x is the newest; what is spooled is newer, and will be written.
    assert await ask(other, "x") == "spooled"
    assert await ask(one, "x") == "spooled"
    assert await ask(one, "y", "y-1") == "duplicate"  # its id is known
    broker.restart()
    for gateway in (one, other):
        await eventually(lambda g=gateway: not spooled(g), 30, 0.1)  # type: ignore[misc]
    for gateway in (one, other):
        await until(gateway, "z", "unchanged")
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    values = [json.loads(record.value or b"")["v"] for record in log]
    assert values[0] == "x"
    assert values.count("y") == 1
    assert values[-1] == "z"


def spooled(gateway: Gateway) -> int:
    return int(exchange(gateway.management_port, "GET", "/v1/spool").document["events"])
