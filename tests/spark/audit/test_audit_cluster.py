"""The audit through spark-submit on a cluster of its own processes, one of which is killed."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

import pytest

from support.process.spark_cluster import archive_of_the_code, spark_cluster, submit
from support.process.stack import RunningBroker
from support.root import ROOT
from support.scenarios.skew_topics import produce_world
from support.scenarios.skew_world import figures_of, zipf

pytestmark = [pytest.mark.kafka, pytest.mark.full]  # a master, a worker and two executors
SCRIPT = ROOT / "deploy" / "spark" / "headgate_spark_job.py"


def test_a_killed_executor_changes_no_figure(kafka: RunningBroker, tmp_path: Path) -> None:
    world = zipf(6000, partitions=6)
    topic = kafka.create_topic("audit-cluster", 6)
    produce_world(kafka, topic, world)
    config, out, log = tmp_path / "headgate.toml", tmp_path / "out", tmp_path / "job.log"
    config.write_text(f'[clusters.main]\nbootstrap_servers = ["{kafka.bootstrap}"]\n')
    arguments = ["audit", "--config", str(config), "--topics", topic, "--out", str(out)]
    archive = archive_of_the_code(tmp_path / "code.zip")
    with spark_cluster(tmp_path) as cluster:
        job = submit(cluster, SCRIPT, archive, [*arguments, "--no-publish"], log)
        try:
            deadline = time.monotonic() + 300
            while "[2/" not in log.read_text():  # it has read from Kafka, and counts
                assert job.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            cluster.executors()[0].kill()
            assert job.wait(240) == 0, log.read_text()
        finally:
            job.kill()
            job.wait()
    assert "Lost executor" in log.read_text()
    found = json.loads((out / "audit.json").read_text())["topics"][0]
    expected = figures_of(world)
    assert (found["records"], found["distinct_keys"]) == (len(world), expected.distinct_keys)
    counts = Counter(world.keys)
    for one in found["top_keys"]:
        assert one["records"] == counts[one["key"].encode()]
