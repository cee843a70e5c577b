"""The main attacks on a gateway that runs as it is installed: processes, Kafka, both ports."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from support.clients.http_client import JSON, ClosedError, Connection, events_path, exchange
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = [pytest.mark.kafka]

LIMIT = 5
CONFIG = """
[http]
idle_timeout_ms = 400
body_timeout_ms = 400
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 250
[auth]
mode = "token"
failed_attempts_per_minute = {limit}
[producers.shop]
token_sha256 = ["{digest}"]
topics = ["{topic}"]
roles = ["produce", "view", "operate"]
[topics."{topic}"]
key = ["/id"]
"""
TOKEN = {"Authorization": "Bearer shop-token-of-tests"}


@pytest.fixture
def gateway(
    kafka: RunningBroker, topic_name: str, start_gateway: Callable[..., Gateway]
) -> Gateway:
    kafka.create_topic(topic_name, 1)
    digest = hashlib.sha256(b"shop-token-of-tests").hexdigest()
    text = CONFIG.format(bootstrap=kafka.bootstrap, topic=topic_name, digest=digest, limit=LIMIT)
    return start_gateway(text)


def lines(gateway: Gateway) -> list[dict[str, Any]]:
    """The log so far."""
    text = (gateway.config.parent / "gateway.log").read_text()
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


async def test_attacks_on_an_installed_gateway(
    gateway: Gateway, kafka: RunningBroker, topic_name: str
) -> None:
    for port in (gateway.port, gateway.management_port):
        smuggle(port, topic_name)
        for start in (b"", b"POST / HTTP/1.1\r\nHost: x\r\nA: "):
            is_let_go(port, start)
    is_let_go(gateway.port, posting(topic_name, b"Content-Length: 99", b"{"), 408)
    for port, path in (
        (gateway.port, events_path(topic_name)), (gateway.management_port, "/v1/topics"),
    ):  # fmt: skip
        guess(port, path, "POST" if port == gateway.port else "GET")
    records = read_log(kafka.bootstrap, topic_name)
    assert [one.value for one in records] == [b'{"id":"good"}'], "the only event with a token"

    def told() -> int:
        return sum(one["logger"] == "headgate.attempts" for one in lines(gateway))

    await eventually(lambda: told() == 2)  # of each process that was attacked


def posting(topic: str, *fields: bytes) -> bytes:
    """A post whose last field is its body."""
    *given, body = fields
    start = f"POST {events_path(topic)} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    own = [b"Authorization: Bearer shop-token-of-tests", *given]
    return start.encode() + b"\r\n".join(own) + b"\r\n\r\n" + body


def smuggle(port: int, topic: str) -> None:
    hidden = posting(topic, b"Content-Length: 17", b'{"id":"smuggled"}')
    ends = b"0\r\n\r\n"
    size = b"Content-Length: %d" % (len(ends) + len(hidden))
    for coding in (b"chunked", b"gzip, chunked", b"chunked, identity", b"identity, chunked"):
        fields = [b"Transfer-Encoding: " + coding]
        for head in ([size, *fields], [*fields, size]):
            with Connection(port) as connection:
                connection.send(posting(topic, *head, ends + hidden))
                assert connection.answer().status == 400, head
                assert connection.is_closed(), head


def is_let_go(port: int, start: bytes, status: int | None = None) -> None:
    """A client that drips is answered so, or not at all, and its connection ends."""
    with Connection(port) as connection:
        connection.send(start)
        try:
            while connection.silence(0.05):
                connection.send(b"a" if start else b"")
            assert status is None or connection.answer().status == status
            assert connection.is_closed()
        except (ClosedError, ConnectionError):
            assert status is None


def guess(port: int, path: str, method: str) -> None:
    body = b'{"id":"good"}' if method == "POST" else b""
    good = exchange(port, method, path, {**JSON, **TOKEN}, body)
    assert good.status in (200, 201)
    found = []
    for number in range(LIMIT + 2):
        wrong = {**JSON, "Authorization": f"Bearer guess-{number}"}
        found.append(exchange(port, method, path, wrong, body))
    assert [one.status for one in found] == [401] * LIMIT + [429] * 2
    assert found[-1].headers["retry-after"] == "12"
    assert found[-1].document["reason"] == "too_many_attempts"
    still = exchange(port, "GET", "/v1/topics", TOKEN) if method == "GET" else None
    assert still is None or still.status == 200
