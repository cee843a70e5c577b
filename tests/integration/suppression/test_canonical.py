"""`suppress = "canonical"` with real Kafka and Redis: what counts as the same, small and large."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from redis import Redis

from support.clients.http_client import JSON, exchange
from support.gateway.quarantine import out_of_quarantine
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
namespace = "{topic}"
quarantine_ms = 1
timeout_ms = 5000
[topics."{topic}"]
kind = "state"
key = ["/id"]
suppress = "canonical"
ignore = ["/updated_at", "/audit/by"]
"""


@pytest.fixture
async def gateway(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> Gateway:
    kafka.create_topic(topic_name, 3)
    config = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    started = start_gateway(config)
    with Redis.from_url(redis_server.url) as redis:
        await eventually(lambda: out_of_quarantine(redis, topic_name, 1) == 1)
    return started


def post(gateway: Gateway, topic: str, body: bytes, **headers: str) -> Any:
    path = f"/v1/topics/{topic}/events"
    return exchange(gateway.port, "POST", path, {**JSON, **headers}, body, 60.0).document


def metric(gateway: Gateway, name: str, labels: str = "") -> float:
    text = exchange(gateway.management_port, "GET", "/metrics").body.decode()
    found = re.search(rf"^{name}{re.escape(labels)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def deal(number: int, options: int = 3, updated_at: str = "2026-01-01") -> dict[str, Any]:
    """600 options are 800 kB, as in incident A."""
    text = "cancellation free of charge until the day before arrival, " * 20
    return {
        "id": "d1",
        "updated_at": updated_at,
        "audit": {"by": updated_at, "rounds": number},
        "options": [
            {"id": index, "name": f"Zimmer für {index}", "on": True, "price": 19.5, "text": text}
            for index in range(options)
        ],
    }


def shuffled(value: Any, chance: random.Random) -> Any:
    """The same value with the names of every object in another order."""
    if isinstance(value, dict):
        names = list(value)
        chance.shuffle(names)
        return {name: shuffled(value[name], chance) for name in names}
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


def other_spelling(value: Any, seed: int) -> bytes:
    """Another order, other blanks, other escapes."""
    indent = seed % 2 or None
    return json.dumps(shuffled(value, random.Random(seed)), indent=indent).encode()


async def unchanged(gateway: Gateway, topic: str, body: bytes, offset: int) -> None:
    """It is, as soon as the settlement of what was published is in Redis: within a moment."""

    def is_unchanged() -> bool:
        answer = post(gateway, topic, body)
        return bool((answer["outcome"], answer["offset"]) == ("unchanged", offset))

    await eventually(is_unchanged)


async def test_the_same_value_is_unchanged_however_it_is_spelled(
    gateway: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    body = json.dumps(deal(1)).encode()
    assert post(gateway, topic_name, body)["outcome"] == "published"
    await unchanged(gateway, topic_name, body, 0)
    for seed in range(4):
        again = other_spelling(deal(1, updated_at=f"2026-02-0{seed}"), seed)
        assert again != body
        assert post(gateway, topic_name, again)["outcome"] == "unchanged"
    changed = other_spelling(deal(2), 1)
    answer = post(gateway, topic_name, changed)
    assert (answer["outcome"], answer["offset"]) == ("published", 1)
    assert [record.value for record in read_log(kafka.bootstrap, topic_name)] == [body, changed]
    name, labels = "headgate_canonical_fallbacks_total", f'{{reason="number",topic="{topic_name}"}}'
    assert metric(gateway, name, labels) == 0


async def test_where_parsing_forgets_bytes_are_compared_and_that_is_counted(
    gateway: Gateway, topic_name: str
) -> None:
    bodies = [b'{"id":"n","n":1234567890123456789%d}' % last for last in (1, 2)]
    bodies += [b'{"id":"n","n":9.00719925474099%d}' % last for last in (2, 3)]
    for body in bodies:
        assert post(gateway, topic_name, body)["outcome"] == "published"
    respelled = b'{"n":12345678901234567892,"id":"n"}'
    assert post(gateway, topic_name, respelled)["outcome"] == "published"
    name, labels = "headgate_canonical_fallbacks_total", f'{{reason="number",topic="{topic_name}"}}'
    await eventually(lambda: metric(gateway, name, labels) == 4)


async def test_a_large_document_is_compared_in_a_process_aside(
    gateway: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    body = json.dumps(deal(1, 600)).encode()
    assert 700_000 < len(body) < 1_000_000
    before = set(gateway.pids)
    assert post(gateway, topic_name, body)["outcome"] == "published"
    assert new_processes(gateway, before), "nothing was started"
    await unchanged(gateway, topic_name, body, 0)
    again = other_spelling(deal(1, 600, "2027-01-01"), 2)
    assert post(gateway, topic_name, again)["outcome"] == "unchanged"
    assert post(gateway, topic_name, other_spelling(deal(2, 600), 2))["outcome"] == "published"
    assert [record.offset for record in read_log(kafka.bootstrap, topic_name)] == [0, 1]


async def test_a_small_event_does_not_overtake_a_large_one_of_its_key(
    gateway: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    events = [deal(number, 100 * (number % 3 == 0)) for number in range(30)]
    lines = b"\n".join(json.dumps(event).encode() for event in events)
    answer = post(gateway, topic_name, lines, **{"Content-Type": "application/x-ndjson"})
    assert answer["summary"] == {"published": 30}
    log = read_log(kafka.bootstrap, topic_name)
    assert [json.loads(record.value or b"")["audit"]["rounds"] for record in log] == [*range(30)]


async def test_events_survive_the_end_of_the_process_aside(
    gateway: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    before = set(gateway.pids)
    assert post(gateway, topic_name, json.dumps(deal(0, 100)).encode())["outcome"] == "published"
    for number in range(1, 6):
        for process in new_processes(gateway, before):
            process.kill()
        lines = [json.dumps(deal(10 * number + one, 100)).encode() for one in range(5)]
        headers = {"Content-Type": "application/x-ndjson"}
        answer = post(gateway, topic_name, b"\n".join(lines), **headers)
        assert answer["summary"] == {"published": 5}
    assert len(read_log(kafka.bootstrap, topic_name)) == 26


def new_processes(gateway: Gateway, before: set[int]) -> list[psutil.Process]:
    """The helper processes that were started since."""
    found = []
    for pid in set(gateway.pids) - before:
        try:
            process = psutil.Process(pid)
            if "headgate.offload.helper_main" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            pass
    return found
