"""`headgate serve` with real workers, Kafka and Redis: what the management port says of them."""

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from headgate.devstack.ports import LOOPBACK
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port
from support.scale import scaled

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[redis]
url = "{redis}"
namespace = "{namespace}"
quarantine_ms = 1
[producers.shop]
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""


def call(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    """The answer's status and JSON (text where it is none)."""
    connection = HTTPConnection(LOOPBACK, port, timeout=60)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        text = answer.read().decode()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(text) if is_json else text
    finally:
        connection.close()


def post(port: int, topic: str, event: object, producer: str = "shop") -> tuple[int, Any]:
    headers = {"Content_Type": "application/json", "Headgate_Producer": producer}
    return call(port, "POST", f"/v1/topics/{topic}/events", json.dumps(event).encode(), **headers)


def counted(gateway: Gateway) -> float:
    """All events that /metrics has counted."""
    _, text = call(gateway.management_port, "GET", "/metrics")
    return sum(map(float, re.findall(r"^headgate_events_total\{.*\} (\S+)$", text, re.MULTILINE)))


@pytest.fixture
def config(kafka: RunningBroker, redis_server: RunningRedis, topic_name: str) -> str:
    kafka.create_topic(topic_name, 6)
    return CONFIG.format(
        bootstrap=kafka.bootstrap, redis=redis_server.url, namespace=topic_name, topic=topic_name
    )


def outcome(gateway: Gateway, topic: str, event: object) -> str:
    return str(post(gateway.port, topic, event)[1]["outcome"])


async def test_figures_and_pages_of_two_workers(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str
) -> None:
    gateway = start_gateway(config, "--workers", "2")
    posted = Counter({"rejected:missing_key": 1})
    for number in range(30):
        posted[outcome(gateway, topic_name, {"id": number % 3, "n": number})] += 1
    while not posted["unchanged"]:  # the last one's settlement is on its way to Redis
        posted[outcome(gateway, topic_name, {"id": 2, "n": 29})] += 1
    assert post(gateway.port, topic_name, {"n": 1})[1]["reason"] == "missing_key"
    await eventually(lambda: counted(gateway) == posted.total())

    def page_with_details() -> Any:
        """Details may be a second older than the numbers."""
        (page,) = call(gateway.management_port, "GET", "/v1/producers/shop")[1]["topics"]
        return page["recent_rejects"] and page["keys"]["cardinality"] == 3 and page

    page = await eventually(page_with_details)
    assert page["events_total"] == posted
    assert page["recent_rejects"][0]["reason"] == "missing_key"
    _, topics = call(gateway.management_port, "GET", "/v1/topics")
    (topic,) = topics["topics"]
    assert (topic["topic"], topic["partitions"]) == (topic_name, 6)
    assert topic["policy"]["suppress"] == "raw"
    assert topic["skew"]["judged"]
    _, text = call(gateway.management_port, "GET", "/metrics")
    assert f'headgate_ack_seconds_count{{topic="{topic_name}"}}' in text
    assert 'route="/v1/topics/{topic}/events",status="201"' in text


async def test_forgotten_keys_are_published_again(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str
) -> None:
    gateway = start_gateway(config, "--workers", "2")
    ids = ["a/b", "other"]
    for one in ids:
        await eventually(lambda one=one: outcome(gateway, topic_name, {"id": one}) == "unchanged")
    path = f"/v1/suppression/{topic_name}?key={quote('a/b', safe='')}"
    _, answer = await eventually(
        lambda: (found := call(gateway.management_port, "DELETE", path))[0] == 200 and found
    )
    assert answer["forgotten"]["key"] == "a/b"
    assert outcome(gateway, topic_name, {"id": "a/b"}) == "published"
    assert outcome(gateway, topic_name, {"id": "other"}) == "unchanged"
    path = f"/v1/suppression/{topic_name}"
    await eventually(lambda: call(gateway.management_port, "DELETE", path)[0] == 200)
    assert outcome(gateway, topic_name, {"id": "other"}) == "published"


@pytest.mark.parametrize("kills", scaled(1, 2))
async def test_totals_never_go_back_when_workers_are_killed_under_traffic(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str, kills: int
) -> None:
    gateway = start_gateway(config, "--workers", "2")
    numbers, stopped = count(), []

    def traffic() -> int:
        answered = 0
        while not stopped:
            try:
                number = next(numbers)
                answered += post(gateway.port, topic_name, {"id": number, "n": number})[0] == 201
            except (OSError, HTTPException):
                continue  # its worker was killed
        return answered

    readings = []
    with ThreadPoolExecutor(3) as pool:
        posting = [pool.submit(traffic) for _ in range(3)]
        try:
            for _ in range(kills):
                readings.append(counted(gateway))
                victim = min(gateway.pids[1:])
                psutil.Process(victim).send_signal(signal.SIGKILL)
                await eventually(
                    lambda: readings.append(counted(gateway)) or len(readings) % 20 == 0
                )
                # which the parent has noticed, so that it counts the next one
                await eventually(lambda pid=victim: pid not in gateway.pids, 30)
                await eventually(lambda: _up(gateway) == 2, 30)
        finally:
            stopped.append(True)
        answered = sum(each.result() for each in posting)
    readings.append(counted(gateway))
    assert readings == sorted(readings)
    assert readings[-1] > readings[0]
    # What was answered in a killed worker's last second may be missing, nothing else.
    assert answered > 0
    _, text = call(gateway.management_port, "GET", "/metrics")
    assert f"headgate_worker_restarts_total {kills}.0" in text


def _up(gateway: Gateway) -> int:
    return int(call(gateway.management_port, "GET", "/ready")[1]["workers"]["up"])


async def test_reload_names_a_new_producer_in_every_worker(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str
) -> None:
    gateway = start_gateway(config, "--workers", "2")
    posted = count(1)
    post(gateway.port, topic_name, {"id": next(posted)}, producer="till")
    gateway.config.write_text(config + "[producers.till]\n")
    gateway.reload()
    await eventually(lambda: call(gateway.management_port, "GET", "/v1/producers/till")[0] == 200)

    def is_named() -> bool:
        post(gateway.port, topic_name, {"id": next(posted)}, producer="till")
        return published(gateway, "till") > 0

    await eventually(is_named)
    total = next(posted) - 1
    await eventually(lambda: published(gateway, "till") + published(gateway, "other") == total)
    assert published(gateway, "other") >= 1


def published(gateway: Gateway, producer: str) -> int:
    topics = call(gateway.management_port, "GET", f"/v1/producers/{producer}")[1]["topics"]
    return sum(topic["events_total"]["published"] for topic in topics)


async def test_data_and_management_share_one_port(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str
) -> None:
    port = free_port()
    merged = {"HEADGATE_HTTP__MANAGEMENT_PORT": str(port), "HEADGATE_HTTP__PORT": str(port)}
    start_gateway(config, "--workers", "2", environment=merged, wait=False)
    await eventually(lambda: _status(port, "/ready") == 200, 30)
    assert post(port, topic_name, {"id": 1})[0] == 201
    await eventually(lambda: call(port, "GET", "/v1/producers/shop")[1]["topics"])
    assert "headgate_events_total" in call(port, "GET", "/metrics")[1]
    await eventually(lambda: call(port, "DELETE", f"/v1/suppression/{topic_name}")[0] == 200)
    assert call(port, "GET", "/v1/nothing")[1]["reason"] == "not_found"


def _status(port: int, path: str) -> int:
    try:
        return call(port, "GET", path)[0]
    except OSError:
        return 0


async def test_the_start_names_configured_topics_that_do_not_exist(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str, tmp_path: Path
) -> None:
    """Once, by the first worker; patterns may match nothing."""
    missing = f'[topics."{topic_name}-gone"]\nkey = ["/id"]\n[topics."{topic_name}-any-*"]\n'
    start_gateway(config + missing, "--workers", "2")

    def warnings() -> list[str]:
        (log,) = tmp_path.rglob("gateway.log")
        lines = log.read_text().splitlines()
        return [line for line in lines if "configured topics do not exist in Kafka" in line]

    (line,) = await eventually(warnings)
    assert f"in Kafka: {topic_name}-gone. Posts" in line


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
async def test_a_single_worker_that_ends_refuses_no_connection(
    start_gateway: Callable[..., Gateway], config: str, topic_name: str, sent: signal.Signals
) -> None:
    """Its successor inherits the listening socket, where connections wait meanwhile."""
    gateway = start_gateway(config, "--workers", "1")
    assert post(gateway.port, topic_name, {"id": "before"})[0] == 201
    (victim,) = psutil.Process(gateway.pid).children()
    ended = asyncio.Event()

    async def send_and_end() -> None:
        victim.send_signal(sent)
        await eventually(lambda: not psutil.pid_exists(victim.pid), 30)
        ended.set()

    async def post_on_new_connection(number: int) -> int:
        reader, writer = await asyncio.open_connection(LOOPBACK, gateway.port)
        try:
            body = b'{"id": %d}' % number
            writer.write(
                b"POST /v1/topics/%b/events HTTP/1.1\r\nHost: a\r\nHeadgate-Producer: shop\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
                % (topic_name.encode(), len(body), body)
            )
            return int((await reader.readline()).split()[1])
        finally:
            writer.close()

    ending = asyncio.create_task(send_and_end())
    if sent == signal.SIGKILL:  # its accepted connections are reset, later ones are not
        await ended.wait()
    posts = []
    for number in range(100):
        posts.append(asyncio.create_task(post_on_new_connection(number)))
        await asyncio.sleep(0.02)
    results = await asyncio.gather(*posts, return_exceptions=True)
    await ending
    statuses = Counter(map(repr, results))
    if sent == signal.SIGTERM:
        del statuses["503"]  # of the worker that drains
    assert statuses.keys() == {"201"}
    gateway.stop()
    with pytest.raises(ConnectionRefusedError):
        post(gateway.port, topic_name, {"id": "after"})
