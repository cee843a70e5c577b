"""A gateway whose clock is two hours ahead, before a real Kafka."""

import asyncio
import os
import time
from pathlib import Path

import pytest

from headgate.config import load
from headgate.wiring.app import Worker
from support.clients.http_client import JSON, Answer, exchange
from support.process.stack import RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
port = {port}
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[topics."{topic}"]
key = ["/id"]
"""
AHEAD_MS = 7_200_000


async def test_a_clock_that_is_two_hours_ahead(
    kafka: RunningBroker, topic_name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic_name, 1)
    port, config, ahead_ms = free_port(), tmp_path / "headgate.toml", AHEAD_MS
    config.write_text(CONFIG.format(port=port, bootstrap=kafka.bootstrap, topic=topic_name))

    async def ask(method: str, path: str, body: bytes = b"") -> Answer:
        return await asyncio.to_thread(exchange, port, method, path, JSON, body)

    worker = Worker(load(config, os.environ), 1, None, lambda: int(time.time() * 1000) + ahead_ms)
    await worker.start()
    try:
        ready = await ask("GET", "/ready")
        assert ready.status == 200, ready
        await eventually(lambda: worker.topics.get(topic_name) is not None, 30)
        events = f"/v1/topics/{topic_name}/events"
        for _ in range(3):
            answer = await ask("POST", events, b'{"id":1}')
            assert (answer.status, answer.document["reason"]) == (503, "clock_wrong"), answer
            assert answer.document["retryable"]
            assert answer.headers["retry-after"]
        ready = await ask("GET", "/ready")
        assert (ready.status, ready.document["status"]) == (503, "not ready")
        assert not ready.document["dependencies"]["clock"]["ok"]
        lines = [one for one in caplog.messages if one.startswith("clock: ")]
        assert len(lines) == 1, lines
        ahead_ms = 0
        assert (await ask("POST", events, b'{"id":1}')).status == 201
        assert (await ask("GET", "/ready")).status == 200
    finally:
        await worker.drain()
