"""loadtest/incidents.py makes what the monitor then names: incidents B and C, live."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headgate.kafka.options import ClusterOptions
from headgate.monitor.cluster_watch import WatchOptions
from headgate.monitor.monitor import Monitor, MonitorOptions
from headgate.redis.pauses import RedisPauses
from support.process.stack import RunningBroker, RunningRedis, eventually
from support.root import ROOT

pytestmark = pytest.mark.kafka

SCRIPT = ROOT / "loadtest" / "incidents.py"


@pytest.fixture
def config(kafka: RunningBroker, redis_server: RunningRedis, tmp_path: Path) -> Path:
    file = tmp_path / "headgate.toml"
    file.write_text(
        f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n'
        f'[redis]\nurl = "{redis_server.url}"\n[topics."*"]\nkeyless = "spread"\n'
        "[monitor]\ninterval_ms = 1000\n"  # how long the script waits; three of its polls
    )
    return file


@asynccontextmanager
async def watching(kafka: RunningBroker, redis: RunningRedis) -> AsyncIterator[Monitor]:
    store = RedisPauses(redis.url)
    options = MonitorOptions(WatchOptions(), 0.3, None)
    clusters = {"main": ClusterOptions(kafka.bootstrap)}
    monitor = Monitor(clusters, options, store.kept_of, lambda: time.time_ns() // 1_000_000)
    monitor.start()
    try:
        yield monitor
    finally:
        await monitor.close()
        await store.close()


@contextmanager
def playing(incident: str, config: Path) -> Iterator[None]:
    command = [sys.executable, str(SCRIPT), incident, "--config", str(config), "--seconds", "280"]
    with subprocess.Popen(command) as script:  # what it says is shown when the test fails
        try:
            yield
        finally:
            script.kill()


async def partitions(monitor: Monitor, group: str) -> list[Any]:
    page = await monitor.group(group)
    return [] if page is None else page["on"][0]["partitions"]


async def test_incident_b(kafka: RunningBroker, redis_server: RunningRedis, config: Path) -> None:
    async with watching(kafka, redis_server) as monitor:
        with playing("b", config):

            async def stuck() -> bool:
                found = await partitions(monitor, "incident-b")
                return sorted((one["lag"], one["stuck_commit"]) for one in found) == [
                    (0, False),
                    (2, True),
                ]

            await eventually(stuck, 60)


@pytest.mark.full  # half a minute of waiting
async def test_incident_c(kafka: RunningBroker, redis_server: RunningRedis, config: Path) -> None:
    async with watching(kafka, redis_server) as monitor:
        with playing("c", config):

            async def leaks() -> bool:
                found = await partitions(monitor, "incident-c-plain")
                return any(one["read_while_paused"] for one in found)

            await eventually(leaks, 90)
            polled = monitor.clusters[0].status.polled_ms or 0
            await eventually(
                lambda: (monitor.clusters[0].status.polled_ms or 0) > polled + 2_000, 20
            )
            ours = await partitions(monitor, "incident-c")
            assert ours
            assert all(one["paused"] and not one["read_while_paused"] for one in ours)
            rows = {row["group"]: row for row in monitor.groups()["groups"]}
            assert (rows["incident-c"]["paused"], rows["incident-c"]["not_obeyed"]) == (True, None)
            assert "not obeyed: 2 members do not" in rows["incident-c-plain"]["not_obeyed"]
