"""One partition copied between two real clusters: the invariants I2-I8, without Spark."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
from aiokafka.structs import TopicPartition
from confluent_kafka import Producer

from headgate.replays.offset_map import MAP_TOPIC, Layout, MapAddress, map_partition
from headgate.replays.packed import NO_TIMESTAMP
from headgate.replays.segments import RECREATED, RETENTION, Result
from headgate_spark.copying.reader import MapState, SourceReader
from headgate_spark.mirror.copier import copy_all
from headgate_spark.mirror.verify import compare
from support.kafka import kafka_log
from support.kafka.record_batches import append, decode, encoded, visible
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import copy, following, mapped_end, produce, run
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    mirror_world.create_map(backfill)
    return Two(kafka, backfill)


@pytest.fixture
def topic(two: Two, topic_name: str) -> str:
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS)
    return two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)


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
    maps = kafka_log.end_offsets(two.target.bootstrap, MAP_TOPIC)
    again = await copy(mirror_world.unit(two, topic), two.options())
    assert (again.records, again.transactions) == (0, 0)
    assert kafka_log.end_offsets(two.target.bootstrap, topic) == ends
    assert kafka_log.end_offsets(two.target.bootstrap, MAP_TOPIC) == maps


async def test_I3_records_as_large_as_the_topic_takes_are_copied(two: Two, topic_name: str) -> None:
    limit = {"max.message.bytes": "12000000"}
    two.source.create_topic(topic_name, 1, mirror_world.SOURCE_CONFIGS | limit)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS | limit)
    large = {"message.max.bytes": 12_000_000}
    produce(two.source, topic_name, [b"s", b"x" * 10_000_000, b"t", bytes(2_000_000)], **large)
    unit = mirror_world.unit(two, topic_name, max_message_bytes=12_000_000)
    assert (await copy(unit, two.options())).records == 4
    assert mirror_world.judge(two, topic_name) == 4


async def test_I3_what_other_clients_write_is_copied_byte_by_byte(
    two: Two, topic_name: str
) -> None:
    """Without a timestamp, with header names that are no text, as large as the topic takes and
    not to be compressed. Looked at on the disk, as clients cannot show all of it."""
    limit = 100_000
    for broker, configs in ((two.source, {}), (two.target, mirror_world.TARGET_CONFIGS)):
        more = {**mirror_world.SOURCE_CONFIGS, **configs, "max.message.bytes": str(limit)}
        broker.create_topic(topic_name, 1, more)
    chance, names = random.Random(4), [(b"\xff\xfe", b"v"), (b"fine", b""), (b"", b"\xff")]
    batches = [
        encoded(NO_TIMESTAMP, b"first", []),
        encoded(1_000, b"second", names),
        encoded(NO_TIMESTAMP, b"third", names),
        encoded(0, b"fourth", []),
    ]
    room = limit - len(encoded(1_000, bytes(limit - 200), [])) + limit - 200
    batches.append(encoded(1_000, chance.randbytes(room), []))
    assert len(batches[-1]) == limit
    await append(two.source.bootstrap, topic_name, batches)
    unit = mirror_world.unit(two, topic_name, max_message_bytes=limit)
    assert (await copy(unit, two.options())).records == len(batches)
    before, after = (
        visible((one.log_dir / f"{topic_name}-0" / f"{0:020}.log").read_bytes()) for one in two
    )
    assert before == [one for batch in batches for one in decode(batch).records]
    assert after == before
    found = await compare(TopicPartition(topic_name, 0), two.options())
    assert (found.is_good, found.compared) == (True, len(batches))


async def test_I3_the_append_times_of_a_source_are_kept(two: Two, topic_name: str) -> None:
    """The target would give its own if it were told so; it takes those of the source's broker."""
    log_append = {"message.timestamp.type": "LogAppendTime"}
    two.source.create_topic(topic_name, 1, log_append)
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    for _ in range(3):
        produce(two.source, topic_name, [b"a", b"b"])
    assert (await copy(mirror_world.unit(two, topic_name), two.options())).records == 6
    assert mirror_world.judge(two, topic_name) == 6


async def test_a_record_that_the_target_refuses_ends_the_copy_and_is_not_skipped(
    two: Two, topic_name: str
) -> None:
    two.source.create_topic(topic_name, 1, {"max.message.bytes": "3000000"})
    two.target.create_topic(topic_name, 1, mirror_world.TARGET_CONFIGS)
    options = two.options(chunk_records=1)
    options = replace(options, target=replace(options.target, compression="none"))
    produce(two.source, topic_name, [b"s", b"x" * 2_000_000], **{"message.max.bytes": 3_000_000})
    copied = await run(mirror_world.unit(two, topic_name), options)
    assert copied.trouble is not None
    assert "MessageSizeTooLarge" in copied.trouble
    assert "set its max.message.bytes to 2097152" in copied.trouble
    assert (copied.records, copied.position) == (1, 1)


async def test_I8_what_retention_took_before_it_was_mirrored_is_an_explicit_gap(
    two: Two, topic: str
) -> None:
    produce(two.source, topic, [b"%d" % n for n in range(10)])
    await copy(mirror_world.unit(two, topic), two.options())
    produce(two.source, topic, [b"%d" % n for n in range(10, 30)])
    kafka_log.delete_records(two.source.bootstrap, topic)
    produce(two.source, topic, [b"%d" % n for n in range(30, 35)])
    copied = await copy(mirror_world.unit(two, topic), two.options())
    assert (copied.records, copied.lost) == (5, 20)
    table = mirror_world.read_maps(two.target, topic)[topic, 0].table
    assert [gap[:3] for gap in table.gaps] == [(10, 30, RETENTION)]
    records = kafka_log.read_log(two.target.bootstrap, topic)
    assert [int(one.value or b"") for one in records] == [*range(10), *range(30, 35)]
    assert table.to_target(9) == (9, records[9].offset, Result.EXACT)
    assert table.to_target(20) == (20, records[10].offset, Result.NEXT)


async def test_I8_retention_that_passes_a_running_copy_is_an_explicit_gap(
    two: Two, topic: str
) -> None:
    produce(two.source, topic, [b"%d" % n for n in range(10)])
    unit = mirror_world.unit(two, topic, end=None)
    async with following(unit, two.options(interval_s=3.0)) as task:
        await eventually(lambda: mapped_end(two, topic) == 10)
        # it rests until its next interval, with what it has fetched ahead
        for some in (range(10, 20), range(20, 30)):
            produce(two.source, topic, [b"%d" % n for n in some])
            kafka_log.delete_records(two.source.bootstrap, topic)
        produce(two.source, topic, [b"last"])
        await eventually(lambda: mapped_end(two, topic) == 31, 20)
        assert not task.done()
    mirror_world.wait_settled(two, topic)
    records = kafka_log.read_log(two.target.bootstrap, topic)
    gaps = mirror_world.read_maps(two.target, topic)[topic, 0].table.gaps
    assert len(records) + sum(gap.end - gap.source for gap in gaps) == 31
    assert records[-1].value == b"last"


async def test_I8_a_source_that_lost_what_is_mirrored_ends_the_copy(two: Two, topic: str) -> None:
    """An unclean leader election: its log ends before what has been mirrored of it."""
    produce(two.source, topic, [b"a"] * 10)
    await copy(mirror_world.unit(two, topic), two.options())
    unit = mirror_world.unit(two, topic)
    at = kafka_log.end_offsets(two.target.bootstrap, MAP_TOPIC)[map_partition(topic, 0)]
    ahead = MapState(at, 15, 1, (unit.layout.source_id, unit.layout.target_id))
    copied = await run(replace(unit, map_state=ahead, end=20), two.options())
    assert copied.trouble is not None
    assert "unclean leader election" in copied.trouble
    assert copied.transactions == 0


async def test_a_recreated_topic_is_never_taken_for_the_old_one(two: Two, topic: str) -> None:
    produce(two.source, topic, [b"old-%d" % n for n in range(10)])
    old = mirror_world.unit(two, topic)
    await copy(old, two.options())
    two.source.delete_topic(topic)
    await eventually(lambda: topic not in kafka_log.topic_names(two.source.bootstrap))
    two.source.create_topic(topic, 1, mirror_world.SOURCE_CONFIGS)
    produce(two.source, topic, [b"new-%d" % n for n in range(30)])
    stale = await run(replace(old, end=30), two.options())
    assert stale.trouble is not None
    assert "RecreatedError" in stale.trouble
    assert (stale.records, stale.transactions) == (0, 0)
    fresh = mirror_world.unit(two, topic)
    layout_two = replace(fresh, address=fresh.address._replace(layout=2))
    assert (await copy(layout_two, two.options())).records == 30
    found = mirror_world.read_maps(two.target, topic)[topic, 0]
    (old_layout, old_table), (_, table) = found.tables()
    assert old_layout.source_id == old.layout.source_id
    assert [gap[:3] for gap in old_table.gaps] == [(10, 10, RECREATED)]
    records = kafka_log.read_log(two.target.bootstrap, topic)
    assert [one.value for one in records[10:]] == [b"new-%d" % n for n in range(30)]
    assert table.to_target(0) == (0, records[10].offset, Result.EXACT)
    assert old_table.to_target(9) == (9, records[9].offset, Result.EXACT)


async def test_a_fault_of_one_partition_does_not_end_those_that_share_its_task(
    two: Two, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_log.add_partitions(two.source.bootstrap, topic, 2)
    kafka_log.add_partitions(two.target.bootstrap, topic, 2)
    produce(two.source, topic, [b"a"] * 10)
    read = SourceReader.read

    async def fail(reader: SourceReader, end: int | None) -> object:
        if reader._tp.partition == 1:
            raise ValueError("nobody has thought of that")
        return await read(reader, end)

    monkeypatch.setattr(SourceReader, "read", fail)
    units = [mirror_world.unit(two, topic, 0), mirror_world.unit(two, topic, 1, end=5)]
    good, bad = await copy_all(units, two.options())
    assert (good.trouble, good.records) == (None, 10)
    assert (bad.trouble, bad.records) == ("ValueError: nobody has thought of that", 0)


async def test_a_plan_from_another_map_is_refused(two: Two, topic: str) -> None:
    unit = mirror_world.unit(two, topic)
    copied = await run(replace(unit, map_state=MapState(2**40, 15, 1)), two.options())
    assert copied.trouble is not None
    assert "StalePlanError" in copied.trouble


async def test_a_plan_that_is_older_than_the_map_is_refused(two: Two, topic: str) -> None:
    produce(two.source, topic, [b"a"] * 10)
    unit = mirror_world.unit(two, topic)
    await copy(replace(unit, address=unit.address._replace(layout=2)), two.options())
    copied = await run(unit, two.options())
    assert copied.trouble is not None
    assert "StalePlanError" in copied.trouble
    assert copied.transactions == 0


async def test_I6_what_an_open_transaction_of_another_writer_hides_is_waited_for(
    two: Two, topic: str
) -> None:
    """It hides what is committed behind it: whoever believes what is seen copies that again."""
    produce(two.source, topic, [b"a"] * 10)
    unit = mirror_world.unit(two, topic, end=None)
    other = Producer({"bootstrap.servers": two.target.bootstrap, "transactional.id": topic})
    other.init_transactions(30)
    async with following(unit, two.options(interval_s=0.1)):
        await eventually(lambda: mapped_end(two, topic) == 10)
        other.begin_transaction()
        other.produce(MAP_TOPIC, b"x", b"x", partition=map_partition(topic, 0))
        other.flush(30)
        produce(two.source, topic, [b"b"] * 10)
        await eventually(lambda: _records_there(two, topic) == 20)
    second = asyncio.create_task(run(replace(unit, end=20), two.options()))
    done, _ = await asyncio.wait([second], timeout=3)
    assert not done
    other.abort_transaction(30)
    copied = await second
    assert (copied.trouble, copied.records) == (None, 0)
    assert mirror_world.judge(two, topic) == 20


def _records_there(two: Two, topic: str) -> int:
    return len(kafka_log.read_log(two.target.bootstrap, topic))


async def test_a_new_partition_count_is_a_new_layout_of_the_same_offsets(
    two: Two, topic: str
) -> None:
    OddSource(two.source, topic, seed=5).write(0, 100)
    unit = mirror_world.unit(two, topic)
    await copy(unit, two.options())
    for broker in two:
        kafka_log.add_partitions(broker.bootstrap, topic, 3)
    source = OddSource(two.source, topic, seed=6)
    for partition in range(3):
        source.write(partition, 100)
    layout = Layout(3, unit.layout.source_id, unit.layout.target_id, 1_700_000_009_000)
    for partition in range(3):
        now = mirror_world.unit(two, topic, partition)
        address = MapAddress(topic, partition, 2)
        await copy(replace(now, address=address, layout=layout), two.options())
    assert mirror_world.judge(two, topic) >= 400
    maps = mirror_world.read_maps(two.target, topic)
    assert set(maps[topic, 0].layouts) == {1, 2}
    assert set(maps[topic, 2].layouts) == {2}


async def test_the_map_and_an_empty_partition_say_that_nothing_is_there(
    two: Two, topic: str
) -> None:
    copied = await copy(mirror_world.unit(two, topic), two.options())
    assert (copied.records, copied.transactions) == (0, 1)
    assert mirror_world.read_maps(two.target, topic)[topic, 0].table.position == 0
    assert (await copy(mirror_world.unit(two, topic), two.options())).transactions == 0


async def test_aborted_records_at_the_begin_are_known_to_hold_nothing(two: Two, topic: str) -> None:
    """Else a replay from the first offset on would be refused for ever as one that is cold."""
    first = Producer({"bootstrap.servers": two.source.bootstrap, "transactional.id": topic})
    first.init_transactions(30)
    first.begin_transaction()
    for _ in range(5):
        first.produce(topic, b"never", b"k", partition=0)
    first.flush(30)
    first.abort_transaction(30)
    kafka_log.wait_settled(two.source.bootstrap, topic)
    produce(two.source, topic, [b"a"] * 10)
    await copy(mirror_world.unit(two, topic), two.options())
    table = mirror_world.read_maps(two.target, topic)[topic, 0].table
    assert (table.source_start, table.source_end) == (0, 16)
    assert table.to_target(0) == (0, 0, Result.NEXT)
    assert mirror_world.judge(two, topic) == 10
