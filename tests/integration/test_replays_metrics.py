"""The runner's textfile during a real replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import kafka_log
from replay_world import Api, ReplayRunner, Two, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def reading(file: Path, name: str, labels: str = "") -> float:
    """One series of the file; -1: it is not there."""
    start = f'headgate_{name}{{cluster="old"{labels}}} '
    lines = file.read_text().splitlines() if file.exists() else []
    return next((float(one.removeprefix(start)) for one in lines if one.startswith(start)), -1)


def test_the_file_follows_a_replay_to_its_end(
    two: Two, topic: str, api: Api, start_runner: Callable[..., ReplayRunner], tmp_path: Path
) -> None:
    file = tmp_path / "replay.prom"
    made = api.create(topic, rate={"records_per_s": 10}).page
    runner = start_runner("--metrics", str(file))
    left = until(lambda: reading(file, "replay_remaining_offsets"), lambda now: 0 < now < 60)
    until(lambda: reading(file, "replay_remaining_offsets"), lambda now: 0 < now < left)
    assert reading(file, "replay_runner") == 1
    assert reading(file, "replay_oldest_seconds") > 0
    assert reading(file, "replay_copies", ',state="copying"') == 1
    until(lambda: reading(file, "replay_copies", ',state="ready"'), (1.0).__eq__)
    found = kafka_log.read_log(two.backfill.bootstrap, f"replay.{made['id']}")
    assert reading(file, "replay_records_total") == len(found) == 60
    size = sum(len(one.key or b"") + len(one.value or b"") for one in found)
    assert reading(file, "replay_bytes_total") == size
    assert reading(file, "replay_remaining_offsets") == 0
    assert reading(file, "replay_oldest_seconds") == 0
    api.ask("DELETE", f"/v1/replays/{made['id']}")
    runner.stop()
    assert runner.exit_code == 0
