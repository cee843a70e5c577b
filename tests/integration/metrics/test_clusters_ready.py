"""One unreachable cluster does not take a gateway, or a monitor, out of service."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.devstack.child import Child
from support.clients.http_client import JSON, exchange, post
from support.process.stack import Gateway, RunningBroker, eventually, free_port

pytestmark = pytest.mark.kafka

CONFIG = """
[http]
request_timeout_ms = 3000
[clusters.main]
bootstrap_servers = ["{main}"]
[clusters.second]
bootstrap_servers = ["127.0.0.1:{nothing}"]
[spool]
path = "{folder}"
[topics."{topic}"]
cluster = "main"
key = ["/id"]
spool = {spool}
[topics.other]
cluster = "second"
key = ["/id"]
[monitor]
port = {monitor}
interval_ms = 200
"""


@pytest.mark.parametrize("spool", ["true", "false"])
async def test_a_gateway_with_one_reachable_cluster_is_ready(
    kafka: RunningBroker,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
    spool: str,
) -> None:
    kafka.create_topic(topic_name)
    gateway = start_gateway(
        CONFIG.format(
            main=kafka.bootstrap, nothing=free_port(), folder=tmp_path / "spool", topic=topic_name,
            spool=spool, monitor=free_port(),
        )
    )  # fmt: skip
    assert post(gateway.port, topic_name, b'{"id": 1}', JSON).status == 201
    for port in (gateway.port, gateway.management_port):
        await eventually(lambda port=port: exchange(port, "GET", "/ready").status == 200, 20)  # type: ignore[misc]
        page = exchange(port, "GET", "/ready").document
        assert page["status"] == "degraded"
        shown = {name: row["ok"] for name, row in page["dependencies"].items() if "kafka" in name}
        assert shown == {"kafka main": True, "kafka second": False}

    def says_ready() -> bool:
        return b"\nheadgate_ready 1" in exchange(gateway.management_port, "GET", "/metrics").body

    await eventually(says_ready, 20)
    assert post(gateway.port, "other", b'{"id": 1}', JSON).status == 503


async def test_a_monitor_with_one_reachable_cluster_is_ready(
    kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    port, config = free_port(), tmp_path / "headgate.toml"
    text = CONFIG.format(
        main=kafka.bootstrap, nothing=free_port(), folder=tmp_path / "spool", topic=topic_name,
        spool="false", monitor=port,
    )  # fmt: skip
    config.write_text(text)
    command = [sys.executable, "-m", "headgate", "monitor", "--config", str(config)]
    monitor = Child("monitor", command, tmp_path / "monitor.log")

    def status() -> int:
        try:
            return exchange(port, "GET", "/ready").status
        except OSError:
            return 0

    try:
        await eventually(lambda: status() == 200, 15)
        page = exchange(port, "GET", "/ready").document
        assert page["status"] == "degraded"
        rows = page["dependencies"]
        assert (rows["kafka main"]["ok"], rows["kafka second"]["ok"]) == (True, False)
    finally:
        monitor.kill()
