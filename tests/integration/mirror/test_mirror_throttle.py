"""I10: what is read from each source broker is capped, and the cap is used."""

from __future__ import annotations

import asyncio
import random
import time
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate_spark.copying.reader import BrokerBuckets, Bucket
from headgate_spark.mirror.copier import Copier, deal, rate_of_task
from support.process.stack import RunningBroker
from support.scenarios import mirror_world
from support.scenarios.mirror_world import Two
from support.virtual_time import run_in_virtual_time

pytestmark = pytest.mark.kafka
RATE, RECORD, RECORDS = 400_000, 1_000, 3_000
SAVED_S = 0.5  # what a bucket makes up for


def test_a_bucket_makes_up_for_short_pauses_only() -> None:
    bucket = Bucket(100.0, 0.0)
    assert bucket.wait_s(0.0) == 0
    bucket.spend(50, 0.0)
    assert bucket.wait_s(0.0) == 0.5
    assert bucket.wait_s(0.5) == 0
    bucket.spend(100, 0.75)  # a quarter of a second late
    assert bucket.wait_s(0.75) == 0.75
    bucket.spend(100, 10.0)
    assert bucket.wait_s(10.0) == 0.5


def test_a_fetch_is_a_fraction_of_a_seconds_bytes() -> None:
    assert BrokerBuckets(4_000_000).fetch_bytes() == 1_000_000
    assert BrokerBuckets(1_000).fetch_bytes() == 65_536
    assert BrokerBuckets(None).fetch_bytes() == BrokerBuckets(10**9).fetch_bytes() == 4_194_304


def test_tasks_share_what_the_busiest_broker_may_give(two: Two, topic: str) -> None:
    units = [mirror_world.unit(two, topic, partition) for partition in range(3)]
    leaders = {
        TopicPartition(topic, 0): 1,
        TopicPartition(topic, 1): 1,
        TopicPartition(topic, 2): 2,
    }
    one_each = deal(units, 3)
    assert rate_of_task(90.0, one_each, leaders, 8) == 45.0
    assert rate_of_task(90.0, one_each, leaders, 1) == 90.0  # one after the other
    assert rate_of_task(90.0, deal(units, 1), leaders, 8) == 90.0
    assert rate_of_task(None, one_each, leaders, 8) is None


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


@pytest.fixture
def topic(two: Two, topic_name: str) -> str:
    two.source.create_topic(topic_name, 3, mirror_world.SOURCE_CONFIGS)
    return two.target.create_topic(topic_name, 3, mirror_world.TARGET_CONFIGS)


@pytest.mark.parametrize("fetchers", [1, 3])
@pytest.mark.parametrize("pause_s", [0.0, 0.2])
def test_I10_the_rate_is_held_within_ten_per_cent(fetchers: int, pause_s: float) -> None:
    """By a clock of the test's own; pauses are those of writing a chunk."""
    buckets, came = BrokerBuckets(RATE), [0, 0]
    request = FetchRequest.__new__(FetchRequest)

    async def fetch(node: int, client: Any, chance: random.Random) -> None:
        while True:
            await client.send(node, request)
            await asyncio.sleep(chance.uniform(0.0, pause_s))

    def client_of(node: int, chance: random.Random) -> Any:
        async def send(*_: object) -> Any:
            await asyncio.sleep(chance.uniform(0.001, 0.05))
            size = chance.randint(buckets.fetch_bytes() // 2, buckets.fetch_bytes())
            return SimpleNamespace(topics=[("t", [(0, bytes(size))])])

        def count(_tp: TopicPartition, size: int) -> None:
            came[node] += size

        client = SimpleNamespace(send=send)
        buckets.throttle(client, count)  # type: ignore[arg-type]
        return client

    async def work() -> None:
        readers = [
            asyncio.create_task(fetch(node, client_of(node, chance), chance))
            for node in range(2)
            for chance in map(random.Random, range(fetchers))
        ]
        for seconds in (10, 20, 30):
            before = list(came)
            await asyncio.sleep(seconds)
            for one, other in zip(before, came, strict=True):
                assert 0.9 * RATE * seconds <= other - one <= 1.1 * RATE * seconds
        for one in readers:
            one.cancel()
        await asyncio.wait(readers)

    run_in_virtual_time(work())


@pytest.mark.parametrize("partitions", [1, 3])
async def test_I10_what_is_read_is_counted_and_takes_its_time(
    two: Two, topic: str, partitions: int
) -> None:
    """The bytes are counted on the source's disk: what a fetch brings is what lies there."""
    producer = Producer({"bootstrap.servers": two.source.bootstrap, "batch.size": 20_000})
    for number in range(RECORDS):
        producer.produce(topic, b"x" * RECORD, partition=number % partitions)
    assert producer.flush(30) == 0
    units = [mirror_world.unit(two, topic, number) for number in range(partitions)]
    began_s = time.monotonic()
    options, buckets = two.options(bytes_per_s=RATE), BrokerBuckets(RATE)
    copied = await asyncio.gather(*(Copier(unit, options, buckets).run() for unit in units))
    took_s = time.monotonic() - began_s
    assert [one.trouble for one in copied] == [None] * partitions
    assert sum(one.records for one in copied) == RECORDS
    on_disk = sum(
        file.stat().st_size
        for number in range(partitions)
        for file in (two.source.log_dir / f"{topic}-{number}").glob("*.log")
    )
    assert sum(one.bytes for one in copied) >= on_disk
    # It may take longer: others use the machine, too.
    assert on_disk <= 1.1 * RATE * (took_s + SAVED_S)
