"""What changes while events lie in the spool, with real Kafka: the configuration, and the topic."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headgate.model.keys import partition_for
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
STRATEGY = 'oversize = ["compress"]\n'
COALESCES = "coalesce_quiet_ms = 100\n"
HELD = "headgate.held.deals"
EVENTS = 1201  # that a few seconds are needed for: 500 are read at a time
KEYS = 60


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

    async def spool(self, numbers: range) -> None:
        """Post an event with each of these numbers, of one key."""
        body = json.dumps([{"id": 1, "n": number} for number in numbers]).encode()
        answer = await asyncio.to_thread(post, self.gateway.port, "deals", body)
        assert answer.document["summary"] == {"spooled": len(numbers)}

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
) -> Callable[..., Awaitable[Place]]:
    async def make(partitions: int, **options: int) -> Place:
        broker = start_broker()
        broker.create_topic("deals", partitions, {"max.message.bytes": "4000"})
        given = {"rate": 100_000, "refresh_ms": 500, **options}
        config = CONFIG.format(bootstrap=broker.bootstrap, folder=tmp_path / "spool", **given)
        here = Place(broker, start_gateway(config + SPOOLS), config)

        async def is_up() -> bool:
            return (await here.send(0, 1)).status == 201

        await eventually(is_up, 30, 0.2)
        return here

    return make


def numbers(log: list[LogRecord]) -> list[int]:
    """In order of the offsets, each once."""
    return list(dict.fromkeys(int(json.loads(one.value or b"null")["n"]) for one in log))


@pytest.mark.full  # test_spool_policy_pairs.py has every pair of policies in memory
async def test_large_events_stay_behind_the_backlog_after_a_reload_to_a_strategy(
    place: Callable[..., Awaitable[Place]],
) -> None:
    here = await place(1, rate=100)
    here.broker.kill()
    await here.spool(range(1, EVENTS))
    here.broker.restart()
    here.reload(STRATEGY)

    async def has_reloaded() -> bool:
        return (await here.send(EVENTS + 1, 1, size=5000)).status != 413

    await eventually(has_reloaded, 10, 0.1)
    assert here.left(), here.gateway.log()
    large = await here.send(EVENTS + 1, 1, size=5000)
    assert large.status == 503, "there is a backlog of seconds"
    assert large.headers["retry-after"]
    assert (await here.send(EVENTS, 1)).status in (201, 202)
    await here.until_drained()

    async def is_taken() -> bool:  # the last drained events may still wait for Kafka
        return (await here.send(EVENTS + 2, 1, size=5000)).status == 201

    await eventually(is_taken, 30, 0.1)
    assert numbers(await here.log()) == [*range(EVENTS + 1), EVENTS + 2]


async def test_a_state_does_not_go_back_after_a_reload_to_coalescing(
    place: Callable[..., Awaitable[Place]],
) -> None:
    here = await place(1, rate=100)
    here.broker.kill()
    await here.spool(range(1, EVENTS))
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


async def test_every_record_goes_where_its_key_belongs_in_a_topic_made_again(
    place: Callable[..., Awaitable[Place]],
) -> None:
    """5 partitions become 7 while Kafka is away: what was on disk, and what the producer had."""
    here = await place(5, refresh_ms=60_000)
    here.broker.kill()
    for number in range(1, KEYS + 1):
        assert (await here.send(number, number)).status == 202
    stopped = here.gateway.pids
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        here.broker.restart()
        here.broker.delete_topic("deals")
        await asyncio.sleep(1.0)
        here.broker.create_topic("deals", 7)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    await here.until_drained()
    log = await here.log()
    misplaced = [one.key for one in log if one.partition != partition_for(one.key or b"", 7)]
    assert not misplaced
    assert sorted(numbers(log)) == list(range(1, KEYS + 1)), here.gateway.log()
