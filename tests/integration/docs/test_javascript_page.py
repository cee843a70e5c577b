"""Every program of the page of the JavaScript client, with a real gateway, Kafka and Redis."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from support import pages
from support.clients.node import NODE, PACKAGE, needs_node
from support.kafka.kafka_log import read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = needs_node

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."orders"]
key = ["/order_id"]
dedupe_ttl_s = 3600
"""


def programs() -> Iterator[str]:
    """Yield what the pages show, in their order."""
    yield from pages.sources("publish/javascript", "js")
    readme = (PACKAGE / "README.md").read_text()
    yield from re.findall(r"^```js\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)


def test_every_program_runs_as_it_stands(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    kafka, redis = start_broker(), start_redis()
    kafka.create_topic("orders", 3)
    gateway = start_gateway(CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url))
    installed = tmp_path / "node_modules" / "headgate-client"
    installed.parent.mkdir()
    installed.symlink_to(PACKAGE)

    def run(number: int, program: str) -> list[str]:
        file = tmp_path / f"program_{number}.mjs"
        file.write_text(program.replace("http://127.0.0.1:8080", gateway.url))
        ended = subprocess.run(
            [str(NODE), file], capture_output=True, text=True, timeout=180, check=False
        )
        assert ended.returncode == 0, f"{program}\n{ended.stderr}"
        return ended.stdout.splitlines()

    first, background, options, metrics, doubles, readme = (
        run(*numbered) for numbered in enumerate(programs())
    )
    assert first == pages.sources("publish/javascript", "text")[1].splitlines()
    assert background == readme == ["Set(1) { 'published' }"]
    assert options == doubles == []
    assert metrics == ["{ 'requests orders ended': 1, 'events orders published': 1 }"]
    values = [one.value for one in read_log(kafka.bootstrap, "orders")]
    assert len(values) == 3 + 1000 + 1 + 101
