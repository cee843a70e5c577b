"""What something else writes to the mirror's topic is seen, told and kept out of the map."""

from __future__ import annotations

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate.replays.segments import FOREIGN
from headgate_spark.mirror.lag import Lag, Totals, textfile
from headgate_spark.mirror.verify import compare
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import copy, following, mapped_end, produce
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker, topic_name: str) -> Two:
    mirror_world.create_map(backfill)
    kafka.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    backfill.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    return Two(kafka, backfill)


def foreign_gaps(two: Two, topic: str) -> list[int]:
    found = mirror_world.read_maps(two.target, topic)[topic, 0]
    return [one.source for one in found.table.gaps if one.reason == FOREIGN]


def abort(two: Two, topic: str, values: list[bytes]) -> None:
    """What a copier leaves that dies."""
    dead = Producer({"bootstrap.servers": two.target.bootstrap, "transactional.id": f"x-{topic}"})
    dead.init_transactions(30)
    dead.begin_transaction()
    for value in values:
        dead.produce(topic, value, partition=0)
    dead.flush(30)
    dead.abort_transaction(30)
    kafka_log.wait_settled(two.target.bootstrap, topic)


async def test_foreign_records_behind_the_mirrors_are_told_and_mapped_around(
    two: Two, topic_name: str
) -> None:
    OddSource(two.source, topic_name, seed=3).write(0, 200)
    unit, options = mirror_world.unit(two, topic_name), two.options(chunk_records=50)
    copied = await copy(unit, options)
    assert (copied.foreign, foreign_gaps(two, topic_name)) == (0, [])
    abort(two, topic_name, [b"of a copier that died"] * 3)
    assert (await copy(unit, options)).foreign == 0  # nobody can read those
    first = kafka_log.end_offsets(two.target.bootstrap, topic_name)[0]
    produce(two.target, topic_name, [b"not", b"ours"])
    for _ in range(2):  # the map is told once
        copied = await copy(unit, options)
        assert (copied.foreign, copied.foreign_at) == (2, first)
        assert foreign_gaps(two, topic_name) == [copied.position]
    OddSource(two.source, topic_name, seed=4).write(0, 100)
    copied = await copy(mirror_world.unit(two, topic_name), options)
    assert copied.trouble is None
    produced = kafka_log.read_log(two.source.bootstrap, topic_name)
    found = await compare(TopicPartition(topic_name, 0), options)
    assert (found.compared, found.differing, found.unmapped) == (len(produced), 0, 2)
    maps = {TopicPartition(topic_name, 0): mirror_world.read_maps(two.target, topic_name)[
        topic_name, 0
    ]}  # fmt: skip
    lags = dict.fromkeys(maps, Lag(0, 0.0, 0))
    assert f'headgate_mirror_foreign_total{{topic="{topic_name}",partition="0"}} 1\n' in textfile(
        lags, maps, Totals(), {}, "main", 0.0
    )


async def test_a_topic_that_something_wrote_to_before_the_mirror(two: Two, topic_name: str) -> None:
    produce(two.target, topic_name, [b"not ours"])
    OddSource(two.source, topic_name, seed=5).write(0, 50)
    copied = await copy(mirror_world.unit(two, topic_name), two.options())
    assert (copied.foreign, copied.foreign_at) == (1, 0)
    assert len(foreign_gaps(two, topic_name)) == 1


async def test_foreign_records_between_two_chunks_are_seen_at_once(
    two: Two, topic_name: str
) -> None:
    unit = mirror_world.unit(two, topic_name, end=None)
    produce(two.source, topic_name, [b"1", b"2"])
    async with following(unit, two.options(interval_s=0.2)) as task:
        await eventually(lambda: mapped_end(two, topic_name) == 2)
        produce(two.target, topic_name, [b"not ours"])
        produce(two.source, topic_name, [b"3"])
        await eventually(lambda: mapped_end(two, topic_name) == 3)
        assert not task.done()
    assert foreign_gaps(two, topic_name) == [2]
    values = [one.value for one in kafka_log.read_log(two.target.bootstrap, topic_name)]
    assert values == [b"1", b"2", b"not ours", b"3"]
