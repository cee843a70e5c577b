"""The spool with real Kafka: producers go on while it is away, in order and without a loss."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.clients.http_client import Answer, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, eventually
from support.spool.database import database_of

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
request_timeout_ms = 10000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
lane_stall_ms = 1500
[spool]
path = "{folder}"
[topics.deals]
key = ["/id"]
spool = true
spool_after_ms = 500
[topics.plain]
key = ["/id"]
"""


@pytest.fixture
def broker(start_broker: Callable[..., RunningBroker]) -> RunningBroker:
    broker = start_broker()
    broker.create_topic("deals", 3)
    broker.create_topic("plain", 1)
    return broker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def gateway(broker: RunningBroker, folder: Path, start_gateway: Callable[..., Gateway]) -> Gateway:
    return start_gateway(CONFIG.format(bootstrap=broker.bootstrap, folder=folder))


async def send(gateway: Gateway, number: int, key: int = 1, topic: str = "deals") -> Answer:
    body = json.dumps({"id": key, "n": number}).encode()
    return await asyncio.to_thread(post, gateway.port, topic, body)


def spool(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = exchange(gateway.management_port, "GET", "/v1/spool").document
    return found


async def until_drained(gateway: Gateway) -> None:
    await eventually(lambda: spool(gateway)["events"] == 0, 30, 0.1)


def numbers(log: list[LogRecord]) -> list[int]:
    return [json.loads(one.value or b"")["n"] for one in log]


async def test_producers_go_on_while_kafka_is_away_and_order_is_kept(
    broker: RunningBroker, gateway: Gateway
) -> None:
    assert (await send(gateway, 0)).status == 201
    broker.kill()
    first = await send(gateway, 1)
    assert first.status == 202, first.body
    assert first.document["outcome"] == "spooled"
    began = time.monotonic()
    for number in range(2, 40):
        assert (await send(gateway, number)).status == 202
    assert time.monotonic() - began < 10  # none of them waits for Kafka
    found = spool(gateway)
    assert found["state"]["ok"]
    assert found["events"] == 39
    assert gateway.is_ready()
    broker.restart()
    await until_drained(gateway)
    await eventually(lambda: send_published(gateway, 40), 30, 0.1)
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    assert [n for n in dict.fromkeys(numbers(log)) if n <= 39] == list(range(40))
    marked = {n for n, one in zip(numbers(log), log, strict=True) if one.header("hg-spooled")}
    assert set(range(2, 40)) <= marked  # the first may still have come from its lane
    assert 0 not in marked


async def send_published(gateway: Gateway, number: int) -> bool:
    return (await send(gateway, number)).status == 201


@pytest.mark.parametrize("away", ["killed", pytest.param("standing still", marks=pytest.mark.full)])
async def test_a_gateway_that_is_killed_and_begins_while_kafka_is_away_goes_on(
    broker: RunningBroker, gateway: Gateway, away: str
) -> None:
    assert (await send(gateway, 0)).status == 201
    await asyncio.sleep(2.5)  # it has read the topics, and notes them once a second
    if away == "killed":
        broker.kill()
    else:
        broker.pause()
    assert (await send(gateway, 1)).status == 202
    gateway.kill()
    gateway.restart()
    assert (await send(gateway, 2)).status == 202
    assert (await send(gateway, 2, topic="plain")).status == 503
    if away == "killed":
        broker.restart()
    else:
        broker.resume()
    await until_drained(gateway)
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    assert list(dict.fromkeys(numbers(log))) == [0, 1, 2]


async def test_what_a_gateway_left_can_be_listed_exported_and_published_by_another(
    broker: RunningBroker, gateway: Gateway, folder: Path
) -> None:
    assert (await send(gateway, 0)).status == 201
    broker.kill()
    for number in range(1, 30):
        assert (await send(gateway, number, key=number % 5)).status == 202
    gateway.kill()
    listed = command("list", str(folder)).stdout
    assert "deals" in listed
    assert "29" in listed
    exported = [json.loads(line) for line in command("export", str(folder)).stdout.splitlines()]
    assert sorted(json.loads(one["value"])["n"] for one in exported) == list(range(1, 30))
    broker.restart()
    drained = await asyncio.to_thread(
        command, "drain", str(folder), "--config", str(gateway.config), "--timeout", "60"
    )
    assert "done" in drained.stdout
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    for key in range(5):
        of_key = [n for n in dict.fromkeys(numbers(log)) if n and n % 5 == key]
        assert of_key == [n for n in range(1, 30) if n % 5 == key]


async def test_a_drain_says_what_it_could_not_publish(
    broker: RunningBroker, gateway: Gateway, folder: Path
) -> None:
    assert (await send(gateway, 0)).status == 201
    broker.kill()
    for number in range(1, 4):
        assert (await send(gateway, number)).status == 202
    gateway.kill()
    with database_of(folder) as database:
        changed = "CAST(x'00' || substr(events, 2) AS BLOB)"
        last = "(SELECT max(number) FROM chunks)"
        database.execute(f"UPDATE chunks SET events = {changed} WHERE number = {last}")
    database.close()
    broker.restart()
    arguments = ("drain", str(folder), "--config", str(gateway.config), "--timeout", "60")
    drained = await asyncio.to_thread(command, *arguments, code=1)
    assert "aside   cannot be published: 1 event" in drained.stdout
    assert "left    3 events" in drained.stdout
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    assert set(numbers(log)) == {0, 1, 2}


async def test_a_stop_with_sigterm_leaves_nothing_behind_that_was_answered(
    broker: RunningBroker, gateway: Gateway
) -> None:
    assert (await send(gateway, 0)).status == 201
    broker.pause()
    sending = [asyncio.create_task(send(gateway, number, number)) for number in range(1, 20)]
    await asyncio.sleep(0.1)
    await asyncio.to_thread(gateway.stop)
    answers = await asyncio.gather(*sending, return_exceptions=True)
    broker.resume()
    gateway.restart()
    await until_drained(gateway)
    log = await asyncio.to_thread(read_log, broker.bootstrap, "deals")
    told = [number for number, one in enumerate(answers, 1)
            if isinstance(one, Answer) and one.status in (201, 202)]  # fmt: skip
    assert told
    assert set(told) <= set(numbers(log))


def command(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    found = subprocess.run(
        [sys.executable, "-m", "headgate", "spool", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == code, found.stderr + found.stdout
    return found
