"""Clients that are many, slow or silent: what they cost, and whether others are still served."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import (
    JSON,
    Answer,
    Connection,
    events_path,
    figure,
    post,
    request_bytes,
)
from support.gateway.bad_input_world import reason
from support.process.stack import Gateway, RunningBroker, eventually
from support.scale import scaled

pytestmark = pytest.mark.kafka

KIB, MIB = 2**10, 2**20
CONFIG = """
[http]
body_timeout_ms = 3000
[admission]
in_flight_max_bytes = 1000000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[topics."{topic}"]
key = ["/id"]
"""
EVENT = b'{"id":1}'
NDJSON = {"Content-Type": "application/x-ndjson", "Headgate-Producer": "reads-nothing"}
WRITES_SLOWLY = {**JSON, "Headgate-Producer": "writes-slowly"}
OTHER = {**JSON, "Headgate-Producer": "other"}


@pytest.fixture
def gateway(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> Gateway:
    kafka.create_topic(topic_name, 3)
    return start_gateway(CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name))


def worker_of(gateway: Gateway) -> psutil.Process:
    (worker,) = psutil.Process(gateway.pid).children()
    return worker


def served(gateway: Gateway, topic: str) -> Answer:
    """Another producer's event, which must be published."""
    answer = post(gateway.port, topic, EVENT, OTHER)
    assert answer.status == 201, answer
    return answer


@contextmanager
def grows_at_most(worker: psutil.Process, most: int) -> Iterator[None]:
    before = worker.memory_info().rss
    yield
    grown = worker.memory_info().rss - before
    assert grown < most, f"{grown / MIB:.1f} MiB"


# Measured: 5,000 take 31 MiB (loadtest/README.md), so 6.4 KiB each; and pages that 1,000 do not
# fill are in it.
@pytest.mark.parametrize("count", scaled(1000, 10_000))
def test_idle_connections_cost_little_memory_and_no_time(
    gateway: Gateway, topic_name: str, count: int
) -> None:
    served(gateway, topic_name)
    worker = worker_of(gateway)
    with ExitStack() as ending:
        with grows_at_most(worker, count * 12 * KIB + 4 * MIB):
            for _ in range(count):
                opened = ending.enter_context(socket.create_connection((LOOPBACK, gateway.port)))
            opened.settimeout(30.0)
            opened.sendall(request_bytes("POST", events_path(topic_name), OTHER, EVENT))
            assert opened.recv(12) == b"HTTP/1.1 201", "the last one is accepted"
        before = sum(worker.cpu_times()[:2])
        time.sleep(2.0)
        spent = sum(worker.cpu_times()[:2]) - before
        assert spent < 0.5, f"{spent:.2f} s of processor time in 2 s of silence"
        served(gateway, topic_name)


def test_who_reads_no_answers_takes_bounded_memory_and_holds_nobody_up(
    gateway: Gateway, topic_name: str
) -> None:
    """Each answer is larger than its request: without a bound they would pile up in memory."""
    batch = b"".join(b'{"id":%d}\n' % number for number in range(100))
    request = request_bytes("POST", events_path(topic_name), NDJSON, batch)
    served(gateway, topic_name)
    with ExitStack() as ending:
        silent = []
        for _ in range(20):
            one = ending.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect((LOOPBACK, gateway.port))
            one.setblocking(False)
            silent.append(one)
        # Of each: 64 KiB of answers that wait, as much that was read, what pauses reading.
        with grows_at_most(worker_of(gateway), 20 * MIB):
            sent = dict.fromkeys(silent, 0)
            until_quiet(silent, request, sent)
            assert all(size > len(request) for size in sent.values())
            served(gateway, topic_name)
        assert all(size < 8 * MIB for size in sent.values()), "nobody is read without an end"


def until_quiet(
    silent: list[socket.socket], request: bytes, sent: dict[socket.socket, int]
) -> None:
    """Send requests, and read nothing, until the gateway reads nothing more for a second."""
    parts = dict.fromkeys(silent, b"")
    progress_at = time.monotonic()
    while time.monotonic() < progress_at + 1.0:
        for one in silent:
            part = parts[one] or request
            try:
                size = one.send(part)
            except BlockingIOError:
                continue
            parts[one], sent[one] = part[size:], sent[one] + size
            progress_at = time.monotonic()
            assert sent[one] < 8 * MIB, "it is read without an end"
        time.sleep(0.001)


async def test_bodies_that_trickle_hold_their_share_of_the_budget_and_end_in_time(
    gateway: Gateway, topic_name: str
) -> None:
    served(gateway, topic_name)
    start = request_bytes("POST", events_path(topic_name), WRITES_SLOWLY, b"{", length="100000")
    with ExitStack() as ending:
        slow = [ending.enter_context(Connection(gateway.port)) for _ in range(12)]
        for one in slow:
            one.send(start)
        refused = [one for one in slow if not one.silence(0.2)]
        for one in refused:
            answer = one.answer()
            assert reason(answer) == (503, "overloaded")
        assert len(refused) == 4, "a fifth of the budget is kept for others"
        assert answer.document["producer"] == "writes-slowly"
        served(gateway, topic_name)
        for one in set(slow) - set(refused):
            assert reason(one.answer()) == (408, "request_timeout")
    management = gateway.management_port
    await eventually(lambda: figure(management, "headgate_in_flight_bytes") == 0.0)
