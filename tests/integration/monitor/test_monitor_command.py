"""`headgate monitor` as a process, and the gateway that shows what it says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition
from openapi_schema_validator import OAS31Validator
from prometheus_client.parser import text_string_to_metric_families

from headgate.cli import main
from headgate.devstack.child import Child
from support.process.stack import Gateway, RunningBroker, eventually, free_port
from support.scenarios.consumer_world import fill

pytestmark = pytest.mark.kafka


def config(bootstrap: str, state_file: Path, port: int) -> str:
    return f"""
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[topics."*"]
keyless = "spread"
[monitor]
port = {port}
interval_ms = 200
patience_ms = 1000
state_file = "{state_file}"
"""


def get(url: str) -> tuple[int, Any]:
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.fixture
def start_monitor(tmp_path: Path) -> Iterator[Callable[[Path], Child]]:
    with ExitStack() as ending:

        def start(config: Path) -> Child:
            command = [sys.executable, "-m", "headgate", "monitor", "--config", str(config)]
            child = Child("monitor", [*command, "--table"], tmp_path / "monitor.log")
            ending.callback(child.kill)
            return child

        yield start


async def test_the_gateway_shows_what_the_monitor_sees(
    kafka: RunningBroker,
    topic_name: str,
    tmp_path: Path,
    start_gateway: Callable[..., Gateway],
    start_monitor: Callable[[Path], Child],
    capsys: pytest.CaptureFixture[str],
) -> None:
    kafka.create_topic(topic_name, 2)
    fill(kafka.bootstrap, topic_name, 2, 5)
    group, state_file, port = f"g-{topic_name}", tmp_path / "state.json", free_port()
    gateway = start_gateway(config(kafka.bootstrap, state_file, port))
    status, problem = get(f"{gateway.management_url}/v1/groups")
    assert (status, problem["reason"]) == (503, "monitor_unavailable")
    assert "headgate monitor" in problem["detail"]

    monitor = start_monitor(gateway.config)
    consumer = AIOKafkaConsumer(
        topic_name, bootstrap_servers=kafka.bootstrap, group_id=group, client_id="till",
        auto_offset_reset="earliest", auto_commit_interval_ms=100,
    )  # fmt: skip
    await consumer.start()
    try:
        got = 0
        while got < 10:
            got += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        url = f"{gateway.management_url}/v1/groups/{group}"

        def caught_up() -> Any:
            status, page = get(url)
            if status != 200:
                return None
            (on,) = page["on"]
            done = {one["committed"] for one in on["partitions"]}  # without commits it has no lag
            return done == {5} and on["lag"] == 0 and on["owners"] and page

        page = await eventually(caught_up, 30)
    finally:
        await consumer.stop()
    (on,) = page["on"]
    assert (on["group"], on["state"], on["owners"][0]["client"]) == (group, "OK", "till")
    fill(kafka.bootstrap, topic_name, 2, 3)

    def stopped() -> bool:
        (on,) = get(url)[1]["on"]
        return (on["state"], on["lag"]) == ("STOP", 6)  # a poll may find some of what was written

    await eventually(stopped, 30)
    _, every = get(f"{gateway.management_url}/v1/groups")
    first = next(one for one in every["groups"] if one["group"] == group)
    assert (first["state"], first["lag"]) == ("STOP", 6)
    assert {one["cluster"] for one in every["clusters"]} == {"main"}
    _fits_the_description(gateway, every, get(url)[1])
    _shows_figures(port, group, topic_name)
    assert get(f"{gateway.management_url}/v1/groups/nobody-{topic_name}")[0] == 404
    assert main(["groups", group, "--url", gateway.management_url, "--table"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["main", topic_name, "1", "STOP", "5", "8", "3"] in [row[:7] for row in rows]
    assert any(row[0] == "hint" for row in rows)
    _says_the_status(gateway, group, capsys)

    await eventually(lambda: "STOP" in monitor.log.read_text(), 20)
    monitor.signal(signal.SIGTERM)
    await eventually(lambda: monitor.exit_code is not None, 20)
    assert monitor.exit_code == 0
    assert group in json.loads(state_file.read_text())["main"]


def _says_the_status(gateway: Gateway, group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--url", gateway.management_url, "--json"]) == 1
    page = json.loads(capsys.readouterr().out)
    stopped = [row for row in page["reasons"] if "commits nothing" in row["what"]]
    if len(stopped) < 10:  # the broker has the groups of other tests, and the list is bounded
        [row] = [row for row in stopped if row["subject"] == group]
        assert (row["severity"], row["href"]) == ("critical", f"/console/groups/{group}")
        assert row["detail"].startswith("lag 6;")
        groups = get(f"{gateway.management_url}/v1/groups?limit=1000")[1]["groups"]
        [still_since] = [each["still_since"] for each in groups if each["group"] == group]
        assert row["since"] == still_since


def _fits_the_description(gateway: Gateway, every: Any, one: Any) -> None:
    _, api = get(f"{gateway.management_url}/openapi.json")
    for name, page in (("Groups", every), ("Group", one)):
        schema = {"$ref": f"#/components/schemas/{name}", "components": api["components"]}
        OAS31Validator(schema).validate(page)


def _shows_figures(port: int, group: str, topic: str) -> None:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        samples = {
            (one.name, *sorted(one.labels.values())): one.value
            for family in families
            for one in family.samples
        }
    for partition in ("0", "1"):
        assert samples["headgate_group_lag", *sorted(("main", group, topic, partition))] == 3
    assert samples["headgate_group_state", *sorted(("main", group, "STOP"))] == 1
    assert samples["headgate_group_state", *sorted(("main", group, "OK"))] == 0
    assert samples["headgate_cluster_partitions", "main", "offline"] == 0
    assert samples["headgate_monitor_look_age_seconds", "main"] < 30


async def test_one_poll_as_a_table_and_as_json(
    kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    """A group with lag is not `OK` in it: only a second poll shows whether it commits."""
    kafka.create_topic(topic_name, 1)
    fill(kafka.bootstrap, topic_name, 1, 5)
    behind, ready = f"behind-{topic_name}", f"done-{topic_name}"
    for group, offset in ((behind, 2), (ready, 5)):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic_name, 0)])
        await consumer.commit({TopicPartition(topic_name, 0): offset})
        await consumer.stop()
    file = tmp_path / "headgate.toml"
    file.write_text(config(kafka.bootstrap, tmp_path / "state.json", free_port()))
    command = [sys.executable, "-m", "headgate", "monitor", "--config", str(file), "--once"]
    for flags, begins in (([], None), (["--json"], "groups")):
        ended = await asyncio.to_thread(
            subprocess.run, command + flags,
            capture_output=True, text=True, timeout=60, check=True, env=os.environ,
        )  # fmt: skip
        if begins is None:
            assert "STATE" in ended.stdout
            rows = [line.split() for line in ended.stdout.splitlines()]
            assert ["?", behind[:20]] in [[cells[0], cells[1][:20]] for cells in rows if cells[1:]]
            assert "a second poll" in ended.stdout
        else:
            groups = {row["group"]: row for row in json.loads(ended.stdout)[begins]}
            assert (groups[behind]["state"], groups[behind]["lag"]) == ("UNKNOWN", 3)
            assert "second poll" in groups[behind]["hints"][-1]
            assert (groups[ready]["state"], groups[ready]["lag"]) == ("OK", 0)
            assert not any("second poll" in hint for hint in groups[ready]["hints"])
