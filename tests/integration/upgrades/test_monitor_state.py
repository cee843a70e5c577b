"""What the monitor keeps over a restart is known to the monitor of the other version."""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from headgate.devstack.child import Child
from support.clients.http_client import exchange
from support.process.stack import RunningBroker, eventually, free_port
from support.upgrades.former import Step, Version

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[topics."*"]
keyless = "spread"
[monitor]
port = {port}
interval_ms = 200
probation_ms = 600000
state_file = "{state}"
"""


async def test_a_group_on_probation_stays_on_it(
    step: Step, kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic_name, 1)
    port, state, file = free_port(), tmp_path / "state.json", tmp_path / "monitor.toml"
    file.write_text(CONFIG.format(bootstrap=kafka.bootstrap, port=port, state=state))

    def begin(version: Version) -> Child:
        command = [sys.executable, "-m", "headgate", "monitor", "--config", str(file)]
        return Child(
            "monitor", command, tmp_path / "monitor.log",
            environment={**os.environ, **version.environment},
        )  # fmt: skip

    def probation() -> dict[str, Any] | None:
        rows = exchange(port, "GET", "/v1/groups").document["groups"]
        found: list[dict[str, Any]] = [one for one in rows if one["group"] == topic_name]
        return found[0]["probation"] if found else None

    def is_ready() -> bool:
        try:
            return exchange(port, "GET", "/ready").status == 200
        except OSError:
            return False

    with ExitStack() as ending:
        before = begin(step.before)
        ending.callback(before.kill)
        await eventually(is_ready, 30)  # what comes from now on is new
        commit(kafka.bootstrap, topic_name)
        first = await eventually(probation, 30)
        assert not first["admitted"]
        before.stop(30)
        assert topic_name in json.loads(state.read_text())["main"]
        after = begin(step.after)
        ending.callback(after.kill)
        await eventually(is_ready, 30)
        found = await eventually(probation, 30)
    assert not found["admitted"]
    assert found["first_seen"] == first["first_seen"]
    assert not state.with_suffix(".json.broken").exists()


def commit(bootstrap: str, name: str) -> None:
    """The group of that name has an offset in the topic of that name."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name})
    try:
        consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    finally:
        consumer.close()
