"""`headgate-spark mirror` as operators run it: real Spark, two real clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import kafka_log
import mirror_world
from mirror_job import Job, config_text
from mirror_world import OddSource, Two
from stack import RunningBroker

pytestmark = pytest.mark.kafka


@pytest.fixture
def two(kafka: RunningBroker, backfill: RunningBroker) -> Two:
    return Two(kafka, backfill)


@pytest.fixture
def start_job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    with ExitStack() as ending:

        def start(two: Two, topic: str, command: str, *more: str) -> Job:
            config = tmp_path / "headgate.toml"
            config.write_text(config_text(two, [topic]))
            job = Job(tmp_path, command, "--config", str(config), "--topics", topic, *more)
            ending.callback(job.end)
            return job

        yield start


def test_a_topic_is_mirrored_once_and_a_second_run_writes_nothing(
    two: Two, topic_name: str, start_job: Callable[..., Job]
) -> None:
    two.source.create_topic(topic_name, 3, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed=3)
    for partition in range(3):
        source.write(partition, 400)
    job = start_job(two, topic_name, "mirror")
    assert job.wait() == 0, job.text()
    assert mirror_world.judge(two, topic_name) >= 1200
    ends = kafka_log.end_offsets(two.target.bootstrap, topic_name)
    assert start_job(two, topic_name, "mirror").wait() == 0
    assert kafka_log.end_offsets(two.target.bootstrap, topic_name) == ends
