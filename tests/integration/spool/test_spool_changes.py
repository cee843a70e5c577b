"""What changes while events lie in the spool, with real Kafka: the configuration, and the topic."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.core.keys import partition_for
from support.clients.http_client import Answer, exchange, post
from support.kafka.kafka_log import LogRecord, read_log
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.kafka

CONFIG = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
metadata_refresh_ms = {refresh_ms}
lane_stall_ms = 1500
[spool]
path = "{folder}"
drain_events_per_s = {rate}
[topics.deals]
key = ["/id"]
kind = "state"
"""
SPOOLS = "spool = true\nspool_after_ms = 500\n"
CHUNKS = 'oversize = ["chunk"]\n'
COALESCES = "coalesce_quiet_ms = 100\n"
HELD = "headgate.held.deals"
EVENTS = 40


class Place:
    """A broker and a gateway, whose configuration changes."""

    def __init__(self, broker: RunningBroker, gateway: Gateway, config: str) -> None:
        self.broker, self.gateway, self._config = broker, gateway, config

    def reload(self, more: str) -> None:
        self.gateway.config.write_text(
            self.gateway.config.read_text().split("[topics.deals]")[0]
            + "[topics.deals]"
            + self._config.split("[topics.deals]")[1]
            + more
        )
        self.gateway.reload()

    async def send(self, number: int, key: int, size: int = 0) -> Answer:
        body = json.dumps({"id": key, "n": number, "text": "x" * size}).encode()
        return await asyncio.to_thread(post, self.gateway.port, "deals", body)

    def left(self) -> int:
        found = exchange(self.gateway.management_port, "GET", "/v1/spool").document
        return int(found["events"])

    async def until_drained(self) -> None:
        await eventually(lambda: self.left() == 0, 60, 0.1)

    async def log(self) -> list[LogRecord]:
        return await asyncio.to_thread(read_log, self.broker.bootstrap, "deals")


@pytest.fixture
def place(
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> Callable[..., Place]:
    def make(partitions: int, **options: int) -> Place:
        broker = start_broker()
        broker.create_topic("deals", partitions, {"max.message.bytes": "4000"})
        given = {"rate": 100_000, "refresh_ms": 500, **options}
        config = CONFIG.format(bootstrap=broker.bootstrap, folder=tmp_path / "spool", **given)
        return Place(broker, start_gateway(config + SPOOLS), config)

    return make


def numbers(log: list[LogRecord]) -> list[int]:
    """Of records with a whole document, in order of their offsets."""
    found = []
    for one in log:
        try:
            found.append(int(json.loads(one.value or b"null")["n"]))
        except ValueError:
            found.append(-1)  # a chunk
    return list(dict.fromkeys(found))


async def test_large_events_stay_behind_the_backlog_after_a_reload_to_a_strategy(
    place: Callable[..., Place],
) -> None:
    here = place(1, rate=10)
    assert (await here.send(0, 1)).status == 201
    here.broker.kill()
    for number in range(1, EVENTS):
        assert (await here.send(number, 1)).status == 202
    here.broker.restart()
    here.reload(CHUNKS)
    assert (await here.send(EVENTS, 1)).status in (201, 202)
    large = await here.send(EVENTS + 1, 1, size=5000)
    assert large.status == 503, "there is a backlog of seconds"
    assert large.headers["retry-after"]
    await here.until_drained()
    assert (await here.send(EVENTS + 2, 1, size=5000)).status == 201
    assert numbers(await here.log()) == [*range(EVENTS + 1), -1]


async def test_a_state_does_not_go_back_after_a_reload_to_coalescing(
    place: Callable[..., Place],
) -> None:
    here = place(1, rate=10)
    assert (await here.send(0, 1)).status == 201
    here.broker.kill()
    for number in range(1, EVENTS):
        assert (await here.send(number, 1)).status == 202
    here.broker.restart()
    here.broker.create_topic(HELD, 1)
    here.reload(COALESCES)
    await asyncio.sleep(1.5)  # it has seen the held topic
    assert here.left()
    assert (await here.send(EVENTS, 1)).status == 202
    await here.until_drained()

    async def is_held() -> bool:
        return bool((await here.send(EVENTS + 1, 1)).document["outcome"] == "held")

    await eventually(is_held, 30, 0.2)

    async def is_published() -> bool:
        return numbers(await here.log())[-1] == EVENTS + 1

    await eventually(is_published, 30, 0.5)
    found = numbers(await here.log())
    assert found == sorted(found)


async def test_what_was_spooled_goes_where_its_key_belongs_in_a_topic_made_again(
    place: Callable[..., Place],
) -> None:
    here = place(5, refresh_ms=60_000)
    assert (await here.send(0, 0)).status == 201
    here.broker.kill()
    for number in range(60):
        assert (await here.send(number, number)).status == 202
    here.gateway.pause()
    try:
        here.broker.restart()
        here.broker.delete_topic("deals")
        await asyncio.sleep(1.0)
        here.broker.create_topic("deals", 7)
    finally:
        here.gateway.resume()
    await here.until_drained()
    log = await here.log()
    misplaced = [one.key for one in log if one.partition != partition_for(one.key or b"", 7)]
    assert len(numbers(log)) == 60
    assert not misplaced
