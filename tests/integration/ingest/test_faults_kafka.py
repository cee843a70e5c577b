"""Kafka stops and dies under load: nothing acknowledged is lost, and refusals come early."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest

from support.clients.fault_load import Load
from support.clients.http_client import JSON, Connection, events_path, exchange, post, request_bytes
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 3000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[topics.deals]
kind = "state"
key = ["/id"]
"""
LANE_STALL_S = 1.5
SUPPRESS = """suppress = "raw"
[redis]
url = "{redis}"
quarantine_ms = 1
timeout_ms = 5000
"""
# Normal and full length of an outage in seconds; the stall after which lanes refuse is 1.5 s.
OUTAGES = [5, pytest.param(20, marks=pytest.mark.full)]


@pytest.fixture
def broker(start_broker: Callable[..., RunningBroker]) -> RunningBroker:
    broker = start_broker()
    broker.create_topic("deals", 3)
    return broker


@pytest.fixture
def gateway(broker: RunningBroker, start_gateway: Callable[..., Gateway]) -> Gateway:
    return start_gateway(CONFIG.format(bootstrap=broker.bootstrap))


async def go_down(broker: RunningBroker, how: str) -> None:
    if how == "stopped":
        broker.pause()
    else:
        await asyncio.to_thread(broker.kill)


async def come_back(broker: RunningBroker, how: str) -> None:
    if how == "stopped":
        broker.resume()
    else:
        await asyncio.to_thread(broker.restart)


@pytest.mark.parametrize("seconds", OUTAGES)
@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_outage_of_kafka_under_load(
    broker: RunningBroker, gateway: Gateway, how: str, seconds: float
) -> None:
    load = Load(gateway.port, "deals")
    with load.running():
        await eventually(lambda: load.outcomes()["published"] > 100)
        down = time.monotonic()
        await go_down(broker, how)
        # Every lane refuses, when each writer has been refused twice.
        await eventually(lambda: load.each_since(down, "kafka_unavailable", 2))
        # Within this span every request must be refused at once, without waiting for a deadline.
        steady = time.monotonic()
        await asyncio.sleep(max(1.0, down + seconds - steady))  # the outage's own length
        await eventually(lambda: load.each_since(steady, "kafka_unavailable", 2))
        early = time.monotonic()
        await eventually(lambda: exchange(gateway.port, "GET", "/ready").status == 503)
        assert exchange(gateway.port, "GET", "/live").status == 200
        await come_back(broker, how)
        back = time.monotonic()
        await eventually(lambda: load.each_since(back, "published", 15), 30)
        recovered = time.monotonic()
        await eventually(lambda: load.outcomes(recovered)["published"] > 50, 30)
    during = [one for one in load.sent if steady <= one.began and one.ended < early]
    assert during
    assert {one.outcome for one in during} == {"kafka_unavailable"}
    # Whoever waited for a lane took longer than that, each time.
    assert min(one.ended - one.began for one in during) < LANE_STALL_S
    refused = [one for one in load.sent if one.outcome == "kafka_unavailable"]
    assert {(one.status, one.retry_after is not None) for one in refused} == {(503, True)}
    assert {one.status for one in load.sent if one.outcome == "unknown"} <= {504}
    assert set(load.outcomes()) <= {"published", "kafka_unavailable", "unknown", "overloaded"}
    assert set(load.outcomes(recovered)) == {"published"}
    load.judge(broker.bootstrap)


async def test_client_that_leaves_while_kafka_is_silent(
    broker: RunningBroker,
    start_gateway: Callable[..., Gateway],
    start_redis: Callable[..., RunningRedis],
) -> None:
    """Nobody waits for the answer; the event is written, counted and settled all the same."""
    text = (CONFIG + SUPPRESS).format(bootstrap=broker.bootstrap, redis=start_redis().url)
    text = text.replace("request_timeout_ms = 3000", "request_timeout_ms = 60000")
    text = text.replace("lane_stall_ms = 1500", "lane_stall_ms = 60000")
    gateway, answered = start_gateway(text), Counter[str]()

    def is_unchanged(body: bytes) -> bool:
        outcome = post(gateway.port, "deals", body).document["outcome"]
        answered[outcome] += 1
        return bool(outcome == "unchanged")

    await eventually(lambda: is_unchanged(b'{"id":"warm"}'))
    left = b'{"id":"left"}'
    broker.pause()
    with Connection(gateway.port) as connection:
        connection.send(request_bytes("POST", events_path("deals"), JSON, left))
        await eventually(lambda: metric(gateway, "headgate_in_flight_events") == 1)
        connection.reset()
    assert exchange(gateway.port, "GET", "/live").status == 200
    broker.resume()
    await eventually(lambda: published(gateway) == answered["published"] + 1)
    assert is_unchanged(left), "its end was settled, though nobody heard of it"
    assert [one.value for one in read_log(broker.bootstrap, "deals")].count(left) == 1


def published(gateway: Gateway) -> float:
    return metric(gateway, "headgate_events_total", 'outcome="published"')


def metric(gateway: Gateway, name: str, label: str = "") -> float:
    """The sum of a metric's values whose labels have this."""
    text = exchange(gateway.management_port, "GET", "/metrics").body.decode()
    lines = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in lines if label in line)
