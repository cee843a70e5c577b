"""Gateways are restarted one after the other under clients that keep their connections."""

import asyncio
from collections.abc import Callable

import pytest

from support.clients.http_client import JSON, Connection, events_path, exchange, request_bytes
from support.clients.rolling_clients import RollingClients
from support.gateway.bad_input_world import reason
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[topics."{topic}"]
keyless = "spread"
"""


def delayed(milliseconds: int) -> dict[str, str]:
    return {"HEADGATE_HTTP__SHUTDOWN_DELAY_MS": str(milliseconds)}


@pytest.mark.parametrize(
    ("restarts", "delay_ms"), [(1, 1_000), pytest.param(20, 2_000, marks=pytest.mark.full)]
)
async def test_rolling_restarts_break_no_connection(
    start_gateway: Callable[..., Gateway],
    kafka: RunningBroker,
    topic_name: str,
    restarts: int,
    delay_ms: int,
) -> None:
    kafka.create_topic(topic_name, 3)
    config = CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name)
    both = [
        start_gateway(config, "--workers", "2", environment=delayed(delay_ms), wait=False)
        for _ in range(2)
    ]
    for gateway in both:
        gateway.wait()
    clients = RollingClients(both, topic_name, 16)
    async with clients.running():
        for _ in range(restarts):
            for gateway in both:
                before = clients.answered[gateway.port]
                await eventually(lambda g=gateway, n=before: clients.answered[g.port] > n + 100, 30)
                gateway.terminate()
                await eventually(lambda g=gateway: g.exit_code is not None, 30)
                assert gateway.exit_code == 0
                await asyncio.to_thread(gateway.restart)
    figures = f"{restarts} restarts of each: {dict(clients.counts)}, broken {clients.broken}"
    print(figures)  # noqa: T201 the figures of the run
    assert clients.broken == [], figures
    assert clients.counts["sent away"] >= 2 * restarts, figures
    for gateway in both:
        assert "Traceback" not in gateway.log()


async def test_a_leaving_gateway_serves_and_is_not_ready(
    start_gateway: Callable[..., Gateway],
    pausable: RunningBroker,
    topic_name: str,
) -> None:
    """A kept connection that was idle all the time is answered, too, up to the very end."""
    pausable.create_topic(topic_name)
    config = CONFIG.format(bootstrap=pausable.bootstrap, topic=topic_name)
    gateway = start_gateway(config, environment=delayed(600_000))
    event = request_bytes("POST", events_path(topic_name), JSON, b"{}")
    late_body = request_bytes("POST", events_path(topic_name), JSON, b"{", length="2")
    page = request_bytes("GET", "/live", {})

    def ready() -> list[int]:
        ports = (gateway.port, gateway.management_port)
        return [exchange(port, "GET", "/ready").status for port in ports]

    with (
        Connection(gateway.port) as kept,
        Connection(gateway.port) as pages,
        Connection(gateway.port) as in_flight,
        Connection(gateway.port) as idle,
        Connection(gateway.port) as slow,
    ):
        for connection in (kept, in_flight, idle, slow):
            connection.send(event)
            answer = connection.answer()
            assert (answer.status, "connection" in answer.headers) == (201, False)
        await eventually(lambda: ready() == [200, 200])
        gateway.terminate()
        await eventually(lambda: ready() == [503, 503])
        for connection, sent, status in ((kept, event, 201), (pages, page, 200)):
            connection.send(sent)
            answer = connection.answer()
            assert (answer.status, answer.headers["connection"]) == (status, "close")
            assert connection.is_closed()
        assert exchange(gateway.port, "POST", events_path(topic_name), JSON, b"{}").status == 201
        pausable.pause()
        in_flight.send(event)
        slow.send(late_body)
        assert slow.silence(0.5)
        gateway.terminate()  # the second one leaves the rest of the delay out
        answer = slow.answer()
        assert (*reason(answer), answer.headers["connection"]) == (503, "draining", "close")
        idle.send(event)
        answer = idle.answer()
        assert (*reason(answer), answer.headers["connection"]) == (503, "draining", "close")
        assert idle.is_closed()
        pausable.resume()
        answer = in_flight.answer()
        assert (answer.status, answer.headers["connection"]) == (201, "close")
        assert in_flight.is_closed()
    await eventually(lambda: gateway.exit_code is not None, 30)
    assert gateway.exit_code == 0
    assert "Traceback" not in gateway.log()
