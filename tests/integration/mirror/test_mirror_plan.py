"""What the driver decides on two real clusters: topics (I1, I9), layouts, ranges, old segments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate.replays.offset_map import MAP_TOPIC
from headgate.replays.segments import RECREATED, Result
from headgate_spark.copying.cluster import ClusterAdmin, cluster_admin
from headgate_spark.job.command_line import JobError
from headgate_spark.mirror.plan import (
    MapView,
    Plan,
    Reason,
    Skip,
    plan,
    prepare_map,
    prepare_topics,
    trim,
)
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import copy
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka
FOREVER = str(2**63 - 1)


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


@asynccontextmanager
async def admins(two: Two) -> AsyncIterator[tuple[ClusterAdmin, ClusterAdmin]]:
    options = two.options()
    async with cluster_admin(options.source) as there, cluster_admin(options.target) as here:
        yield there, here


async def prepare(two: Two, topic: str, retention_ms: int = -1) -> None:
    assert await skip(two, topic, retention_ms) is None


async def skip(two: Two, topic: str, retention_ms: int = -1) -> Skip | None:
    """Why it is not mirrored."""
    async with admins(two) as (there, here):
        return (await prepare_topics(there, here, [topic], retention_ms)).get(topic)


async def planned(
    two: Two, topic: str, *, is_bounded: bool = True, checks_tail: bool = False
) -> tuple[Plan, MapView]:
    view = MapView(two.options().target)
    await view.refresh()
    async with admins(two) as (there, here):
        assert not await prepare_topics(there, here, [topic], -1)
        found = await plan(
            there,
            here,
            view,
            [topic],
            1_700_000_000_000,
            is_bounded=is_bounded,
            checks_tail=checks_tail,
        )
    return found, view


async def mirror(two: Two, topic: str) -> Plan:
    found, _ = await planned(two, topic)
    for unit in found.units:
        await copy(unit, two.options(chunk_records=40))
    return found


async def refusal(attempt: Awaitable[None], text: str) -> bool:
    """Whether it is refused so: a broker may take a moment to learn of a change."""
    try:
        await attempt
    except JobError as error:
        return text in str(error)
    return False


async def test_I1_I9_the_mirrors_topic_is_made_to_keep_records_as_they_are(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 5, {"max.message.bytes": "5000000"})
    await prepare(two, topic_name)
    configs = kafka_log.topic_configs(two.target.bootstrap, topic_name)
    assert kafka_log.partition_count(two.target.bootstrap, topic_name) == 5
    assert {name: configs[name] for name in (
        "cleanup.policy", "message.timestamp.type", "message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms", "retention.ms", "max.message.bytes",
    )} == {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "message.timestamp.before.max.ms": FOREVER,
        "message.timestamp.after.max.ms": FOREVER,
        "retention.ms": "-1",
        "max.message.bytes": "10000000",  # with room: another codec may compress less
    }  # fmt: skip
    await prepare(two, topic_name)  # what it has made itself it takes


async def test_I9_retention_may_be_chosen(two: Two, topic_name: str) -> None:
    two.source.create_topic(topic_name, 1)
    await prepare(two, topic_name, retention_ms=86_400_000)
    configs = kafka_log.topic_configs(two.target.bootstrap, topic_name)
    assert configs["retention.ms"] == "86400000"
    await prepare(two, topic_name)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy is compact: set it to delete"),
        ({"message.timestamp.type": "LogAppendTime"}, "message.timestamp.type is LogAppendTime"),
        ({"message.timestamp.before.max.ms": "5000"}, "message.timestamp.before.max.ms is 5000"),
        (
            {"message.timestamp.after.max.ms": "3600000"},
            "message.timestamp.after.max.ms is 3600000",
        ),
        ({"retention.ms": None}, "retention.ms is the broker's 604800000: set it to -1"),
        ({"max.message.bytes": "9000"}, "max.message.bytes is 9000: set it to 1048588"),
    ],
    ids=lambda one: "".join(one) if isinstance(one, dict) else "",
)
async def test_I9_a_topic_that_would_not_keep_records_is_skipped_naming_the_setting(
    two: Two, topic_name: str, wrong: Mapping[str, str | None], said: str
) -> None:
    two.source.create_topic(topic_name, 1)
    configs = {**mirror_world.TARGET_CONFIGS, **wrong}
    two.target.create_topic(
        topic_name, 1, {name: value for name, value in configs.items() if value is not None}
    )
    found = await skip(two, topic_name)
    assert found is not None
    assert found.reason is Reason.SETTINGS
    assert said in found.text


async def test_I1_partitions_are_added_and_never_too_many(two: Two, topic_name: str) -> None:
    two.source.create_topic(topic_name, 2)
    await prepare(two, topic_name)
    kafka_log.add_partitions(two.source.bootstrap, topic_name, 4)
    await prepare(two, topic_name)
    assert kafka_log.partition_count(two.target.bootstrap, topic_name) == 4
    kafka_log.add_partitions(two.target.bootstrap, topic_name, 5)

    async def is_skipped() -> bool:  # a broker may take a moment to learn of a change
        found = await skip(two, topic_name)
        return found is not None and "it has 5 partitions, its source 4" in found.text

    await eventually(is_skipped)


async def test_the_map_topic_is_made_and_another_one_refused(
    kafka: RunningBroker, topic_name: str
) -> None:
    """On the ingest cluster, where nothing needs it."""
    options = Two(kafka, kafka).options()
    async with cluster_admin(options.target) as here:
        await prepare_map(here)
        await prepare_map(here)
    configs = kafka_log.topic_configs(kafka.bootstrap, MAP_TOPIC)
    assert configs["cleanup.policy"] == "compact"
    kafka.set_topic_configs(MAP_TOPIC, {"cleanup.policy": "delete"})

    async def again() -> None:
        async with cluster_admin(options.target) as here:
            await prepare_map(here)

    await eventually(lambda: refusal(again(), "cleanup.policy is delete: set it to compact"))
    kafka.set_topic_configs(MAP_TOPIC, {"cleanup.policy": "compact"})


async def test_a_topic_that_something_else_has_written_is_skipped(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 1)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    foreign = Producer({"bootstrap.servers": two.target.bootstrap})
    foreign.produce(topic_name, b"?")
    assert foreign.flush(30) == 0
    found, _ = await planned(two, topic_name)
    assert (found.units, found.fit) == ([], [])
    assert found.skipped[topic_name].reason is Reason.FOREIGN
    assert "has records and no offset map" in found.skipped[topic_name].text
    assert found.ends == {TopicPartition(topic_name, 0): 0}  # its lag is still known


async def test_a_topic_that_grew_without_the_mirror_is_looked_at_though_nothing_is_to_be_copied(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 1)
    OddSource(two.source, topic_name, seed=1).write(0, 30)
    await mirror(two, topic_name)
    assert not (await planned(two, topic_name, checks_tail=True))[0].units
    foreign = Producer({"bootstrap.servers": two.target.bootstrap})
    foreign.produce(topic_name, b"?", partition=0)
    assert foreign.flush(30) == 0
    assert not (await planned(two, topic_name))[0].units
    (unit,) = (await planned(two, topic_name, checks_tail=True))[0].units
    assert (await copy(unit, two.options())).foreign == 1


async def test_ranges_end_at_the_last_stable_offset_and_the_largest_is_first(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 3)
    producer = Producer({"bootstrap.servers": two.source.bootstrap})
    for partition, count in enumerate((10, 30, 20)):
        for _ in range(count):
            producer.produce(topic_name, b"v", partition=partition)
    assert producer.flush(30) == 0
    pending = Producer({"bootstrap.servers": two.source.bootstrap, "transactional.id": topic_name})
    pending.init_transactions(30)
    pending.begin_transaction()
    pending.produce(topic_name, b"not yet", partition=1)
    pending.flush(30)
    found, _ = await planned(two, topic_name)
    assert [(unit.address.partition, unit.end) for unit in found.units] == [
        (1, 30),
        (2, 20),
        (0, 10),
    ]
    pending.abort_transaction(30)


async def test_a_new_partition_count_opens_a_layout_for_all_partitions(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 2, mirror_world.SOURCE_CONFIGS)
    OddSource(two.source, topic_name, seed=1).write(0, 100)
    assert len((await mirror(two, topic_name)).units) == 2
    assert not (await mirror(two, topic_name)).units
    kafka_log.add_partitions(two.source.bootstrap, topic_name, 3)
    OddSource(two.source, topic_name, seed=2).write(2, 100)
    second = await mirror(two, topic_name)
    assert {(unit.address.layout, unit.layout.partitions) for unit in second.units} == {(2, 3)}
    assert len(second.units) == 3
    assert mirror_world.judge(two, topic_name) >= 200
    assert not (await mirror(two, topic_name)).units


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
async def test_a_topic_that_is_recreated_on_either_side_opens_a_layout(
    two: Two, topic_name: str, side: int
) -> None:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    OddSource(two.source, topic_name, seed=1).write(0, 100)
    await mirror(two, topic_name)
    two[side].delete_topic(topic_name)
    await eventually(lambda: topic_name not in kafka_log.topic_names(two[side].bootstrap))
    if side == 0:
        two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
        OddSource(two.source, topic_name, seed=2).write(0, 50)
    again = await mirror(two, topic_name)
    assert [unit.address.layout for unit in again.units] == [2]
    if side == 1:
        assert mirror_world.judge(two, topic_name) >= 100
        return
    found = mirror_world.read_maps(two.target, topic_name)[topic_name, 0]
    source = kafka_log.read_log(two.source.bootstrap, topic_name)
    target = kafka_log.read_log(two.target.bootstrap, topic_name)[-len(source) :]
    for one, other in zip(source, target, strict=True):
        assert mirror_world.content(one) == mirror_world.content(other)
        assert found.table.to_target(one.offset) == (one.offset, other.offset, Result.EXACT)


async def test_the_newest_segments_stay_when_the_targets_retention_passes_them(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    OddSource(two.source, topic_name, seed=1).write(0, 300)
    await mirror(two, topic_name)
    before = mirror_world.segments(two.target, topic_name)
    assert len(before) > 5
    end = kafka_log.end_offsets(two.target.bootstrap, topic_name)[0]
    kafka_log.delete_records(two.target.bootstrap, topic_name)
    _, view = await planned(two, topic_name)
    async with admins(two) as (_, here):  # a copier may make a block of them under the first's key
        assert await trim(here, view, [TopicPartition(topic_name, 0)]) == 0
    after = mirror_world.read_maps(two.target, topic_name)[topic_name, 0].table
    assert list(after) == before
    assert after.kept(end).to_target(before[0].source).result is Result.OUT_OF_RANGE
    assert not (await mirror(two, topic_name)).units  # and still nothing is copied again


async def test_segments_of_a_deleted_topic_are_taken_back_and_nothing_else(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    OddSource(two.source, topic_name, seed=1).write(0, 300)
    await mirror(two, topic_name)
    kafka_log.add_partitions(two.source.bootstrap, topic_name, 2)  # the same table goes on
    OddSource(two.source, topic_name, seed=2).write(0, 100)
    await mirror(two, topic_name)
    before = mirror_world.segments(two.target, topic_name)
    two.source.delete_topic(topic_name)
    await eventually(lambda: topic_name not in kafka_log.topic_names(two.source.bootstrap))
    two.source.create_topic(topic_name, 2, mirror_world.SOURCE_CONFIGS)
    OddSource(two.source, topic_name, seed=3).write(0, 100)
    await mirror(two, topic_name)
    now = mirror_world.segments(two.target, topic_name)
    tp = TopicPartition(topic_name, 0)
    for written in (2 * len(before), 0):  # under both layouts' keys; then none is left
        _, view = await planned(two, topic_name)
        async with admins(two) as (_, here):
            assert await trim(here, view, [tp]) == written
    found = mirror_world.read_maps(two.target, topic_name)[topic_name, 0]
    (_, old), (_, table) = found.tables()
    assert (len(old), [gap.reason for gap in old.gaps]) == (0, [RECREATED])
    assert list(table) == now
    assert not (await mirror(two, topic_name)).units  # and nothing is copied again
