"""While nothing is suppressed after a loss of Redis, everything that is asked says so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.clients.http_client import JSON, Connection, events_path, exchange, request_bytes
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

# Longer than the log holds back a warning that repeats: that of the start is one.
QUARANTINE_S = 12
WORKERS = 2
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 12000
[producers.shop]
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
[topics."{topic}-plain"]
"""
EVENT = b'{"id": 1, "price": 10}'


class Watched:
    """A gateway and what it says of one topic."""

    def __init__(self, gateway: Gateway, topic: str) -> None:
        self.gateway, self.topic = gateway, topic

    def post(self, times: int) -> list[str]:
        """To one worker: another one may not know yet, for a moment, what this one wrote."""
        headers = JSON | {"Headgate-Producer": "shop"}
        request = request_bytes("POST", events_path(self.topic), headers, EVENT)
        outcomes = []
        with Connection(self.gateway.port) as connection:
            for _ in range(times):
                connection.send(request)
                outcomes.append(connection.answer().document["outcome"])
        return outcomes

    def page(self, path: str) -> Any:
        return exchange(self.gateway.management_port, "GET", path).document

    def metric(self) -> dict[str, int]:
        """Workers by the state that they see."""
        text = exchange(self.gateway.management_port, "GET", "/metrics").body.decode()
        line = rf'^headgate_suppression_state{{state="(\w+)",topic="{self.topic}"}} (\S+)$'
        return {state: int(float(count)) for state, count in re.findall(line, text, re.M)}

    def redis(self) -> dict[str, Any]:
        """What /ready of all workers says of Redis."""
        found: dict[str, Any] = self.page("/ready")["dependencies"]["redis"]
        return found

    def suppression(self) -> list[Any]:
        """What the topic's page, the list of topics, and the producer's page say."""
        (row,) = (r for r in self.page("/v1/topics")["topics"] if r["topic"] == self.topic)
        (own,) = (r for r in self.page("/v1/producers/shop")["topics"] if r["topic"] == self.topic)
        page = self.page(f"/v1/topics/{self.topic}")
        return [one["suppression"] for one in (page, row, own)]

    def logged(self) -> tuple[int, int]:
        """Lines of the log that tell the begin of a quarantine, and that tell its end."""
        log = self.gateway.log()
        begun = log.count(f"suppression: {self.topic}: quarantine")
        return begun, log.count(f"{self.topic}: active")

    def all_see(self, state: str) -> bool:
        return self.metric().get(state) == WORKERS


async def test_a_quarantine_is_seen_everywhere_while_it_lasts(
    kafka: RunningBroker,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    server = start_redis()
    for name in (topic_name, f"{topic_name}-plain"):
        kafka.create_topic(name, 3)
    config = CONFIG.format(bootstrap=kafka.bootstrap, redis=server.url, topic=topic_name)
    gateway = start_gateway(config, "--workers", str(WORKERS))
    seen = Watched(gateway, topic_name)
    await eventually(lambda: seen.all_see("on"), 30)
    await eventually(lambda: seen.logged() == (WORKERS, WORKERS))
    assert seen.post(3) == ["published", "unchanged", "unchanged"]
    # known to the parent within a second
    await eventually(lambda: seen.page("/v1/producers/shop")["topics"])
    assert_on(seen)

    server.kill()
    await eventually(lambda: seen.all_see("away"))
    assert {one["state"] for one in seen.suppression()} == {"away"}
    assert (seen.redis()["ok"], seen.post(1)) == (False, ["published"])

    server.restart()
    await eventually(lambda: seen.all_see("quarantine"))
    assert seen.post(3) == ["published"] * 3
    assert seen.metric() == {"on": 0, "quarantine": WORKERS, "away": 0}
    for one in seen.suppression():
        assert one["state"] == "quarantine"
        assert 0 < one["until_s"] <= QUARANTINE_S
    redis = seen.redis()
    told = re.fullmatch(
        r"connected; 1 topic suppresses nothing for up to (\d+) s \(quarantine\)", redis["detail"]
    )
    assert told, redis
    assert 0 < int(told[1]) <= QUARANTINE_S
    assert (redis["ok"], seen.page("/ready")["status"]) == (True, "ready")
    one_worker = exchange(gateway.port, "GET", "/ready")  # on the data port, of itself
    assert one_worker.status == 200
    assert "1 topic suppresses nothing" in one_worker.document["dependencies"]["redis"]["detail"]
    plain = seen.page(f"/v1/topics/{topic_name}-plain")
    assert plain["suppression"] == {"state": "off", "until_s": None}
    await eventually(lambda: seen.logged()[0] == 2 * WORKERS)
    assert seen.logged() == (2 * WORKERS, WORKERS), "the quarantine was over before it was seen"

    await eventually(lambda: seen.all_see("on"), 30)
    assert seen.post(3)[1:] == ["unchanged"] * 2
    assert_on(seen)
    await eventually(lambda: seen.logged() == (2 * WORKERS, 2 * WORKERS))


def assert_on(seen: Watched) -> None:
    assert seen.metric() == {"on": WORKERS, "quarantine": 0, "away": 0}
    assert seen.suppression() == [{"state": "on", "until_s": None}] * 3
    assert seen.redis() == {"ok": True, "required": False, "detail": "connected"}
