"""The log says what is away, when it is back, and how long that took; and how a gateway starts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from headgate import __version__
from headgate.telemetry.log_fields import LOG_FIELDS
from support.clients.http_client import JSON, post
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 1000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 3000
lane_stall_ms = 2000
metadata_refresh_ms = 300
[redis]
url = "{redis}"
quarantine_ms = 1000
[logs]
access = true
[topics.orders]
key = ["/id"]
kind = "state"
suppress = "raw"
"""
TYPES = {
    "string": str, "integer": int, "number": (int, float), "object": dict, "array": list,
}  # fmt: skip
AWAY_AND_BACK = (
    ("suppression: Redis is away", "suppression: Redis is back"),
    ("cluster main does not answer", "cluster main answers again"),
    ("producer of cluster main is replaced|cluster main: cannot conn", "cluster main: connected"),
)


def lines(gateway: Gateway) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gateway.log().splitlines()]


def said(gateway: Gateway, text: str) -> list[dict[str, Any]]:
    return [line for line in lines(gateway) if re.match(text, line["text"])]


async def test_what_was_away_is_back(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
) -> None:
    broker, redis = start_broker(), start_redis()
    broker.create_topic("orders")
    gateway = start_gateway(CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url))

    def posts() -> int:
        return post(gateway.port, "orders", b'{"id": 1}', JSON).status

    await eventually(lambda: posts() in (200, 201))
    assert [line for line in lines(gateway) if "away_s" in line] == []
    redis.kill()
    broker.kill()
    for away, _ in AWAY_AND_BACK:
        await eventually(lambda away=away: posts() and said(gateway, away), 40)  # type: ignore[misc]
    assert [line for line in lines(gateway) if "away_s" in line] == []
    redis.restart()
    broker.restart()
    for away, back in AWAY_AND_BACK:
        line, *_ = await eventually(lambda back=back: said(gateway, back), 40)  # type: ignore[misc]
        assert line["level"] == "INFO"
        assert line["away_s"] > 0
        assert said(gateway, away)[0]["level"] == "WARNING"
    await eventually(lambda: posts() in (200, 201))
    post(gateway.port, "orders", b"{", JSON)
    gateway.reload()
    await eventually(lambda: said(gateway, "configuration reloaded"))
    gateway.stop()

    (start,) = said(gateway, "the gateway starts")
    sha256 = hashlib.sha256(gateway.config.read_bytes()).hexdigest()
    assert start["config_sha256"] == sha256
    assert said(gateway, "configuration reloaded")[0]["config_sha256"] == sha256
    assert (start["version"], start["native"], start["workers"]) == (__version__, "python", 1)
    assert start["data"].endswith(f":{gateway.port}")
    assert start["management"].endswith(f":{gateway.management_port}")
    for line in lines(gateway):
        assert set(line) <= set(LOG_FIELDS), line
        wrong = {
            name
            for name, value in line.items()
            if not isinstance(value, TYPES[LOG_FIELDS[name].kind])
        }
        assert wrong == set(), line
