"""A record that the network kept for longer than its token lives lands behind a newer one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from headgate.devstack.ports import LOOPBACK
from headgate.devstack.servers import BrokerPlan, KafkaInstallation
from support.clients.http_client import JSON, post
from support.kafka.kafka_log import read_log
from support.network.tcp_proxy import TcpProxy
from support.process.stack import (
    Gateway,
    RunningBroker,
    RunningRedis,
    eventually,
    free_port,
    single_node,
)

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
DELIVERY_MS = 1_000
HELD_S = 4.5  # a token lives for 2 x DELIVERY_MS, from when the event ended at the latest
CONFIG = """
[http]
request_timeout_ms = 1000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 1000
lane_stall_ms = 1000
metadata_refresh_ms = 500
[redis]
url = "{redis}"
timeout_ms = 2000
quarantine_ms = 500
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
A, B = b'{"id": "k", "price": 1}', b'{"id": "k", "price": 2}'


class World(NamedTuple):
    """Gateway `a` has the proxy between itself and Kafka, `b` has nothing."""

    broker: RunningBroker
    proxy: TcpProxy
    topic: str
    a: Gateway
    b: Gateway

    async def post(self, gateway: Gateway, body: bytes) -> str:
        answer = await asyncio.to_thread(post, gateway.port, self.topic, body, JSON)
        return str(answer.document.get("outcome") or answer.document["reason"])

    async def first_answer(self, gateway: Gateway, body: bytes) -> str:
        """The first that is no refusal: gateway a has to find its way to Kafka again."""

        async def answer() -> str | None:
            outcome = await self.post(gateway, body)
            return None if outcome == "kafka_unavailable" else outcome

        found = await eventually(answer, 20)
        assert found is not None
        return found

    async def suppresses(self, gateway: Gateway, body: bytes) -> None:
        async def is_unchanged() -> bool:
            return await self.post(gateway, body) == "unchanged"

        await eventually(is_unchanged, 20)

    async def log(self) -> list[bytes | None]:
        found = await asyncio.to_thread(read_log, self.broker.bootstrap, self.topic)
        return [record.value for record in found]

    async def newest_is(self, body: bytes) -> bool:
        return (await self.log())[-1] == body

    async def comes_back_to(self, body: bytes) -> None:
        """Suppression works again once gateway a's producer has a successor that wrote here."""
        for gateway in (self.a, self.b):
            await self.suppresses(gateway, body)
        assert await self.newest_is(body)


def two_addresses(folder: Path, inner: int, told: int) -> BrokerPlan:
    """A broker that tells those who come to port `inner` that it is at port `told`."""
    plan = single_node(folder)
    plain = f"PLAINTEXT://{plan.bootstrap}"
    controller = f"CONTROLLER://{LOOPBACK}:{plan.controller_port}"
    options = {
        "listeners": f"{plain},FAR://{LOOPBACK}:{inner},{controller}",
        "advertised.listeners": f"{plain},FAR://{LOOPBACK}:{told}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,FAR:PLAINTEXT",
    }
    return replace(plan, options=options)


@pytest.fixture
async def world(
    kafka_installation: KafkaInstallation,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
) -> AsyncIterator[World]:
    far, inner, redis = free_port(), free_port(), start_redis()
    broker = RunningBroker(kafka_installation, two_addresses(tmp_path / "broker", inner, far))
    try:
        await asyncio.to_thread(broker.wait)
        await asyncio.to_thread(broker.create_topic, topic_name)
        async with TcpProxy(far, inner) as proxy:
            gateways = []
            for bootstrap in (f"{LOOPBACK}:{far}", broker.bootstrap):
                text = CONFIG.format(bootstrap=bootstrap, redis=redis.url, topic=topic_name)
                gateways.append(start_gateway(text, wait=False))
            for gateway in gateways:
                await eventually(lambda one=gateway: asyncio.to_thread(one.is_ready), 30)
            yield World(broker, proxy, topic_name, *gateways)
            for gateway in gateways:
                gateway.kill()
    finally:
        broker.kill()


@pytest.mark.parametrize(
    ("new_too", "first"),
    [
        pytest.param(True, "a", id="all-held-a"),
        pytest.param(True, "b", id="all-held-b", marks=pytest.mark.full),
        pytest.param(False, "a", id="new-connections-pass-a", marks=pytest.mark.full),
        pytest.param(False, "b", id="new-connections-pass-b", marks=pytest.mark.full),
    ],
)
async def test_a_record_that_lands_behind_a_newer_one_is_seen(
    world: World, new_too: bool, first: str
) -> None:
    """first: which gateway is asked first once it has landed."""
    await world.suppresses(world.a, A)
    await world.suppresses(world.b, A)
    world.proxy.hold(new_too=new_too)
    assert await world.post(world.a, B) == "unknown"
    held = time.monotonic()
    await eventually(lambda: time.monotonic() > held + HELD_S, 2 * HELD_S)
    assert await world.post(world.b, A) == "published"
    before = await world.log()
    assert before[-1] == A
    world.proxy.release()
    if B in before:  # sent again in time, on a new connection: Kafka drops what was held
        assert not new_too
        await world.comes_back_to(A)
        return
    await eventually(lambda: world.newest_is(B), 20)
    gateway = world.a if first == "a" else world.b
    outcome = await world.first_answer(gateway, A)
    assert outcome == "published", f"the newest record is B, and A was answered {outcome}"
    # And then no more: the late one has landed, or never will.
    await world.comes_back_to(A)
