"""Every line that a gateway, a monitor and a coalescer write is JSON of one shape."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import requests

from headgate.devstack.ports import LOOPBACK
from headgate.metrics.logs import LOG_FIELDS
from support.process.stack import PATIENCE, RunningBroker, eventually, free_port

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

CONFIG = """
[http]
host = "127.0.0.1"
port = {port}
management_port = {management}
[logs]
access = true
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = 500
[topics.orders]
key = ["/id"]
[topics.deals]
kind = "state"
key = ["/id"]
coalesce_quiet_ms = 100
[monitor]
port = {monitor}
interval_ms = 200
"""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def check(text: str) -> set[str]:
    """Return the loggers of a log whose lines all have one shape."""
    loggers = set()
    for line in text.splitlines():
        fields = json.loads(line)
        assert [*fields][:4] == ["time", "level", "logger", "text"], line
        assert TIME.fullmatch(fields["time"]), line
        assert fields.keys() <= LOG_FIELDS.keys(), line
        assert orjson.dumps(fields).decode() == line  # spaces and escapes too
        loggers.add(fields["logger"])
    return loggers


def wait(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    asyncio.run(eventually(holds, 60))


def test_every_line_has_one_shape(
    start_broker: Callable[..., RunningBroker], tmp_path: Path
) -> None:
    broker = start_broker()
    broker.create_topic("orders", 1)
    broker.create_topic("deals", 1)
    port = free_port()
    file = tmp_path / "headgate.toml"
    file.write_text(
        CONFIG.format(
            port=port, management=free_port(), monitor=free_port(), bootstrap=broker.bootstrap
        )
    )
    # No command line names the file, so a command has to say which one it found.
    environment = {**os.environ, "HEADGATE_CONFIG": str(file)}
    subprocess.run(
        [sys.executable, "-m", "headgate", "init"], env=environment, check=True, timeout=120
    )
    logs = {name: tmp_path / f"{name}.log" for name in ("serve", "monitor", "coalesce")}
    running = []
    for name, log in logs.items():
        command = [sys.executable, "-m", "headgate", name]
        with log.open("w") as stream:
            running.append(subprocess.Popen(command, env=environment, stderr=stream))
    url = f"http://{LOOPBACK}:{port}/v1/topics/orders/events"

    def is_answered(status: int) -> Callable[[], bool]:
        def post() -> bool:
            try:
                return requests.post(url, json={"id": 1}, timeout=60).status_code == status
            except requests.ConnectionError:
                return False

        return post

    try:
        wait(is_answered(201))
        requests.post(url, data=b"{", timeout=60)
        for name in ("monitor", "coalesce"):
            wait(lambda log=logs[name]: "started" in log.read_text())  # type: ignore[misc]
        broker.kill()
        wait(is_answered(503))
        wait(lambda: "cannot be polled" in logs["monitor"].read_text())
        broker.restart()
        wait(is_answered(201))
    finally:
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(60 * PATIENCE)
    loggers = check(logs["serve"].read_text())
    assert {"headgate.access", "headgate.requests", "headgate.supervisor"} <= loggers
    for name, text in (("monitor", "cannot be polled"), ("coalesce", "lag of the held topics")):
        log = logs[name].read_text()
        assert check(log)
        # One line when the outage begins, and none for each attempt after that.
        warnings = [line for line in log.splitlines() if text in line and '"WARNING"' in line]
        assert len(warnings) <= 1, warnings
