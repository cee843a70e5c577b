"""The runner's textfile during a real replay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.kafka import kafka_log
from support.scenarios.replay_world import Api, ReplayRunner, Two, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


def reading(text: str, name: str, labels: str = "") -> float:
    """One series of a file; -1: it is not there."""
    start = f'headgate_{name}{{cluster="old"{labels}}} '
    lines = text.splitlines()
    return next((float(one.removeprefix(start)) for one in lines if one.startswith(start)), -1)


def test_the_file_follows_a_replay_to_its_end(
    two: Two, topic: str, api: Api, start_runner: Callable[..., ReplayRunner], tmp_path: Path
) -> None:
    file = tmp_path / "replay.prom"
    made = api.create(topic, rate={"records_per_s": 10}).page
    runner = start_runner("--metrics", str(file))

    def seen() -> str:
        return file.read_text() if file.exists() else ""

    def left(text: str) -> float:
        return reading(text, "replay_remaining_offsets")

    first = until(seen, lambda text: 0 < left(text) < 60)
    text = until(seen, lambda text: 0 < left(text) < left(first))
    assert reading(text, "replay_runner") == 1
    assert reading(text, "replay_oldest_seconds") > 0
    assert reading(text, "replay_copies", ',state="copying"') == 1
    text = until(seen, lambda text: reading(text, "replay_copies", ',state="ready"') == 1)
    found = kafka_log.read_log(two.backfill.bootstrap, f"replay.{made['id']}")
    assert reading(text, "replay_records_total") == len(found) == 60
    size = sum(len(one.key or b"") + len(one.value or b"") for one in found)
    assert reading(text, "replay_bytes_total") == size
    assert left(text) == 0
    assert reading(text, "replay_oldest_seconds") == 0
    api.ask("DELETE", f"/v1/replays/{made['id']}")
    runner.stop()
    assert runner.exit_code == 0


def test_a_file_that_cannot_be_written_stops_no_replay(
    topic: str, api: Api, start_runner: Callable[..., ReplayRunner], tmp_path: Path
) -> None:
    made = api.create(topic).page
    runner = start_runner("--metrics", str(tmp_path / "away" / "replay.prom"))
    until(lambda: api.get(f"/v1/replays/{made['id']}"), lambda now: now["state"] == "ready")
    runner.stop()
    assert runner.exit_code == 0
