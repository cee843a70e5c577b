"""The log says what is away, when it is back, and how long that took; and how a gateway starts."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import pytest
from confluent_kafka import Consumer, TopicPartition

from headgate import __version__
from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from headgate.metrics.logs import LOG_FIELDS
from support.clients.http_client import JSON, ClosedError, exchange, post
from support.gateway.coalescing_gateway import run_init
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[http]
request_timeout_ms = 1000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 3000
lane_stall_ms = 2000
metadata_refresh_ms = 300
[redis]
url = "{redis}"
quarantine_ms = 1000
[logs]
access = true
[topics.orders]
key = ["/id"]
kind = "state"
suppress = "raw"
"""
# What `headgate coalesce` needs.
COALESCING = "coalesce_quiet_ms = 100\n"
PAGE = "/v1/groups/readers"
TYPES = {
    "string": str, "integer": int, "number": (int, float), "object": dict, "array": list,
}  # fmt: skip
AWAY_AND_BACK = (
    ("suppression: Redis is not available", "suppression: Redis answers again"),
    ("cluster main does not answer", "cluster main answers again"),
    (
        "producer of cluster main replaced|cannot connect to cluster main",
        "reconnected to cluster main",
    ),
)


# The processes beside a gateway.
BESIDE = {
    "monitor": (
        "monitor started",
        (("cluster main cannot be polled", "cluster main: polled again"),
         ("pauses: Redis is not available", "pauses: Redis answers again")),
    ),
    "coalesce": (
        "coalescer started",
        (("suppression of held events: Redis is not available",
          "suppression of held events: Redis answers again"), AWAY_AND_BACK[1]),
    ),
}  # fmt: skip


class Logged(Protocol):
    """A process with a log."""

    def log(self) -> str: ...


def lines(process: Logged) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.log().splitlines()]


def said(process: Logged, text: str) -> list[dict[str, Any]]:
    return [line for line in lines(process) if re.match(text, line["text"])]


def only_headgate_logs(found: list[dict[str, Any]]) -> None:
    """No line of a library repeats an outage, and each line says of which process and cluster."""
    assert [line for line in found if not line["logger"].startswith("headgate")] == []
    about = [line for line in found if line["logger"] in ("headgate.kafka", "headgate.monitor")]
    about = [line for line in about if "cluster main" in line["text"]]
    assert about
    assert {line["cluster"] for line in about} == {"main"}
    of_kafka = [line for line in found if line["logger"] == "headgate.kafka"]
    assert {line.get("cluster") for line in of_kafka} <= {"main"}


def are_documented(found: list[dict[str, Any]]) -> None:
    for line in found:
        assert set(line) <= set(LOG_FIELDS), line
        wrong = {
            name
            for name, value in line.items()
            if not isinstance(value, TYPES[LOG_FIELDS[name].kind])
        }
        assert wrong == set(), line


class Beside:
    """A process beside a gateway."""

    def __init__(self, command: str, config: Path, port: int) -> None:
        self.port, self._file = port, config.with_name(f"{command}.log")
        sections = {"monitor": "MONITOR", "coalesce": "COALESCER"}
        ours = {f"HEADGATE_{sections[command]}__PORT": str(port), "HEADGATE_HTTP__HOST": LOOPBACK}
        ours["HEADGATE_MONITOR__INTERVAL_MS"] = "300"
        started = [sys.executable, "-m", "headgate", command, "--config", str(config)]
        self.child = Child(command, started, self._file, environment={**os.environ, **ours})

    def log(self) -> str:
        text = self._file.read_text()
        return text[: text.rfind("\n") + 1]

    def ask(self) -> bool:
        """A page for which the monitor asks Redis."""
        with suppress(OSError, ClosedError):
            exchange(self.port, "GET", PAGE)
        return True


@pytest.mark.parametrize("command", ["monitor", pytest.param("coalesce", marks=pytest.mark.full)])
async def test_the_processes_beside_a_gateway_say_the_same(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    tmp_path: Path,
    command: str,
) -> None:
    broker, redis = start_broker(), start_redis()
    broker.create_topic("orders")
    config = tmp_path / "headgate.toml"
    config.write_text(CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url) + COALESCING)
    assert run_init(config).returncode == 0
    started, away_and_back = BESIDE[command]
    process = Beside(command, config, free_port())
    try:
        (start,) = await eventually(lambda: said(process, started), 40)
        if command == "monitor":  # the group that its page is about
            consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
            consumer.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)
            consumer.close()
            await eventually(lambda: exchange(process.port, "GET", PAGE).status == 200, 40)
        redis.kill()
        broker.kill()
        for away, _ in away_and_back:
            await eventually(lambda away=away: process.ask() and said(process, away), 40)  # type: ignore[misc]
        redis.restart()
        broker.restart()
        for away, back in away_and_back:
            line, *_ = await eventually(
                lambda back=back: process.ask() and said(process, back),  # type: ignore[misc]
                40,
            )
            assert (line["level"], said(process, away)[0]["level"]) == ("INFO", "WARNING")
            assert line["away_s"] > 0
    finally:
        process.child.stop(5.0)
    assert start["config_sha256"] == hashlib.sha256(config.read_bytes()).hexdigest()
    assert (start["version"], start["native"], start["file"]) == (
        __version__,
        "python",
        str(config),
    )
    assert start["management"] == f"{LOOPBACK}:{process.port}"
    are_documented(lines(process))
    only_headgate_logs(lines(process))


async def test_what_was_away_is_back(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
) -> None:
    broker, redis = start_broker(), start_redis()
    broker.create_topic("orders")
    gateway = start_gateway(CONFIG.format(bootstrap=broker.bootstrap, redis=redis.url))

    def posts() -> int:
        return post(gateway.port, "orders", b'{"id": 1}', JSON).status

    await eventually(lambda: posts() in (200, 201))
    assert [line for line in lines(gateway) if "away_s" in line] == []
    redis.kill()
    broker.kill()
    for away, _ in AWAY_AND_BACK:
        await eventually(lambda away=away: posts() and said(gateway, away), 40)  # type: ignore[misc]
    assert [line for line in lines(gateway) if "away_s" in line] == []
    redis.restart()
    broker.restart()
    for away, back in AWAY_AND_BACK:
        line, *_ = await eventually(lambda back=back: said(gateway, back), 40)  # type: ignore[misc]
        assert line["level"] == "INFO"
        assert line["away_s"] > 0
        assert said(gateway, away)[0]["level"] == "WARNING"
    await eventually(lambda: posts() in (200, 201))
    post(gateway.port, "orders", b"{", JSON)
    gateway.reload()
    await eventually(lambda: said(gateway, "configuration reloaded"))
    gateway.stop()

    assert said(gateway, "draining")
    last = lines(gateway)[-1]
    assert (last["text"], last["level"]) == ("gateway stopped", "INFO")
    (stopped,) = said(gateway, "worker 0 stopped")
    assert (last["answered"], last["spooled"]) == (0, 0)
    assert (stopped["answered"], stopped["spooled"]) == (0, 0)
    assert last["drain_s"] >= stopped["drain_s"] > 0
    (start,) = said(gateway, "gateway starts")
    sha256 = hashlib.sha256(gateway.config.read_bytes()).hexdigest()
    assert start["config_sha256"] == sha256
    assert said(gateway, "configuration reloaded")[0]["config_sha256"] == sha256
    assert (start["version"], start["native"], start["workers"]) == (__version__, "python", 1)
    assert start["data"].endswith(f":{gateway.port}")
    assert start["management"].endswith(f":{gateway.management_port}")
    (worker,) = said(gateway, "worker 0 started")
    same = ("version", "native", "data", "config_sha256")
    assert {worker[name] == start[name] for name in same} == {True}
    are_documented(lines(gateway))
    only_headgate_logs(lines(gateway))
    assert {line["worker"] for line in lines(gateway) if line["logger"] == "headgate.kafka"} == {0}
    assert worker["worker"] == 0
