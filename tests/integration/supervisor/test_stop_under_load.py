"""A gateway is stopped while clients connect: each accepted connection gets an answer."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.clients.http_client import JSON, ClosedError, Connection, events_path, request_bytes
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

CLIENTS = 30
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[topics."{topic}"]
keyless = "spread"
"""


class ConnectingClients:
    """Threads of which each opens a connection for each request, until no port is there.

    Attributes:
        ends: How requests ended: an HTTP status, or "broken" for a connection without an answer.
    """

    def __init__(self, port: int, request: bytes) -> None:
        self._port = port
        self._request = request
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self.ends: Counter[str] = Counter()

    def ask_until_refused(self) -> None:
        while not self._is_over.is_set():
            try:
                connection = Connection(self._port)
            except OSError:
                return
            with connection:
                try:
                    connection.send(self._request)
                    end = str(connection.answer().status)
                except (OSError, ClosedError):
                    end = "broken"
            with self._lock:
                self.ends[end] += 1

    def stop(self) -> None:
        self._is_over.set()


@pytest.mark.parametrize(
    ("plane", "rounds"),
    [("data", 2), ("management", 1), pytest.param("data", 20, marks=pytest.mark.full)],
)
async def test_no_accepted_connection_is_left_without_an_answer(
    start_gateway: Callable[..., Gateway],
    kafka: RunningBroker,
    topic_name: str,
    plane: str,
    rounds: int,
) -> None:
    kafka.create_topic(topic_name, 3)
    config = CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name)
    gateway = start_gateway(config, "--workers", "2")
    event = request_bytes("POST", events_path(topic_name), JSON, b"{}")
    page = request_bytes("GET", "/v1/topics", {"Connection": "close"})
    total: Counter[str] = Counter()
    for number in range(rounds):
        if number:
            await asyncio.to_thread(gateway.restart)
        if plane == "data":
            clients, good = ConnectingClients(gateway.port, event), "201"
        else:
            clients, good = ConnectingClients(gateway.management_port, page), "200"
        with ThreadPoolExecutor(CLIENTS) as threads:
            try:
                posting = [threads.submit(clients.ask_until_refused) for _ in range(CLIENTS)]
                await eventually(lambda c=clients, g=good: c.ends[g] > 10 * CLIENTS, 60)
                gateway.terminate()
                await eventually(lambda: gateway.exit_code is not None, 60)
            finally:
                clients.stop()
                await asyncio.to_thread(lambda p=posting: [one.result() for one in p])
        assert gateway.exit_code == 0
        total += clients.ends
    print(f"{rounds} stops: {dict(total)}")  # noqa: T201 the figures of the run
    assert total["broken"] == 0, total
