"""A real gateway whose spool is deleted or damaged under it: nothing answered 202 is lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headgate.spool.database import FILE
from headgate.spool.folders import kept_in
from support.clients.http_client import Answer, exchange, post
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, eventually
from support.spool.damage import LOG, overwrite

pytestmark = pytest.mark.kafka

CONFIG = """
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
"""


async def send(gateway: Gateway, number: int) -> Answer:
    body = json.dumps({"id": 1, "n": number}).encode()
    return await asyncio.to_thread(post, gateway.port, "deals", body)


def spool(gateway: Gateway) -> dict[str, Any]:
    found: dict[str, Any] = exchange(gateway.management_port, "GET", "/v1/spool").document
    return found


def numbers(broker: RunningBroker) -> list[int]:
    log = read_log(broker.bootstrap, "deals")
    return list(dict.fromkeys(json.loads(one.value or b"")["n"] for one in log))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.fixture
def broker(start_broker: Callable[..., RunningBroker]) -> RunningBroker:
    broker = start_broker()
    broker.create_topic("deals", 3)
    return broker


@pytest.fixture
async def gateway(
    broker: RunningBroker, folder: Path, start_gateway: Callable[..., Gateway]
) -> Gateway:
    """With ten events on disk, and Kafka away."""
    gateway = start_gateway(CONFIG.format(bootstrap=broker.bootstrap, folder=folder))
    assert (await send(gateway, 0)).status == 201
    await asyncio.sleep(2.5)  # it notes what Kafka says of its topics
    broker.kill()
    for number in range(1, 11):
        assert (await send(gateway, number)).status == 202
    return gateway


async def test_a_file_that_is_deleted_under_it_ends_answers_of_202_and_is_told(
    broker: RunningBroker, gateway: Gateway, folder: Path
) -> None:
    (folder / FILE).unlink()
    answer = await send(gateway, 11)
    assert answer.status == 503
    assert answer.headers["retry-after"]
    assert "spool.db is gone" in answer.document["detail"]
    state = spool(gateway)["state"]
    assert not state["ok"]
    assert "restart the gateway when the spool is empty" in state["detail"]
    metrics = exchange(gateway.management_port, "GET", "/metrics").body.decode()
    assert 'headgate_dependency_up{dependency="spool"} 0' in metrics
    broker.restart()
    await eventually(lambda: spool(gateway)["events"] == 0, 30, 0.1)
    assert await asyncio.to_thread(numbers, broker) == list(range(11))
    gateway.kill()
    gateway.restart()
    assert (await send(gateway, 12)).status == 201
    assert spool(gateway)["state"]["ok"]


async def test_after_a_kill_a_damaged_log_is_kept_and_what_came_before_is_published(
    broker: RunningBroker, gateway: Gateway, folder: Path
) -> None:
    gateway.kill()
    log = folder / LOG
    overwrite(log, log.stat().st_size * 2 // 3, b"\x55" * 200)
    gateway.restart()
    assert "damaged-" in spool(gateway)["state"]["detail"]
    broker.restart()
    await eventually(lambda: spool(gateway)["events"] == 0, 30, 0.1)
    found = await asyncio.to_thread(numbers, broker)
    assert found == list(range(len(found)))
    assert len(found) > 3
    [kept] = kept_in(folder)
    assert (folder / kept / LOG).exists()
