"""SIGTERM and kill -9 under load: nothing acknowledged is lost, and no process is left."""

import signal
import time
from collections.abc import Callable

import psutil
import pytest

from support.clients.fault_load import Load
from support.clients.http_client import (
    JSON,
    ClosedError,
    Connection,
    events_path,
    exchange,
    figure,
    request_bytes,
)
from support.gateway.bad_input_world import assert_problem, reason
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
drain_timeout_ms = 60000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[topics."{topic}"]
key = ["/id"]
"""


@pytest.fixture
def config(kafka: RunningBroker, topic_name: str) -> str:
    kafka.create_topic(topic_name, 3)
    return CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_sigterm_under_load(
    start_gateway: Callable[..., Gateway],
    kafka: RunningBroker,
    config: str,
    topic_name: str,
    workers: str,
) -> None:
    gateway = start_gateway(config, "--workers", workers)
    processes = [psutil.Process(pid) for pid in gateway.pids]
    load = Load(gateway.port, topic_name)
    with load.running():
        await eventually(lambda: load.outcomes()["published"] > 200)
        gateway.terminate()
        await eventually(lambda: gateway.exit_code is not None, 20)
        ended = time.monotonic()
        await eventually(lambda: load.outcomes(ended)["lost"] > 0)
    assert gateway.exit_code == 0, gateway.log()[-2000:]
    assert not [one for one in processes if lives(one)]
    assert set(load.outcomes()) <= {"published", "draining", "lost"}
    records = load.judge(kafka.bootstrap)
    # A connection that broke was idle or refused: every event that got in has its answer.
    assert len(records) == load.outcomes()["published"]
    assert "Traceback" not in gateway.log()


async def test_draining_refuses_what_comes_then_and_ends_what_was_there(
    start_gateway: Callable[..., Gateway],
    pausable: RunningBroker,
    topic_name: str,
) -> None:
    """With Kafka stopped the drain waits for the event under way; connections stay open."""
    pausable.create_topic(topic_name)
    gateway = start_gateway(CONFIG.format(bootstrap=pausable.bootstrap, topic=topic_name))

    def event(number: int) -> bytes:
        body = b'{"id":%d}' % number
        return request_bytes("POST", events_path(topic_name), JSON, body)

    with Connection(gateway.port) as in_flight, Connection(gateway.port) as idle:
        for connection in (in_flight, idle):
            connection.send(event(1))
            assert connection.answer().status == 201
        pausable.pause()
        in_flight.send(event(2))
        await eventually(lambda: figure(gateway.management_port, "headgate_in_flight_events") == 1)
        gateway.terminate()
        await eventually(lambda: is_draining(gateway.port))
        idle.send(event(3))
        answer = idle.answer()
        assert reason(answer) == (503, "draining")
        assert_problem(answer)
        assert answer.headers["connection"] == "close"
        assert idle.is_closed()
        assert int(answer.headers["retry-after"]) >= 1
        await eventually(lambda: exchange(gateway.management_port, "GET", "/ready").status == 503)
        pausable.resume()
        answer = in_flight.answer()
        assert (answer.status, answer.document["outcome"]) == (201, "published")
    await eventually(lambda: gateway.exit_code is not None, 20)
    assert gateway.exit_code == 0
    values = [one.value for one in read_log(pausable.bootstrap, topic_name)]
    assert values == [b'{"id":1}', b'{"id":1}', b'{"id":2}']


def lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def is_draining(port: int) -> bool:
    """Readiness says so a little earlier: then it still takes events."""
    answer = exchange(port, "POST", events_path("unknown"), JSON, b"{}")
    return reason(answer) == (503, "draining")


async def test_kill_9_of_a_worker_under_load(
    start_gateway: Callable[..., Gateway], kafka: RunningBroker, config: str, topic_name: str
) -> None:
    gateway = start_gateway(config, "--workers", "2")
    load = Load(gateway.port, topic_name, writers=8)
    with load.running():
        for _ in range(2):
            began = time.monotonic()
            await eventually(lambda began=began: load.outcomes(began)["published"] > 100)
            await eventually(lambda: len(gateway.pids) == 3)
            before = set(gateway.pids[1:])
            psutil.Process(min(before)).send_signal(signal.SIGKILL)
            killed = time.monotonic()
            await eventually(
                lambda before=before: (
                    len(set(gateway.pids[1:]) - before) == 1 and len(gateway.pids) == 3
                )
            )
            await eventually(lambda killed=killed: load.outcomes(killed)["published"] > 100)
            await eventually(lambda: up(gateway) == 2, 30)
    assert set(load.outcomes()) <= {"published", "lost"}
    load.judge(kafka.bootstrap)
    gateway.stop()
    assert gateway.exit_code == 0


def up(gateway: Gateway) -> int:
    try:
        answer = exchange(gateway.management_port, "GET", "/ready")
    except (OSError, ClosedError):
        return 0
    return int(answer.document["workers"]["up"])
