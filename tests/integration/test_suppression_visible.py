"""After Redis lost its state nothing is suppressed for a while, and everyone is told so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from http_client import JSON, exchange, post
from stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
WORKERS = 2
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis}"
quarantine_ms = 6000
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
EVENT = b'{"id": 1, "price": 10}'


class World:
    """A gateway and what its management port says of suppression."""

    def __init__(self, gateway: Gateway, topic: str) -> None:
        self.gateway, self.topic = gateway, topic

    def post(self) -> str:
        answer = post(self.gateway.port, self.topic, EVENT, JSON).document
        return str(answer.get("outcome") or answer["reason"])

    def _get(self, path: str) -> Any:
        return exchange(self.gateway.management_port, "GET", path)

    def metric(self, state: str) -> float:
        """How many workers are in this state with the topic."""
        text = self._get("/metrics").body.decode()
        pattern = r"^headgate_suppression_state\{(.*)\} (\S+)$"
        wanted = {f'topic="{self.topic}"', f'state="{state}"'}
        found = re.findall(pattern, text, re.MULTILINE)
        return sum(float(value) for labels, value in found if wanted <= set(labels.split(",")))

    def page(self) -> Any:
        return self._get(f"/v1/topics/{self.topic}").document.get("suppression", {})

    def redis_detail(self) -> str:
        return str(self._get("/ready").document["dependencies"]["redis"]["detail"])

    def log_lines(self) -> list[str]:
        """Those about quarantines."""
        return [line for line in self.gateway.log().splitlines() if "quarantine" in line]


async def test_a_quarantine_is_seen_everywhere(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    redis = start_redis()
    kafka.create_topic(topic_name)
    config = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url, topic=topic_name)
    world = World(start_gateway(config, "--workers", str(WORKERS)), topic_name)
    await eventually(lambda: world.post() == "unchanged", 20)
    await eventually(lambda: world.metric("on") >= 1)
    assert world.page().get("state") == "on"
    assert world.metric("quarantine") == 0
    assert "quarantine" not in world.redis_detail()

    lines = len(world.log_lines())
    redis.kill()
    await eventually(lambda: world.metric("away") >= 1)
    redis.restart()
    await eventually(lambda: world.metric("quarantine") >= 1)
    assert [world.post() for _ in range(3)] == ["published"] * 3
    page = await eventually(lambda: (it := world.page()).get("state") == "quarantine" and it)
    assert any(name.startswith("until") for name in page), page
    await eventually(lambda: "quarantine" in world.redis_detail())
    assert world.metric("quarantine") >= 1, "it was over too early for this test"

    await eventually(lambda: world.post() == "unchanged", 20)
    await eventually(lambda: world.metric("on") >= 1)
    assert world.metric("quarantine") == 0
    assert world.page().get("state") == "on"
    await eventually(lambda: "quarantine" not in world.redis_detail())
    # One as it begins and one as it ends, of each worker.
    said = await eventually(
        lambda: len(found := world.log_lines()[lines:]) >= 2 * WORKERS and found
    )
    assert len(said) == 2 * WORKERS, said


async def test_a_topic_that_does_not_suppress_says_so(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    kafka.create_topic(topic_name)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    world = World(start_gateway(text.replace('"raw"', '"off"')), topic_name)
    assert world.post() == "published"
    assert world.page().get("state") == "off"
