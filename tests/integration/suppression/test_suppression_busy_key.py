"""Thousands of changes of one key wait for Kafka: Redis must not be held up by their tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from support.clients.http_client import NDJSON, post
from support.kafka.kafka_log import read_log
from support.process.redis_pings import Pings
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
REQUESTS = 4
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 1000
[redis]
url = "{redis}"
quarantine_ms = 500
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""


class Scale(NamedTuple):
    """events: of each request.  stopped_s, after_s: how long Kafka stands still, and then goes."""

    events: int
    stopped_s: float
    after_s: float


def event(request: int, number: int) -> bytes:
    return b'{"id":"busy","request":%d,"n":%d}' % (request, number)


def send(gateway: Gateway, topic: str, request: int, count: int) -> list[Any]:
    body = b"\n".join(event(request, number) for number in range(count))
    answer = post(gateway.port, topic, body, NDJSON, deadline_s=180.0).document
    outcomes: list[Any] = answer.get("outcomes") or [answer] * count
    return outcomes


async def passes(seconds: float) -> None:
    end = time.monotonic() + seconds
    await eventually(lambda: time.monotonic() > end, seconds + 10)


async def waits(gateway: Gateway, topic: str) -> None:
    """Wait until suppression works: what the quarantine leaves untrusted is another matter."""
    await eventually(
        lambda: post(gateway.port, topic, b'{"id":"x"}').document["outcome"] == "unchanged"
    )


@pytest.mark.parametrize(
    "scale",
    [
        Scale(2_000, 2.0, 2.0),
        pytest.param(Scale(9_000, 8.0, 20.0), marks=pytest.mark.full),
    ],
    ids=lambda scale: f"{REQUESTS * scale.events}",
)
async def test_redis_answers_while_one_key_has_many_publishes_under_way(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    record_property: Callable[[str, object], None],
    scale: Scale,
) -> None:
    broker, redis = start_broker(), start_redis()
    broker.create_topic(topic_name)
    gateway = start_gateway(
        CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url, topic=topic_name)
    )
    await waits(gateway, topic_name)
    pings = Pings(redis.url)
    with pings.running():
        broker.pause()
        try:
            sending = [
                asyncio.create_task(asyncio.to_thread(send, gateway, topic_name, n, scale.events))
                for n in range(REQUESTS)
            ]
            await passes(scale.stopped_s)
        finally:
            broker.resume()
        answers = await asyncio.gather(*sending)
        await passes(scale.after_s)
    figures = {
        "pings": pings.count,
        "worst_ping_ms": round(pings.worst_ms, 1),
        "worst_script_ms": round(pings.worst_script_ms, 1),
    }
    record_property("busy_key", figures)
    # Told, not asserted: whoever else uses the machine holds up Redis and who asks it. What bounds
    # a script is in tests/unit/suppression/test_suppression_bounds.py.
    print(figures)  # noqa: T201 a figure for tests/RESULTS.md
    check_log(await asyncio.to_thread(read_log, broker.bootstrap, topic_name), answers)
    assert pings.count


def check_log(log: list[Any], answers: list[list[Any]]) -> None:
    """Everything was published, is there once, where its answer says, and in order."""
    values = {record.offset: record.value for record in log if record.key == b"busy"}
    assert len(values) == len(set(values.values())) == sum(map(len, answers))
    for request, outcomes in enumerate(answers):
        told = [one.get("offset") for one in outcomes if one.get("outcome") == "published"]
        assert len(told) == len(outcomes), [one for one in outcomes if "offset" not in one][:3]
        assert told == sorted(told)
        assert [values[offset] for offset in told] == [
            event(request, number) for number in range(len(outcomes))
        ]
