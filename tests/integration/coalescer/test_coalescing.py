"""Coalescing from end to end: gateway, held topic, coalescer, topic."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.gateway.coalescing_gateway import QUIET_MS, Client, config_text, last_values, run_init
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually


@pytest.fixture
def gateway(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> Gateway:
    kafka.create_topic(topic_name, 3)
    text = config_text(kafka, redis_server.url, topic_name)
    config = tmp_path / "init.toml"
    config.write_text(text)
    done = run_init(config)
    assert done.returncode == 0, done
    return start_gateway(text)


@pytest.fixture
def client(gateway: Gateway, topic_name: str) -> Iterator[Client]:
    client = Client([gateway], topic_name)
    yield client
    client.close()


async def test_a_sequential_client_is_answered_held_and_its_last_state_is_published(
    kafka: RunningBroker, gateway: Gateway, client: Client, topic_name: str
) -> None:
    began = time.monotonic()
    for number in range(60):
        status, answer = client.post({"id": "d1", "n": number})
        assert status == 202, answer
        assert answer["outcome"] == "held"
        assert set(answer) == {"outcome", "topic", "key", "event_id"}
    took_ms = (time.monotonic() - began) * 1000
    client.post({"id": "d2", "n": 0})
    expected = {key: texts[-1] for key, texts in client.held.items()}
    await eventually(lambda: last_values(kafka, topic_name) == expected, 30, 0.3)
    log = kafka_log.read_log(kafka.bootstrap, topic_name)
    # A window lasts for the quiet time at least, so a slow machine has more of them in its burst.
    windows = 1 + took_ms // QUIET_MS
    assert len(log) <= max(4, windows + 1), [json.loads(one.value or b"") for one in log]


async def test_what_was_published_can_be_forgotten_by_hand(
    kafka: RunningBroker, gateway: Gateway, client: Client, topic_name: str
) -> None:
    def published() -> int:
        return len(kafka_log.read_log(kafka.bootstrap, topic_name))

    client.post({"id": "d1", "n": 1})
    await eventually(lambda: published() == 1, 30, 0.3)
    for query, records in (("?key=d1", 2), ("", 3)):
        path = f"/v1/suppression/{topic_name}{query}"
        status, answer = client.ask("DELETE", path, place=f"127.0.0.1:{gateway.management_port}")
        assert status == 200, answer
        client.post({"id": "d1", "n": 1})
        await eventually(lambda records=records: published() == records, 30, 0.3)
