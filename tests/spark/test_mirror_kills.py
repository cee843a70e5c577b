"""kill -9 of Spark's Python workers and of the driver while a topic is mirrored (I4, I6, I7)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest

import mirror_world
from mirror_job import Job, config_text
from mirror_world import OddSource, Two
from stack import RunningBroker

pytestmark = pytest.mark.kafka
PARTITIONS = 4


@pytest.mark.parametrize(
    ("records", "kills", "bytes_per_s"),
    [
        pytest.param(3_000, 4, 150_000, id="scaled"),
        pytest.param(50_000, 30, 400_000, id="full", marks=pytest.mark.full),
    ],
)
def test_I4_I6_I7_whatever_is_killed_each_record_is_mirrored_once_and_mapped(
    kafka: RunningBroker,
    backfill: RunningBroker,
    topic_name: str,
    tmp_path: Path,
    records: int,
    kills: int,
    bytes_per_s: int,
) -> None:
    two, seed = Two(kafka, backfill), random.randrange(2**32)
    chance = random.Random(seed)
    two.source.create_topic(topic_name, PARTITIONS, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed)
    for partition in range(PARTITIONS):
        source.write(partition, records)
    with jobs(two, topic_name, tmp_path) as start:
        killed = _kill_often(start, chance, kills, ["--bytes-per-s", str(bytes_per_s)])
        last = start()
        assert last.wait() == 0, last.text()
    assert set(killed) == {"worker", "driver"}
    assert mirror_world.judge(two, topic_name) >= PARTITIONS * records, f"seed {seed}"


def _kill_often(
    start: Callable[..., Job], chance: random.Random, kills: int, slow: list[str]
) -> list[str]:
    done: list[str] = []
    job = start(*slow)
    while len(done) < kills:
        _wait_for_work(job)
        time.sleep(chance.random() * 1.5)
        if len(done) % 4 == 3:
            job.kill()
            job, done = start(*slow), [*done, "driver"]
        elif workers := job.workers():
            with suppress(psutil.NoSuchProcess):
                chance.choice(workers).kill()
                done.append("worker")
    job.kill()
    return done


def _wait_for_work(job: Job) -> None:
    """Until it copies. It must not be done: then nothing would be shown."""
    end = time.monotonic() + 120
    while not job.workers():
        assert job.exit_code is None, job.text()
        assert time.monotonic() < end, job.text()
        time.sleep(0.02)


class jobs:
    """Starts jobs, the next one while what the one before left may still be alive."""

    def __init__(self, two: Two, topic: str, folder: Path) -> None:
        self._ending, self._folder, self._topic = ExitStack(), folder, topic
        self._config = folder / "headgate.toml"
        self._config.write_text(config_text(two, [topic]))

    def __enter__(self) -> Callable[..., Job]:
        return self._start

    def __exit__(self, *_: object) -> None:
        self._ending.close()

    def _start(self, *more: str) -> Job:
        wanted = ["--config", str(self._config), "--topics", self._topic]
        job = Job(self._folder, "mirror", *wanted, "--master", "local[2,50]", *more)
        self._ending.callback(job.end)
        return job
