"""kill -9 of Spark's Python workers and of the driver while a topic is mirrored (I4, I6, I7)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from support.kafka import kafka_log
from support.process.mirror_job import Job, config_text
from support.process.stack import PATIENCE, RunningBroker, eventually
from support.scenarios import mirror_world
from support.scenarios.mirror_world import OddSource, Two

pytestmark = pytest.mark.kafka
PARTITIONS = 4


@pytest.mark.parametrize(
    ("records", "kills", "drivers", "bytes_per_s"),
    [
        pytest.param(1_500, 2, 2, 80_000, id="scaled"),
        pytest.param(50_000, 30, 4, 400_000, id="full", marks=pytest.mark.full),
    ],
)
async def test_I4_I6_I7_whatever_is_killed_each_record_is_mirrored_once_and_mapped(
    kafka: RunningBroker,
    backfill: RunningBroker,
    topic_name: str,
    tmp_path: Path,
    records: int,
    kills: int,
    drivers: int,
    bytes_per_s: int,
) -> None:
    two, seed = Two(kafka, backfill), random.randrange(2**32)
    two.source.create_topic(topic_name, PARTITIONS, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed)
    for partition in range(PARTITIONS):
        source.write(partition, records)
    with ExitStack() as ending:
        jobs = Jobs(two, topic_name, tmp_path, ending)
        killed = _kill_often(jobs, random.Random(seed), kills, drivers, str(bytes_per_s))
        last = jobs.start()
        assert last.wait() == 0, last.text()
        # what a killed driver had started has ended by itself
        await eventually(lambda: not any(job.remains() for job in jobs.started), 30)
    assert set(killed) == {"worker", "driver"}
    assert mirror_world.judge(two, topic_name) >= PARTITIONS * records, f"seed {seed}"


COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1",
}


@pytest.mark.full
async def test_I4_I6_I7_compacted_gaps_are_nothing_that_kills_could_hide(
    start_broker: Callable[..., RunningBroker],
    backfill: RunningBroker,
    topic_name: str,
    tmp_path: Path,
) -> None:
    """Compaction knows no null keys and takes null values, so that it has a topic of its own."""
    two, seed = Two(start_broker({"log.cleaner.backoff.ms": "200"}), backfill), 11
    two.source.create_topic(topic_name, PARTITIONS, {**COMPACTED, "cleanup.policy": "delete"})
    chance = random.Random(seed)
    producer = Producer({"bootstrap.servers": two.source.bootstrap, "compression.type": "none"})
    for number in range(PARTITIONS * 8_000):
        key, partition = b"%d" % chance.randrange(6_000), number % PARTITIONS
        producer.produce(topic_name, chance.randbytes(500), key, partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0
    two.source.set_topic_configs(topic_name, COMPACTED)

    def left() -> int:
        return len(kafka_log.read_log(two.source.bootstrap, topic_name))

    await eventually(lambda: left() < PARTITIONS * 7_000, 60, 1.0)
    two.source.set_topic_configs(topic_name, {"cleanup.policy": "delete", "retention.ms": "-1"})
    records = await _steady(left)
    with ExitStack() as ending:
        jobs = Jobs(two, topic_name, tmp_path, ending)
        killed = _kill_often(jobs, chance, 6, 4, "300000")
        last = jobs.start()
        assert last.wait() == 0, last.text()
    assert set(killed) == {"worker", "driver"}
    assert mirror_world.judge(two, topic_name) == records


async def _steady(count: Callable[[], int]) -> int:
    """When the cleaner has come to its end."""
    last, now = -1, count()
    while now != last:
        await asyncio.sleep(2)
        last, now = now, count()
    return now


class Jobs:
    """Starts jobs, the next one while what the one before left may still be alive."""

    def __init__(self, two: Two, topic: str, folder: Path, ending: ExitStack) -> None:
        config = folder / "headgate.toml"
        config.write_text(config_text(two, [topic]))
        self._arguments = ["--config", str(config), "--topics", topic, "--master", "local[2,50]"]
        self._folder, self._ending = folder, ending
        self.started: list[Job] = []

    def start(self, *more: str) -> Job:
        job = Job(self._folder, "mirror", *self._arguments, *more)
        self._ending.callback(job.end)
        self.started.append(job)
        return job


def _kill_often(
    jobs: Jobs, chance: random.Random, kills: int, drivers: int, bytes_per_s: str
) -> list[str]:
    """drivers: each of so many kills is one of the driver."""
    done: list[str] = []
    job = jobs.start("--bytes-per-s", bytes_per_s)
    while len(done) < kills:
        _wait_for_work(job)
        time.sleep(chance.random() * 1.5)
        if len(done) % drivers == drivers - 1:
            job.kill()
            done.append("driver")
            if len(done) < kills:
                job = jobs.start("--bytes-per-s", bytes_per_s)
        elif workers := job.workers():
            with suppress(psutil.NoSuchProcess):
                chance.choice(workers).kill()
                done.append("worker")
    job.kill()
    return done


def _wait_for_work(job: Job) -> None:
    """Until it copies. It must not be done: then nothing would be shown."""
    end = time.monotonic() + 120 * PATIENCE
    while not job.workers():
        assert job.exit_code is None, job.text()
        assert time.monotonic() < end, job.text()
        time.sleep(0.1)  # it looks at every process of the machine
