"""The mirror through spark-submit on a cluster of its own processes, one of which is killed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from support.process.mirror_job import config_text
from support.process.spark_cluster import archive_of_the_code, spark_cluster, submit
from support.process.stack import RunningBroker
from support.root import ROOT
from support.scenarios import mirror_world
from support.scenarios.mirror_world import OddSource, Two

pytestmark = [pytest.mark.kafka, pytest.mark.full]  # a master, a worker and two executors
SCRIPT = ROOT / "deploy" / "spark" / "headgate_spark_job.py"


def test_a_killed_executor_costs_no_record(
    kafka: RunningBroker, backfill: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    two = Two(kafka, backfill)
    two.source.create_topic(topic_name, 4, mirror_world.SOURCE_CONFIGS)
    source = OddSource(two.source, topic_name, seed=1)
    for partition in range(4):
        source.write(partition, 1500)
    config, log = tmp_path / "headgate.toml", tmp_path / "job.log"
    config.write_text(config_text(two, [topic_name]))
    arguments = ["mirror", "--config", str(config), "--topics", topic_name]
    archive = archive_of_the_code(tmp_path / "code.zip")
    with spark_cluster(tmp_path) as cluster:
        job = submit(cluster, SCRIPT, archive, [*arguments, "--bytes-per-s", "100000"], log)
        try:
            deadline = time.monotonic() + 300  # on busy cores Spark starts for two minutes
            while not mirror_world.read_maps(two.target, topic_name):
                assert job.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.2)
            cluster.executors()[0].kill()
            assert job.wait(240) == 0, log.read_text()
        finally:
            job.kill()
            job.wait()
    assert "Lost executor" in log.read_text()
    assert mirror_world.judge(two, topic_name) >= 6000
