"""Incident C (docs/design/incidents.md): pauses across rebalances and restarts.

On a real broker and a real Redis.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import requests
from aiokafka import AIOKafkaConsumer

from headgate.consumer.consumer import Consumer
from headgate.consumer.options import ConsumerOptions
from headgate.consumer.partition import Received
from headgate.redis.pauses import Intent, PauseScope, RedisPauses
from support.process.stack import Gateway, RunningBroker, RunningRedis, eventually
from support.scenarios.consumer_world import fill

pytestmark = [pytest.mark.kafka, pytest.mark.redis]

log = logging.getLogger(__name__)

PARTITIONS, EACH = 4, 3_000
OPTIONS = ConsumerOptions(prefetch=50, commit_interval_s=0.1, session_timeout_ms=6_000)


class Group:
    """Members that take note of what they were handed out, and are slow."""

    def __init__(self, kafka: RunningBroker, redis: RunningRedis, topics: tuple[str, ...]) -> None:
        self.kafka, self.redis, self.topics = kafka, redis, topics
        self.handed: list[tuple[str, int]] = []

    @asynccontextmanager
    async def member(self, store: RedisPauses | None = None) -> AsyncIterator[Consumer]:
        consumer = Consumer(
            *self.topics,
            group=f"paused-{self.topics[0]}",
            bootstrap=self.kafka.bootstrap,
            options=OPTIONS,
            **({} if store is None else {"pauses": store}),
        )
        async with consumer:
            work = asyncio.create_task(consumer.run(self._handle, tasks=4))
            try:
                yield consumer
            finally:
                consumer.stop()
                await work

    async def _handle(self, received: Received) -> None:
        self.handed.append((received.topic, received.partition))
        await asyncio.sleep(0.002)

    async def flows(self, place: tuple[str, int]) -> None:
        """Wait until something of this partition was handed out from now on."""
        begun = len(self.handed)
        await eventually(lambda: place in self.handed[begun:], 30)


@pytest.fixture
def group(kafka: RunningBroker, redis_server: RunningRedis, topic_name: str) -> Group:
    topics = (topic_name, f"{topic_name}-other")
    for topic in topics:
        kafka.create_topic(topic, PARTITIONS)
        fill(kafka.bootstrap, topic, PARTITIONS, EACH)
    return Group(kafka, redis_server, topics)


@pytest.mark.parametrize("rebalances", [pytest.param(3), pytest.param(50, marks=pytest.mark.full)])
async def test_nothing_is_handed_out_that_intent_forbids(group: Group, rebalances: int) -> None:
    paused, other = group.topics
    seed = random.randrange(1_000_000)
    log.warning("seed %d", seed)
    chance = random.Random(seed)
    async with group.member() as first:
        await group.flows((paused, 0))
        first.pause("operator", paused)
        first.pause("breaker", other, 1)
        begun = len(group.handed)
        for _ in range(rebalances):
            async with group.member() as second:
                # A newcomer knows the intent of its own process only, so it gets the same.
                second.pause("operator", paused)
                second.pause("breaker", other, 1)
                await asyncio.sleep(chance.uniform(0.1, 1.0))
            await asyncio.sleep(chance.uniform(0.1, 0.5))
        handed = group.handed[begun:]
        assert not [one for one in handed if one[0] == paused or one == (other, 1)]
        assert {(other, 0), (other, 2), (other, 3)} & set(handed), "the rest went on"
        first.pause("deploy", paused)
        first.resume("operator", paused)
        await asyncio.sleep(1)
        assert not [one for one in group.handed[begun:] if one[0] == paused], "deploy still holds"
        first.resume("deploy", paused)
        await group.flows((paused, 0))


CONFIG = """
[clusters.main]
bootstrap_servers = "{bootstrap}"
[redis]
url = "{redis}"
[topics.x]
cluster = "main"
key = ["/id"]
"""


async def test_a_restarted_process_starts_paused_by_what_operators_said(
    group: Group, start_gateway: Callable[..., Gateway]
) -> None:
    paused, other = group.topics
    text = CONFIG.format(bootstrap=group.kafka.bootstrap, redis=group.redis.url)
    page = f"{start_gateway(text).management_url}/v1/pauses/paused-{paused}"
    body = {"scope": {"topic": paused}, "reason": "operator"}
    store = RedisPauses(group.redis.url)
    try:
        assert (await asyncio.to_thread(requests.put, page, json=body)).status_code == 200
        for _ in range(2):
            async with group.member(store) as consumer:
                await group.flows((other, 0))
                assert consumer.intents() == [Intent(PauseScope(paused), "operator")]
        assert not [one for one in group.handed if one[0] == paused]
        async with group.member(store):
            answer = await asyncio.to_thread(requests.delete, page, json=body)
            assert answer.json()["intents"] == []
            await group.flows((paused, 0))
            await asyncio.to_thread(requests.put, page, json=body)
            await eventually(lambda: _stands(group, paused), 30)
            assert _handed(group, paused) < PARTITIONS * EACH, "there was nothing left to pause"
    finally:
        await store.close()


async def _stands(group: Group, topic: str) -> bool:
    before = _handed(group, topic)
    await asyncio.sleep(0.5)
    return _handed(group, topic) == before


def _handed(group: Group, topic: str) -> int:
    return sum(one[0] == topic for one in group.handed)


async def test_plain_aiokafka_loses_its_pauses(group: Group) -> None:
    paused, _ = group.topics
    arguments = {
        "bootstrap_servers": group.kafka.bootstrap,
        "group_id": f"plain-{paused}",
        "auto_offset_reset": "earliest",
    }
    first = AIOKafkaConsumer(*group.topics, **arguments)
    await first.start()
    second = AIOKafkaConsumer(*group.topics, **arguments)
    try:
        await first.getmany(timeout_ms=1_000, max_records=1)
        first.pause(*[tp for tp in first.assignment() if tp.topic == paused])
        await second.start()
        leaked = 0
        for _ in range(100):
            found = await first.getmany(timeout_ms=200, max_records=100)
            leaked += sum(len(records) for tp, records in found.items() if tp.topic == paused)
            if leaked:
                return
    finally:
        await first.stop()
        await second.stop()
    pytest.fail("the harness cannot see what it is there to see")
