"""`headgate coalesce` beside a gateway that does not coalesce, and the procedures of
docs/operate/coalescers.md."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from headgate.model.internal_topics import held_topic
from support.clients.http_client import ClosedError, exchange
from support.gateway.coalescing_gateway import Client, config_text, last_values, run_init
from support.gateway.facts_world import facts_of
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually, free_port

APART = "[coalescer]\nin_gateway = false\n"


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def start_coalescer(tmp_path: Path) -> Iterator[Callable[..., tuple[Child, int]]]:
    """Start `headgate coalesce` and return it with its port."""
    with ExitStack() as ending:

        def start(config: Path) -> tuple[Child, int]:
            port = free_port()
            command = [sys.executable, "-m", "headgate", "coalesce", "--config", str(config)]
            ours = {"HEADGATE_COALESCER__PORT": str(port), "HEADGATE_HTTP__HOST": LOOPBACK}
            log = tmp_path / f"coalesce-{port}.log"
            child = Child("coalesce", command, log, environment={**os.environ, **ours})
            ending.callback(child.kill)
            return child, port

        yield start


def is_ready(port: int) -> bool:
    try:
        answer = exchange(port, "GET", "/ready")
    except (OSError, ClosedError):
        return False
    return (
        answer.status == 200 and "owns 4 " in answer.document["dependencies"]["coalescer"]["detail"]
    )


def metrics(port: int) -> str:
    return exchange(port, "GET", "/metrics").body.decode()


def count(port: int, outcome: str) -> float:
    found = re.search(rf'^headgate_events_total{{outcome="{outcome}".* (\S+)$', metrics(port), re.M)
    return float(found[1]) if found else 0.0


def run_coalesce(config: Path, port: int) -> subprocess.CompletedProcess[str]:
    """Where the port is taken."""
    return subprocess.run(
        [sys.executable, "-m", "headgate", "coalesce", "--config", str(config)],
        env={**os.environ, "HEADGATE_COALESCER__PORT": str(port), "HEADGATE_HTTP__HOST": LOOPBACK},
        capture_output=True,
        text=True,
        timeout=120,
    )


async def test_a_coalescer_of_its_own_shows_what_it_does(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    start_coalescer: Callable[..., tuple[Child, int]],
    topic_name: str,
    tmp_path: Path,
    ending: ExitStack,
) -> None:
    kafka.create_topic(topic_name, 3)
    text = config_text(kafka, redis_server.url, topic_name, "facts = true")
    text = text.replace("[coalescer]\n", APART)
    config = tmp_path / "headgate.toml"
    config.write_text(text)
    assert run_init(config).returncode == 0
    gateway = start_gateway(text)
    client = ending.enter_context(closing(Client([gateway], topic_name)))
    for number in range(20):
        assert client.post({"id": "d1", "n": number})[0] == 202
    path = f"/v1/topics/{topic_name}"  # known to the parent within a second
    await eventually(lambda: exchange(gateway.management_port, "GET", path).status == 200)
    held = exchange(gateway.management_port, "GET", path).document["held"]
    assert (held["keys"], held["bytes"]) == (None, None)  # it runs elsewhere, and not yet
    child, port = start_coalescer(config)
    await eventually(lambda: is_ready(port), 30, 0.2)
    wanted = {key: texts[-1] for key, texts in client.held.items()}
    await eventually(lambda: last_values(kafka, topic_name) == wanted, 30, 0.3)
    assert exchange(port, "GET", "/live").status == 200
    await eventually(lambda: (count(port, "published"), count(port, "superseded")) == (1, 19), 30)
    nothing = f'headgate_held_keys{{topic="{topic_name}"}} 0.0'
    await eventually(lambda: nothing in metrics(port), 30, 0.3)
    shown = metrics(port)
    assert "headgate_build_info{" in shown
    assert f'headgate_suppression_state{{state="on",topic="{topic_name}"}} 1.0' in shown
    # the gateway has no topic of its own to compare, and cannot know of the coalescer's
    assert exchange(gateway.management_port, "GET", path).document["suppression"] is None
    assert exchange(port, "GET", "/v1/topics").status == 404
    second = await asyncio.to_thread(run_coalesce, config, port)
    assert (second.returncode, "coalescer.port" in second.stderr) == (1, True), second
    child.stop(90)
    assert child.exit_code == 0
    told = [(one.outcome, one.key, one.events) for one in facts_of(kafka.bootstrap, topic_name)]
    assert told == [("superseded", b"d1", 19)]


@pytest.mark.parametrize("waits", [True, False], ids=["as-told", "in-a-hurry"])
async def test_coalesce_partitions_is_changed_as_the_runbook_says(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
    tmp_path: Path,
    ending: ExitStack,
    waits: bool,
) -> None:
    """Also where the topic is recreated before any gateway has seen that it was gone: then with as
    many partitions, because gateways choose among the old number for a while."""
    partitions = 7 if waits else 4
    kafka.create_topic(topic_name, 3)
    text = config_text(kafka, redis_server.url, topic_name)
    config = tmp_path / "headgate.toml"
    config.write_text(text)
    assert run_init(config).returncode == 0
    gateway = start_gateway(text)
    client = ending.enter_context(closing(Client([gateway], topic_name)))
    for number in range(12):
        assert client.post({"id": f"d{number % 4}", "n": number})[0] == 202

    def lag() -> int | None:
        page = exchange(gateway.management_port, "GET", f"/v1/topics/{topic_name}").document
        found: int | None = page.get("held", {}).get("lag")
        return found

    def is_published() -> bool:
        wanted = {key: texts[-1] for key, texts in client.held.items()}
        return last_values(kafka, topic_name) == wanted

    await eventually(is_published, 30, 0.3)
    await eventually(lambda: lag() == 0, 30, 0.3)
    kafka.delete_topic(held_topic(topic_name))
    if waits:
        await eventually(lambda: client.post({"id": "lost"})[0] == 503, 30, 0.1)
        client.held.pop("lost", None)
    config.write_text(
        text.replace("coalesce_partitions = 4", f"coalesce_partitions = {partitions}")
    )
    await eventually(lambda: run_init(config).returncode == 0, 30, 0.3)
    assert len(kafka_log.end_offsets(kafka.bootstrap, held_topic(topic_name))) == partitions
    for number in range(20, 40):
        document = {"id": f"d{number % 8}", "n": number}
        await eventually(lambda one=document: client.post(one)[0] == 202, 30, 0.3)
    await eventually(is_published, 60, 0.3)
