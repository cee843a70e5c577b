"""The mirror of one version goes on where that of the other ended, by the map in Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.process.mirror_job import Job, config_text
from support.process.stack import RunningBroker
from support.scenarios import mirror_world
from support.scenarios.mirror_world import OddSource, Two
from support.upgrades.former import Step

pytestmark = pytest.mark.full  # four jobs each way


def test_the_mirror_goes_on_without_a_gap_or_a_double(
    step: Step, kafka: RunningBroker, backfill: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    """And back again; the other version verifies what both have written."""
    two = Two(kafka, backfill)
    kafka.create_topic(topic_name, 2, mirror_world.SOURCE_CONFIGS)
    source = OddSource(kafka, topic_name, seed=7)
    file = tmp_path / "headgate.toml"
    file.write_text(config_text(two, [topic_name]))
    words = ("--config", str(file), "--topics", topic_name)
    for version, command in (
        (step.before, "mirror"),
        (step.after, "mirror"),
        (step.before, "mirror"),
        (step.after, "verify"),
    ):
        if command == "mirror":
            for partition in range(2):
                source.write(partition, 200)
        job = Job(tmp_path, command, *words, environment=version.environment)
        try:
            assert job.wait() == 0, job.text()
        finally:
            job.end()
    assert mirror_world.judge(two, topic_name) >= 1_200
