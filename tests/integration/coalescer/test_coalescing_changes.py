"""`coalesce_quiet_ms` comes and goes while events are held: nothing is lost, nothing goes back.

The held topic in Kafka decides whether events are held, so gateways with different files agree.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate.coalescer.partition import GROUP
from headgate.model.internal_topics import held_topic
from support.clients.http_client import exchange
from support.gateway.coalescing_gateway import Client, config_text, run_init
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

LONG_MS, SHORT_MS, PARTITIONS = 60_000, 300, 4
PROBE = {"id": "probe", "pad": "x" * 200}


class World:
    """A topic, its held topic, and gateways with files of their own."""

    def __init__(
        self,
        kafka: RunningBroker,
        redis: RunningRedis,
        topic: str,
        start: Callable[..., Gateway],
        folder: Path,
        ending: ExitStack,
    ) -> None:
        self.kafka, self.redis, self.topic = kafka, redis, topic
        self._start, self._ending = start, ending
        self._limit = 10_000
        self.config = folder / "init.toml"
        self.config.write_text(self.text(SHORT_MS))
        kafka.create_topic(topic, 3)
        self.init = run_init(self.config)
        assert self.init.returncode == 0, self.init

    def text(self, quiet_ms: int | None, **options: str) -> str:
        """quiet_ms: None = a file without coalescing."""
        text = config_text(self.kafka, self.redis.url, self.topic)
        lines = [one for one in text.splitlines() if not one.startswith("coalesce_")]
        if quiet_ms is not None:
            options = {"coalesce_quiet_ms": str(quiet_ms), **options}
        for name, value in options.items():
            lines = [one for one in lines if not one.startswith(f"{name} = ")]
            lines.append(f"{name} = {value}")
        return "\n".join([*lines, f"coalesce_partitions = {PARTITIONS}", ""])

    def gateway(self, quiet_ms: int | None) -> tuple[Gateway, Client]:
        gateway = self._start(self.text(quiet_ms))
        return gateway, self._ending.enter_context(closing(Client([gateway], self.topic)))

    async def reload(
        self, gateway: Gateway, client: Client, quiet_ms: int | None, **options: str
    ) -> None:
        """SIGHUP, and wait until it is in force: a limit on sizes comes with it."""
        self._limit = 90 if self._limit == 10_000 else 10_000
        status = 413 if self._limit == 90 else 202
        text = self.text(quiet_ms, max_bytes=str(self._limit), **options)
        gateway.config.write_text(text)
        gateway.reload()
        await eventually(lambda: client.post(PROBE)[0] in {status, 201 if status == 202 else 0}, 30)

    def values(self, key: str) -> list[int]:
        """The key's states in the topic, oldest first."""
        log = kafka_log.read_log(self.kafka.bootstrap, self.topic)
        return [json.loads(one.value or b"")["n"] for one in log if one.key == key.encode()]

    def page(self, gateway: Gateway) -> dict[str, Any]:
        path = f"/v1/topics/{self.topic}"
        found: dict[str, Any] = exchange(gateway.management_port, "GET", path).document
        return found

    def pages(self, gateway: Gateway) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = exchange(
            gateway.management_port, "GET", "/v1/topics"
        ).document["topics"]
        return found

    def v2(self, gateway: Gateway) -> str:
        """What Confluent's REST answers."""
        body = b'{"records": [{"key": "d1", "value": {"id": "d1"}}]}'
        headers = {"content-type": "application/vnd.kafka.json.v2+json"}
        return exchange(gateway.port, "POST", f"/topics/{self.topic}", headers, body).body.decode()

    async def is_drained(self) -> None:
        """Wait until the group has covered all that is held, as Kafka says."""
        names = {"bootstrap.servers": self.kafka.bootstrap, "group.id": GROUP}
        consumer = Consumer({**names, "enable.auto.commit": False})
        places = [TopicPartition(held_topic(self.topic), number) for number in range(PARTITIONS)]

        def covers_all() -> bool:
            committed = consumer.committed(places, timeout=10)
            ends = [consumer.get_watermark_offsets(one, timeout=10)[1] for one in places]
            return all(one.offset >= end for one, end in zip(committed, ends, strict=True) if end)

        try:
            await eventually(lambda: asyncio.to_thread(covers_all), 30, 0.3)
        finally:
            consumer.close()

    def lag(self, gateway: Gateway) -> int | None:
        found: int | None = (self.page(gateway).get("held") or {}).get("lag")
        return found


def metrics(gateway: Gateway) -> str:
    return exchange(gateway.management_port, "GET", "/metrics").body.decode()


def run_check(config: Path) -> str:
    command = [sys.executable, "-m", "headgate", "check", "--connect", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout


@pytest.fixture
def world(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> Iterator[World]:
    with ExitStack() as ending:
        yield World(kafka, redis_server, topic_name, start_gateway, tmp_path, ending)


async def test_what_is_held_when_the_option_goes_is_not_published_behind_what_comes_later(
    world: World,
) -> None:
    gateway, client = world.gateway(LONG_MS)
    assert client.post({"id": "d1", "n": 1})[0] == 202
    await world.reload(gateway, client, None)
    later = client.post({"id": "d1", "n": 2})
    await world.reload(gateway, client, SHORT_MS)
    assert client.post({"id": "end", "n": 0})[0] == 202
    await world.is_drained()
    assert world.values("end") == [0]
    assert world.values("d1") in ([1, 2], [2])
    assert later[0] == 202


async def test_gateways_of_different_minds_agree(world: World) -> None:
    """One has the option, one has not (an old file, or not reloaded yet)."""
    _, client = world.gateway(2000)
    _, other = world.gateway(None)
    assert client.post({"id": "d1", "n": 1})[0] == 202
    later = other.post({"id": "d1", "n": 2})
    assert client.post({"id": "end", "n": 0})[0] == 202
    await world.is_drained()
    assert world.values("end") == [0]
    assert world.values("d1") in ([1, 2], [2])
    assert later[0] == 202


async def test_the_option_may_be_gone_at_the_start_and_its_end_is_said(
    world: World, tmp_path: Path
) -> None:
    """Events are held and published at once; the log and `check` say so, and how that ends."""
    held = held_topic(world.topic)
    assert "every gateway sees it within 500 ms" in world.init.stdout
    gateway, client = world.gateway(None)

    def is_held() -> bool:  # once the parent has read what the worker sees
        rows = [one for one in world.pages(gateway) if one["topic"] == world.topic]
        return bool(rows) and rows[0]["held"] is not None

    await eventually(is_held)
    for number in range(3):
        assert client.post({"id": "d1", "n": number})[0] == 202
    await eventually(lambda: world.values("d1")[-1:] == [2], 30, 0.3)
    assert client.ask("POST", "/v1/bursts/b1/commit")[1]["topics"] == [world.topic]
    assert "this topic coalesces" in world.v2(gateway)
    assert gateway.log().count(f"still held, in {held}") == 1
    config = tmp_path / "check.toml"
    config.write_text(world.text(None))
    shown = run_check(config)
    assert f"still held, in {held}" in shown
    assert f"then delete {held}" in shown

    await eventually(lambda: world.lag(gateway) == 0, 30, 0.3)
    world.kafka.delete_topic(held)
    await eventually(lambda: client.post({"id": "d1", "n": 3})[0] == 201, 30, 0.1)
    await eventually(lambda: world.page(gateway)["held"] is None, 30, 0.1)
    assert world.values("d1")[-1] == 3
    assert held not in run_check(config)
    lag = f'headgate_held_lag{{topic="{world.topic}"}}'
    await eventually(lambda: lag not in metrics(gateway), 30, 0.3)


async def test_what_is_held_waits_for_its_section(world: World) -> None:
    """A topic without a section takes no events: nothing can come before what is held."""
    gateway, client = world.gateway(LONG_MS)
    assert client.post({"id": "d1", "n": 1})[0] == 202
    text = world.text(LONG_MS)
    gateway.config.write_text(text.replace(f'topics."{world.topic}"', 'topics."another"'))
    gateway.reload()
    await eventually(lambda: client.post({"id": "d2", "n": 0})[0] == 404, 30)
    assert f"{held_topic(world.topic)} exists, but no [topics] section" in gateway.log()
    gateway.config.write_text(world.text(None))
    gateway.reload()
    await eventually(lambda: client.post({"id": "d1", "n": 3})[0] == 202, 30)
    await eventually(lambda: world.values("d1")[-1:] == [3], 30, 0.3)
    assert world.values("d1") in ([1, 3], [3])
