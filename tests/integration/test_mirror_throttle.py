"""I10: what is read from each source broker is capped, and the cap is used."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

import mirror_world
from headgate_spark.copier import Copier
from headgate_spark.copy_tasks import deal, rate_of_task
from headgate_spark.throttle import BrokerBuckets, Bucket
from mirror_world import Two
from stack import RunningBroker

pytestmark = pytest.mark.kafka
RATE, RECORD, RECORDS = 400_000, 1_000, 1_500
SAVED_S = 0.5  # what a bucket makes up for
WINDOW = 9


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


@pytest.mark.parametrize("partitions", [1, 3])
async def test_I10_the_rate_is_held_within_ten_per_cent(
    two: Two, topic: str, partitions: int
) -> None:
    """The bytes are counted on the source's disk: what a fetch brings is what lies there."""
    producer = Producer({"bootstrap.servers": two.source.bootstrap, "batch.size": 20_000})
    for number in range(RECORDS * 2):
        producer.produce(topic, b"x" * RECORD, partition=number % partitions)
    assert producer.flush(30) == 0
    units = [mirror_world.unit(two, topic, number) for number in range(partitions)]
    seen: list[tuple[float, int]] = []
    began_s = time.monotonic()
    options = two.options(bytes_per_s=RATE)
    buckets = BrokerBuckets(RATE)
    copied = await asyncio.gather(
        *(
            Copier(
                unit, options, buckets, lambda count: seen.append((time.monotonic(), count))
            ).run()
            for unit in units
        )
    )
    assert [one.trouble for one in copied] == [None] * partitions
    assert sum(one.records for one in copied) == RECORDS * 2
    on_disk = sum(
        file.stat().st_size
        for number in range(partitions)
        for file in (two.source.log_dir / f"{topic}-{number}").glob("*.log")
    )
    assert sum(one.bytes for one in copied) >= on_disk
    took_s = seen[-1][0] - began_s
    assert on_disk <= 1.1 * RATE * (took_s + SAVED_S)
    # What a busy machine takes from some seconds, it does not take from most of them.
    chunks = [(at_s, count / (RECORDS * 2) * on_disk) for at_s, count in seen if count]
    rates = [
        sum(size for _, size in some[1:]) / (some[-1][0] - some[0][0])
        for some in (chunks[first : first + WINDOW] for first in range(len(chunks) - WINDOW + 1))
    ]
    assert 0.9 * RATE <= statistics.median(rates) <= 1.1 * RATE
