"""The page for users of Kafka client libraries: both sides of each example run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from headgate.model.keys import partition_for
from support import pages
from support.clients.node import NODE, PACKAGE, needs_node
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, RunningRedis

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

PAGE = "move/kafka-clients"
PARTITIONS = 6
CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
[topics."orders"]
"""


class Stack:
    """A broker with the topic of the page, and a gateway."""

    def __init__(self, kafka: RunningBroker, gateway: Gateway, folder: Path) -> None:
        self.kafka, self.gateway, self.folder = kafka, gateway, folder

    def written(self, program: str, suffix: str) -> Path:
        addresses = {
            "http://127.0.0.1:8080": self.gateway.url,
            '"127.0.0.1:9092"': f'"{self.kafka.bootstrap}"',
        }
        for shown, real in addresses.items():
            program = program.replace(shown, real)
        file = self.folder / f"program{suffix}"
        file.write_text(program)
        return file

    def run(self, command: list[str | Path], **environ: str) -> list[str]:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, **environ},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def python(self, program: str, *arguments: str, **environ: str) -> list[str]:
        file = self.written(program, ".py")
        return self.run([sys.executable, file, *arguments], **environ)

    def log(self) -> list[LogRecord]:
        return list(read_log(self.kafka.bootstrap, "orders"))


@pytest.fixture
def stack(
    start_broker: Callable[..., RunningBroker],
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> Stack:
    kafka, redis = start_broker(), start_redis()
    kafka.create_topic("orders", PARTITIONS)
    config = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis.url)
    return Stack(kafka, start_gateway(config), tmp_path)


def test_every_python_program_runs_as_it_stands(stack: Stack) -> None:
    old_python, new_python, old_aio, new_aio, old_rd, new_rd, old_reader, reader, switch = (
        pages.sources(PAGE, "python")
    )
    compile(old_python, PAGE, "exec")
    if find_spec("kafka") is not None:  # no dependency of the tests
        partition, _ = stack.python(old_python)[0].split()
        assert int(partition) == partition_for(b"17", PARTITIONS)
    outcome = stack.python(new_python)[0].split()
    assert outcome[:2] == ["published", str(partition_for(b"17", PARTITIONS))]

    before, after = stack.python(old_aio)[0].split(), stack.python(new_aio)[0].split()
    assert after == ["published", before[0], str(int(before[1]) + 1)]  # in the same partition

    assert stack.python(old_rd) == ["0"]
    assert stack.python(new_rd) == ["True"]
    for way in ("headgate", "kafka"):
        stack.python(switch, PUBLISH=way)
    records = stack.log()
    (shop,) = (one for one in records if one.header("shop") and one.header("hg-producer"))
    assert (shop.key, shop.value, shop.header("shop")) == (b"17", b'{"order_id":17}', b"bremen")
    paid = [one for one in records if one.value == b'{"paid": true}']
    assert len(paid) == 200
    twentieth = [one.partition for one in records if one.key == b"20" and one not in paid]
    assert twentieth == [partition_for(b"20", PARTITIONS)] * 2
    for number, program in enumerate((old_reader, reader)):
        # each with a group of its own, since the first one commits
        program = program.replace('"billing"', f'"billing-{number}"')
        assert len(read(stack, program, len(records))) == len(records)


def read(stack: Stack, program: str, count: int) -> list[str]:
    """Run a consumer until it has printed so many lines."""
    file = stack.written(program, ".py")
    command = [sys.executable, "-u", file, stack.kafka.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            lines = [process.stdout.readline() for _ in range(count)] if process.stdout else []
        finally:
            process.terminate()
    return [line for line in lines if line]


@needs_node
def test_the_program_for_node_runs_as_it_stands(stack: Stack) -> None:
    before, after = pages.sources(PAGE, "js")
    stack.run([str(NODE), "--check", stack.written(before, ".mjs")])
    installed = stack.folder / "node_modules" / "headgate-client"
    installed.parent.mkdir()
    installed.symlink_to(PACKAGE)
    (line,) = stack.run([str(NODE), stack.written(after, ".mjs")])
    assert re.fullmatch(rf"published {partition_for(b'19', PARTITIONS)} 0", line)
    (record,) = stack.log()
    assert (record.key, record.header("shop")) == (b"19", b"bremen")


def test_options_of_the_page_exist() -> None:
    """Both with their defaults, where the page names them."""
    from headgate.consumer import ConsumerOptions
    from headgate_client import Buffering, Limits, Retry

    text = pages.text_of(PAGE)
    for kind in (Buffering, Limits, Retry):
        for options in re.findall(rf"`{kind.__name__}\(([^)]*)\)`", text):
            assert eval(f"kind({options})", {"kind": kind}) == kind(), options
    for name in ("commit_interval_s", "session_timeout_ms", "concurrency", "prefetch", "drain_s",
                 "max_partition_fetch_bytes"):  # fmt: skip
        (value,) = re.findall(rf"`{name}=([\d_.]+)`", text)
        assert float(value) == getattr(ConsumerOptions(), name), name
