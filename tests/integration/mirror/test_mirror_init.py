"""`headgate init` and the offset map's topic on a backfill cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headgate.replays.offset_map import MAP_PARTITIONS, MAP_TOPIC
from support.kafka import kafka_log
from support.process.mirror_job import config_text
from support.process.stack import RunningBroker
from support.scenarios.mirror_world import Two

pytestmark = pytest.mark.kafka


def init(config: Path, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "headgate", "init", "--config", str(config), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if MAP_TOPIC in line]
    return done.returncode, "\n".join(lines)


def test_init_makes_the_map_topic_of_a_backfill_cluster_and_checks_it(
    kafka: RunningBroker, backfill: RunningBroker, tmp_path: Path
) -> None:
    config = tmp_path / "headgate.toml"
    config.write_text(config_text(Two(kafka, backfill), ["orders"]))
    was_there = MAP_TOPIC in kafka_log.topic_names(backfill.bootstrap)  # by another test
    if not was_there:
        code, line = init(config, "--check")
        assert (code, line[:7]) == (1, "missing")
    code, line = init(config)
    assert (code, line.split()[0]) == (0, "ok" if was_there else "created")
    code, line = init(config, "--check")
    assert (code, line[:7].strip()) == (0, "ok")
    assert kafka_log.partition_count(backfill.bootstrap, MAP_TOPIC) == MAP_PARTITIONS
    assert kafka_log.topic_configs(backfill.bootstrap, MAP_TOPIC)["cleanup.policy"] == "compact"
