"""Every program of the page of the Python client, with a real gateway, Kafka and Redis."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support import pages
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis
from support.root import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."orders"]
key = ["/order_id"]
dedupe_ttl_s = 3600
"""
README = ROOT / "clients" / "python" / "README.md"


def programs() -> Iterator[str]:
    """Yield what the pages show, in their order."""
    yield from pages.sources("publish/retries", "python")
    yield from pages.sources("publish/python", "python")
    yield from re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_every_program_runs_as_it_stands(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    kafka, redis = start_broker(), start_redis()
    kafka.create_topic("orders", 3)
    gateway = start_gateway(CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url))

    def run(numbered: tuple[int, str]) -> subprocess.CompletedProcess[str]:
        number, program = numbered
        file = tmp_path / f"program_{number}.py"
        address = gateway.url.removeprefix("http://")
        file.write_text(program.replace("127.0.0.1:8080", address))
        command = [sys.executable, "-W", "error", file]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=180, check=False, env=os.environ
        )

    shown = list(programs())
    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(run, enumerate(shown)))
    assert [(one.returncode, one.stderr) for one in ended if one.returncode] == []
    answers, retried, first, background, loop, options, metrics, doubles, readme = (
        one.stdout.split("\n")[:-1] for one in ended
    )
    assert answers == ["published", "published"]
    [shown_status, shown_answer] = pages.sources("publish/retries", "text")[0].split("\n", 1)
    assert retried[0] == shown_status
    anything = shown_answer.replace(": …", ': "…"')
    differences = pages.differences(json.loads(anything), json.loads(retried[1]))
    assert list(differences) == []
    assert first == pages.sources("publish/python", "text")[1].splitlines()
    assert (background, loop) == (["{'published'}"], ["published", "{'published'}"])
    assert options == doubles == []
    assert metrics[0].startswith("Counter({('orders', 'published'): 1})")
    assert readme == ["{'published'}"]
    values = [one.value for one in read_log(kafka.bootstrap, "orders")]
    assert values.count(b'{"order_id": 4711, "paid": true}') == 1
    assert len(values) == 2 + 1 + 3 + 1000 + 101 + 1 + 101
