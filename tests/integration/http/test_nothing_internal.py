"""With Kafka, Redis and the monitor away, no answer of any port says where they would be."""

from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import pytest

from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import JSON, Answer, exchange
from support.gateway.internals import internals_of
from support.process.stack import Gateway, free_port
from support.scenarios.replay_world import until

CONFIG = """
[http]
request_timeout_ms = 1000
[clusters.main]
bootstrap_servers = ["{host}:{nobody}"]
backfill = "cold"
[clusters.cold]
bootstrap_servers = ["{host}:{nobody}"]
tier = "backfill"
[redis]
url = "redis://{host}:{nobody}/0"
timeout_ms = 100
[monitor]
url = "http://{host}:{nobody}"
[topics.orders]
key = ["/id"]
[topics.deals]
key = ["/id"]
kind = "state"
suppress = "raw"
redis_loss = "refuse"
"""
DATA = [
    ("GET", "/ready", b""),
    ("GET", "/topics", b""),
    ("GET", "/topics/orders", b""),
    ("GET", "/topics/orders/partitions", b""),
    ("GET", "/v3/clusters", b""),
    ("POST", "/v1/topics/orders/events", b'{"id":1}'),
    ("POST", "/v1/topics/deals/events", b'{"id":1}'),
    ("POST", "/v1/bursts/b/commit", b""),
    ("POST", "/topics/orders", b'{"records":[{"value":1}]}'),
    ("POST", "/v3/clusters/c/topics/orders/records", b'{"value":{"type":"JSON","data":1}}'),
]
TRANSLATE = b'{"topic":"orders","to":"backfill","offsets":{"0":[1]}}'
MANAGEMENT = [
    ("GET", "/ready", b""),
    ("GET", "/v1/topics", b""),
    ("GET", "/v1/topics/orders", b""),
    ("GET", "/v1/groups", b""),
    ("GET", "/v1/groups/g", b""),
    ("GET", "/v1/audits/latest", b""),
    ("GET", "/v1/replays/r", b""),
    ("GET", "/v1/replays", b""),
    ("GET", "/v1/snapshots", b""),
    ("GET", "/v1/coverage/orders", b""),
    ("GET", "/v1/pauses/g", b""),
    ("DELETE", "/v1/suppression/deals", b""),
    ("POST", "/v1/offsets/translate", TRANSLATE),
    ("PUT", "/v1/pauses/g", b'{"scope":"all","reason":"r"}'),
]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    text = CONFIG.format(host=LOOPBACK, nobody=free_port())
    running = Gateway(tmp_path_factory.mktemp("gateway"), text, (), {})
    try:
        until(lambda: _is_live(running), bool)
        yield running
    finally:
        running.kill()


def _is_live(gateway: Gateway) -> bool:
    ports = (gateway.port, gateway.management_port)
    try:
        return all(exchange(port, "GET", "/live").status == 200 for port in ports)
    except (OSError, HTTPException):
        return False


def _assert_closed(answer: Answer) -> None:
    assert internals_of(answer) == [], answer


@pytest.mark.parametrize(("method", "path", "body"), DATA)
def test_the_data_port(gateway: Gateway, method: str, path: str, body: bytes) -> None:
    content_type = "application/vnd.kafka.json.v2+json" if path.startswith("/topics") else None
    headers = JSON if content_type is None else {"Content-Type": content_type}
    _assert_closed(exchange(gateway.port, method, path, headers, body))


@pytest.mark.parametrize(("method", "path", "body"), MANAGEMENT)
def test_the_management_port(gateway: Gateway, method: str, path: str, body: bytes) -> None:
    _assert_closed(exchange(gateway.management_port, method, path, JSON, body))


def test_the_log_says_where(gateway: Gateway) -> None:
    """Whoever operates the gateway must find what the clients are not told."""
    exchange(gateway.management_port, "GET", "/v1/groups")
    lines = until(lambda: _complaints(gateway), lambda found: len(found) >= 3)
    for what in ("cluster main", "Redis", "monitor"):
        assert any(what in line for line in lines), lines


def _complaints(gateway: Gateway) -> list[str]:
    log = Path(gateway.config.parent / "gateway.log").read_text()
    address = gateway.config.read_text().split('bootstrap_servers = ["')[1].split('"')[0]
    port = address.partition(":")[2]
    return [line for line in log.splitlines() if "WARNING" in line and port in line]
