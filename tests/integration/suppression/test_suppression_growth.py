"""A topic gets more partitions under traffic, and every worker learns of it at another moment.

Each key moves once a growth, and what is answered `unchanged` is its newest record's content.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice

import psutil
import pytest

from chaos.suppression.history import Attempt, wrong_answers
from chaos.suppression.moves import back_moves, disorder, stale_keys, wrong_unchanged
from chaos.suppression.writers import Writers, write_while
from headgate.model.keys import partition_for
from support.kafka import kafka_log
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.redis]
COUNTS = (2, 4, 8, 16)
CONFIG = """
[http]
request_timeout_ms = 5000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 5000
lane_stall_ms = 5000
metadata_refresh_ms = {refresh_ms}
[redis]
url = "{redis}"
timeout_ms = 2000
namespace = "{topic}"
quarantine_ms = 500
[topics."{topic}"]
kind = "state"
suppress = "raw"
key = ["/id"]
redis_loss = "{redis_loss}"
"""


class World:
    """A topic that grows, and its writers."""

    def __init__(self, kafka: RunningBroker, topic: str, urls: list[str]) -> None:
        self.kafka, self.topic = kafka, topic
        self.writers = Writers(
            urls, topic, 5, hot_keys=0, sequential_keys=24, contents="AB", reconnects=True
        )

    async def grow(self, learnt_s: float) -> None:
        """Double the partitions again and again; between them everyone has time to learn of it."""
        await eventually(lambda: self.writers.count("unchanged") > 100)
        for count in COUNTS[1:]:
            await asyncio.to_thread(
                kafka_log.add_partitions, self.kafka.bootstrap, self.topic, count
            )
            learnt = time.monotonic() + learnt_s
            await eventually(lambda learnt=learnt: time.monotonic() > learnt)
            since = len(self.sent)
            await eventually(lambda since=since: self.has_saved(since))

    def has_saved(self, since: int) -> bool:
        """Suppression works again. Not within the promise, but without it nothing is judged."""
        return sum(one.outcome == "unchanged" for one in self.sent[since:]) > 50

    @property
    def sent(self) -> list[Attempt]:
        return self.writers.sequential

    async def judge(self) -> None:
        log = await asyncio.to_thread(kafka_log.read_log, self.kafka.bootstrap, self.topic)
        faults = {
            "moved back": back_moves(self.sent, COUNTS, partition_for),
            "wrong": map(str, wrong_answers(self.sent, log)),
            "not by the newest": wrong_unchanged(self.sent, log),
            "stale": stale_keys(self.sent, log),
            "disorder": disorder(self.sent, log),
        }
        found = {name: those for name, each in faults.items() if (those := _first(each))}
        assert not found, "\n".join(f"{name}: {one}" for name in found for one in found[name])
        outcomes = Counter(str(one.outcome) for one in self.sent)
        assert min(outcomes["published"], outcomes["unchanged"]) > 200, outcomes
        used = {one.partition for one in self.sent if one.outcome == "published"}
        assert max(used) >= COUNTS[-2], used


def _first(faults: Iterator[str]) -> list[str]:
    return list(islice(faults, 3))


async def test_two_workers_one_of_them_killed(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    """The killed one's successor looks at the topic at other moments than the one that stays."""
    kafka.create_topic(topic_name, COUNTS[0])
    text = CONFIG.format(
        bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name,
        refresh_ms=2000, redis_loss="publish",
    )  # fmt: skip
    gateway = start_gateway(text, "--workers", "2")
    world = World(kafka, topic_name, [gateway.url])

    async def kill() -> None:
        await eventually(lambda: world.writers.count("published") > 300)
        victim = gateway.pids[1]
        psutil.Process(victim).send_signal(signal.SIGKILL)
        await eventually(lambda: victim not in gateway.pids and len(gateway.pids) >= 3, 30)

    async def happenings() -> None:
        await kill()
        async with asyncio.TaskGroup() as both:
            both.create_task(world.grow(2.5))
            both.create_task(kill())

    await write_while(world.writers, happenings)
    await world.judge()


async def test_two_gateways_that_refuse_without_redis(
    kafka: RunningBroker,
    redis_server: RunningRedis,
    start_gateway: Callable[..., Gateway],
    topic_name: str,
) -> None:
    kafka.create_topic(topic_name, COUNTS[0])
    urls = []
    for refresh_ms in (2500, 800):
        text = CONFIG.format(
            bootstrap=kafka.bootstrap, redis=redis_server.url, topic=topic_name,
            refresh_ms=refresh_ms, redis_loss="refuse",
        )  # fmt: skip
        urls.append(start_gateway(text).url)
    world = World(kafka, topic_name, urls)
    await write_while(world.writers, lambda: world.grow(3.0))
    await world.judge()
    assert {one.outcome for one in world.sent} <= {"published", "unchanged"}
