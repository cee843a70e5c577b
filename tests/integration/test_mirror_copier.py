"""One partition copied between two real clusters: the invariants I1-I8, without Spark."""

from __future__ import annotations

import pytest

import kafka_log
import mirror_world
from headgate_spark.copier import Copier
from headgate_spark.copy_plan import Copied, CopyOptions, Unit
from headgate_spark.throttle import BrokerBuckets
from mirror_world import OddSource, Two
from stack import RunningBroker

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


@pytest.fixture
def topic(two: Two, topic_name: str) -> str:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    return two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)


async def copy(unit: Unit, options: CopyOptions) -> Copied:
    copied = await Copier(unit, options, BrokerBuckets(options.bytes_per_s)).run()
    assert copied.trouble is None
    return copied


async def test_I2_I3_I4_I5_odd_records_are_copied_once_in_order_identical_and_mapped(
    two: Two, topic: str
) -> None:
    OddSource(two.source, topic, seed=1).write(0, 3000)
    copied = await copy(mirror_world.unit(two, topic), two.options(chunk_records=500))
    assert copied.records == mirror_world.judge(two, topic) >= 3000
    assert copied.transactions >= 6


async def test_I6_a_finished_copy_run_again_writes_nothing(two: Two, topic: str) -> None:
    OddSource(two.source, topic, seed=2).write(0, 300)
    await copy(mirror_world.unit(two, topic), two.options())
    ends = kafka_log.end_offsets(two.target.bootstrap, topic)
    maps = kafka_log.end_offsets(two.target.bootstrap, mirror_world.MAP_TOPIC)
    again = await copy(mirror_world.unit(two, topic), two.options())
    assert (again.records, again.transactions) == (0, 0)
    assert kafka_log.end_offsets(two.target.bootstrap, topic) == ends
    assert kafka_log.end_offsets(two.target.bootstrap, mirror_world.MAP_TOPIC) == maps
