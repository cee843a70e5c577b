"""What a chunk is, and that it is there with its map or not at all."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from headgate.devstack.child import Child
from headgate_spark.copying.reader import (
    CHUNK_BYTES,
    CHUNK_RECORDS,
    CHUNK_S,
    BrokerBuckets,
    CopyOptions,
    CopyUnit,
)
from headgate_spark.mirror.copier import Copier
from headgate_spark.mirror.plan import MapView
from support.kafka import kafka_log
from support.process.stack import RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_copies import copy, mapped_end, produce
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


@pytest.mark.parametrize(
    ("size", "limits", "minimum", "maximum"),
    [
        pytest.param(10, {"chunk_records": 100}, 3, 3, id="records"),
        # bytes are counted fetch by fetch: a chunk has at most one (4 MB) more than it should
        pytest.param(50_000, {}, 2, 4, id="bytes"),
        # 0.9 MB at 0.6 MB/s take a second and a half
        pytest.param(3_000, {"bytes_per_s": 600_000.0}, 3, 300, id="time"),
    ],
)
async def test_a_chunk_ends_with_its_records_its_bytes_or_its_time(
    two: Two, topic: str, size: int, limits: dict[str, float], minimum: int, maximum: int
) -> None:
    assert (CHUNK_RECORDS, CHUNK_BYTES, CHUNK_S) == (5_000, 4_194_304, 0.2)
    chance = random.Random(5)
    values = [chance.randbytes(size) for _ in range(300)]
    produce(two.source, topic, values, **{"batch.size": 20_000})  # a fetch brings whole batches
    copied = await copy(mirror_world.unit(two, topic), two.options(**limits))
    assert copied.records == mirror_world.judge(two, topic) == 300
    assert minimum <= copied.transactions - 1 <= maximum, copied  # one opens the layout


async def test_what_is_followed_is_committed_once_an_interval_also_while_more_comes(
    two: Two, topic: str
) -> None:
    """A transaction costs as much as some hundred records."""
    commits: list[float] = []
    unit = mirror_world.unit(two, topic, end=None)
    options = two.options(interval_s=1.5)
    copier = Copier(unit, options, BrokerBuckets(None), lambda _: commits.append(time.monotonic()))
    task = asyncio.create_task(copier.run())
    try:
        await eventually(lambda: commits, 20)  # the layout
        begun = time.monotonic()
        for number in range(60):
            await asyncio.to_thread(produce, two.source, topic, [b"%d" % number])
            await asyncio.sleep(0.1)
        await eventually(lambda: mapped_end(two, topic) == 60, 20)
        took_s = time.monotonic() - begun
    finally:
        task.cancel()
        await asyncio.wait([task])
    sys.stdout.write(f"{len(commits) - 1} commits in {took_s:.1f} s\n")
    # what came while the first was written may be taken along, by a second
    # (a busy machine takes longer, and so may commit more often, but never less than this apart)
    assert len(commits) - 1 <= 2 * (took_s / 1.5 + 1)


def test_I5_wherever_a_copier_dies_what_is_visible_is_mapped_and_what_is_mapped_is_visible(
    two: Two, topic: str, start_copier: Callable[[CopyUnit, CopyOptions], Child]
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    OddSource(two.source, topic, seed).write(0, 4_000)
    unit, options = mirror_world.unit(two, topic), two.options(chunk_records=20)
    seen = defaultdict[bool, int](int)
    for _ in range(4):
        copier = start_copier(unit, options)
        end = time.monotonic() + 60
        while copier.log.read_text().count("\n") < 2 and copier.exit_code is None:
            assert time.monotonic() < end, copier.log.read_text()
            time.sleep(0.005)
        time.sleep(chance.random() * 0.1)
        copier.kill()
        # Whoever takes its transactional id has Kafka end what it had open.
        heir = Producer(
            {
                "bootstrap.servers": two.target.bootstrap,
                "transactional.id": unit.transactional_id(options.source.name),
            }
        )
        heir.init_transactions(60)
        visible = {one.offset for one in kafka_log.read_log(two.target.bootstrap, topic)}
        segments = mirror_world.segments(two.target, topic)
        mapped = {one.target + step for one in segments for step in range(one.records)}
        assert visible == mapped, f"seed {seed}"
        seen[bool(visible)] += 1
    assert seen[True]


async def test_the_map_says_how_much_was_copied_whoever_copies(two: Two, topic: str) -> None:
    OddSource(two.source, topic, seed=8).write(0, 200)
    view = MapView(two.options().target)
    await view.refresh()
    assert view.seen(topic, 0) == (0, 0)
    copied = await copy(mirror_world.unit(two, topic), two.options(chunk_records=40))
    await view.refresh()
    seen = view.seen(topic, 0)
    assert seen.records == copied.records > 0
    assert 0 < seen.bytes <= copied.bytes  # what was fetched ahead is in no transaction
