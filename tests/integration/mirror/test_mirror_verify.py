"""I11: a mirror is compared with its source, and what is wrong is said."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate.replays.offset_map import MAP_TOPIC, layout_record, segment_record
from headgate.replays.segments import Segment
from headgate_spark.copying.reader import CopyUnit
from headgate_spark.mirror.verify import Verified, compare, sentence
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_copies, mirror_world
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka


@pytest.fixture
async def mirrored(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str
) -> tuple[Two, str]:
    two = Two(kafka, backfill)
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    OddSource(kafka, topic_name, seed=9).write(0, 500)
    await copy(two, topic_name)
    return two, topic_name


async def copy(two: Two, topic: str) -> None:
    await mirror_copies.copy(mirror_world.unit(two, topic), two.options(chunk_records=100))


async def verify(two: Two, topic: str) -> Verified:
    return await compare(TopicPartition(topic, 0), two.options())


def counts(one: Verified) -> tuple[int, ...]:
    return one.differing, one.source_only, one.target_only, one.unmapped


async def test_I11_a_true_mirror_is_good(mirrored: tuple[Two, str]) -> None:
    two, topic = mirrored
    found = await verify(two, topic)
    assert found.is_good
    assert counts(found) == (0, 0, 0, 0)
    assert found.compared == len(kafka_log.read_log(two.source.bootstrap, topic)) >= 500


async def test_I11_what_the_source_has_no_more_is_counted_and_fine(
    mirrored: tuple[Two, str],
) -> None:
    two, topic = mirrored
    kafka_log.delete_records(two.source.bootstrap, topic)
    OddSource(two.source, topic, seed=10).write(0, 50)
    await copy(two, topic)
    found = await verify(two, topic)
    assert found.is_good
    assert found.compared >= 50
    assert found.source_range[0] >= 500


async def test_I11_foreign_and_missing_records_are_found(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str
) -> None:
    """Two partitions of the same topics stand for a mirror that went wrong."""
    two = Two(kafka, backfill)
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    source = Producer({"bootstrap.servers": kafka.bootstrap})
    for value in (b"a", b"b", b"c", b"d"):
        source.produce(topic_name, value, partition=0, timestamp=1_700_000_000_000)
    assert source.flush(30) == 0
    target = Producer({"bootstrap.servers": backfill.bootstrap})
    # a, b differently, something foreign, d: c is missing
    for value in (b"a", b"B", b"?", b"d"):
        target.produce(topic_name, value, partition=0, timestamp=1_700_000_000_000)
    assert target.flush(30) == 0
    unit = mirror_world.unit(two, topic_name)
    write_map(two, unit, [(0, 0, 2), (3, 3, 1)])
    found = await verify(two, topic_name)
    assert counts(found) == (1, 1, 0, 1)
    assert found.first == (
        "source offset 1, target 1: value",
        "target offset 2 is not in the map: not the mirror's",
        "source offset 2 is not on the target",
    )


async def test_I11_foreign_records_before_and_behind_what_is_mapped_are_found(
    mirrored: tuple[Two, str],
) -> None:
    two, topic = mirrored
    end = kafka_log.end_offsets(two.target.bootstrap, topic)[0]
    mirror_copies.produce(two.target, topic, [b"not", b"ours"])
    found = await verify(two, topic)
    assert (found.is_good, counts(found)) == (False, (0, 0, 0, 2))
    assert found.compared >= 500
    assert found.first == tuple(
        f"target offset {one} is not in the map: not the mirror's" for one in (end, end + 1)
    )
    assert "2 in the mirror's topic and not in the map" in sentence(found)


async def test_I11_a_map_of_a_deleted_topic_compares_nothing(mirrored: tuple[Two, str]) -> None:
    two, topic = mirrored
    two.target.delete_topic(topic)
    await eventually(lambda: topic not in kafka_log.topic_names(two.target.bootstrap))
    two.target.create_topic(topic, 1, mirror_world.TARGET_CONFIGS)
    found = await verify(two, topic)
    assert (found.is_good, found.compared) == (False, 0)
    assert "deleted and recreated" in sentence(found)


async def test_I11_foreign_records_of_a_topic_of_which_nothing_is_mapped_are_found(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str
) -> None:
    two = Two(kafka, backfill)
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    mirror_copies.produce(two.target, topic_name, [b"not ours"])
    found = await verify(two, topic_name)
    assert (found.is_good, counts(found)) == (False, (0, 0, 0, 1))


def write_map(two: Two, unit: CopyUnit, runs: list[tuple[int, int, int]]) -> None:
    producer = Producer({"bootstrap.servers": two.target.bootstrap})
    records = [layout_record(unit.address, unit.layout)]
    for at, (start, goal, count) in enumerate(runs):
        end = runs[at + 1][0] if at + 1 < len(runs) else start + count
        segment = Segment(start, goal, count, end, 0, 0)
        records.append(segment_record(unit.address, segment))
    for key, value in records:
        producer.produce(MAP_TOPIC, value, key, partition=unit.map_partition)
    assert producer.flush(30) == 0
