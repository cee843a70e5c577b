"""The second tier in /ready: shown, and never a reason to refuse events."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.clients.http_client import JSON, exchange, post
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

CONFIG = """
[clusters.main]
bootstrap_servers = ["{main}"]
backfill = "cold"
[clusters.cold]
bootstrap_servers = ["{cold}"]
tier = "backfill"
[topics."{topic}"]
key = ["/id"]
"""


async def test_a_second_tier_that_is_unavailable(
    kafka: RunningBroker,
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    cold = start_broker()
    kafka.create_topic(topic_name)
    config = CONFIG.format(main=kafka.bootstrap, cold=cold.bootstrap, topic=topic_name)
    gateway = start_gateway(config)

    def shown(port: int) -> tuple[int, str, dict[str, object]]:
        answer = exchange(port, "GET", "/ready")
        return answer.status, answer.document["status"], answer.document["dependencies"]

    ports = (gateway.port, gateway.management_port)
    well = {"ok": True, "required": False, "detail": "connected"}
    for port in ports:
        await eventually(lambda port=port: shown(port)[1] == "ready", 30)  # type: ignore[misc]
        assert shown(port)[2]["backfill cold"] == well
    cold.kill()
    for port in ports:
        await eventually(lambda port=port: shown(port)[1] == "degraded", 40)  # type: ignore[misc]
        await eventually(lambda port=port: "nothing listens" in str(shown(port)[2]), 40)  # type: ignore[misc]
        status, _, dependencies = shown(port)
        assert status == 200
        assert dependencies["backfill cold"] == {
            "ok": False,
            "required": False,
            "detail": "no answer: nothing listens there (see clusters.cold.bootstrap_servers)",
        }
        assert dependencies["kafka main"] == {"ok": True, "required": True, "detail": "connected"}
    assert post(gateway.port, topic_name, b'{"id": 1}', JSON).status == 201
    cold.restart()
    for port in ports:
        await eventually(lambda port=port: shown(port)[2]["backfill cold"] == well, 40)  # type: ignore[misc]
