"""What the two processes of a gateway have in memory."""

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from procfs import memory_of
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[redis]
url = "{redis}"
namespace = "{topic}"
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
"""
# Shared libraries of packages that only workers need.
OF_WORKERS = ("/aiokafka/", "/hiredis/", "/cramjam/", "/uvloop/")
MIB = 2**20


@pytest.fixture
def gateway(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
) -> Gateway:
    kafka.create_topic(topic_name, 1)
    text = CONFIG.format(bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name)
    return start_gateway(text)


def loaded(pid: int) -> set[str]:
    maps = Path(f"/proc/{pid}/maps").read_text()
    return {name for name in OF_WORKERS if name in maps}


async def test_a_parent_that_runs_has_not_loaded_what_only_workers_need(gateway: Gateway) -> None:
    (worker,) = psutil.Process(gateway.pid).children()
    assert loaded(worker.pid) == set(OF_WORKERS), "else this shows nothing"
    # it has read the worker's figures, with details
    await eventually(lambda: "worker 0 is up" in gateway.log())
    assert loaded(gateway.pid) == set()


async def test_an_idle_gateway_is_small(gateway: Gateway) -> None:
    """Measured: 46 and 62 MiB (loadtest/README.md). The room is for other versions of libraries."""
    await eventually(lambda: "worker 0 is up" in gateway.log())
    (worker,) = psutil.Process(gateway.pid).children()
    assert memory_of(gateway.pid).rss < 56 * MIB
    assert memory_of(worker.pid).rss < 76 * MIB
