"""What a runner says of its replays to Prometheus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headgate.core.replays.plan import BACKFILL, INGEST
from headgate.core.replays.replay import Control, Replay, ReplayState
from headgate_spark.job.exposition import Textfile
from headgate_spark.replay.replay_metrics import ReplayMetrics
from headgate_spark.replay.replay_progress import remaining

PLAN = {
    "0": {"pieces": [{"tier": INGEST, "start": 5, "end": 10},
                     {"tier": BACKFILL, "start": 100, "end": 130}]},
    "1": {"pieces": [{"tier": BACKFILL, "start": 0, "end": 7}]},
}  # fmt: skip


def replay(state: ReplayState, created_ms: int, mode: str = "topic", **more: Any) -> Replay:
    spec = {"mode": mode, "plan": PLAN, "created_ms": created_ms}
    control = more.pop("control", Control.RUN)
    return Replay(f"r{created_ms}", spec, {"state": state, **more}, control)


def test_what_remains_is_counted_over_pieces_and_partitions() -> None:
    def left(**progress: Any) -> int:
        return remaining(PLAN, {"progress": {name[1:]: at for name, at in progress.items()}})

    assert remaining(PLAN, {}) == 42
    assert left(p0={"piece": 0, "next": 8, "end": 1}) == 39
    assert left(p0={"piece": 0, "next": 10, "end": 1}) == 37
    assert left(p0={"piece": 1, "next": 110, "end": 1}, p1={"piece": 0, "next": 7, "end": 7}) == 20
    assert remaining({"0": {}}, {}) == remaining(None, {}) == 0


def test_only_those_under_way_count_as_progress(tmp_path: Path) -> None:
    file = tmp_path / "replay.prom"
    metrics = ReplayMetrics(Textfile(file, pytest.fail))
    copying = replay(ReplayState.COPYING, 4_000, progress={"1": {"piece": 0, "next": 7, "end": 7}})
    others = [
        replay(ReplayState.PENDING, 3_000),
        replay(ReplayState.COPYING, 1_000, control=Control.PAUSE),
        replay(ReplayState.READY, 900),
        replay(ReplayState.FAILED, 800),
        replay(ReplayState.PENDING, 700, mode="group"),
        Replay("unread", {"mode": "topic", "plan": 3}, {}),
    ]
    metrics.copied("old", 5, 60)
    metrics.tell("old", [copying, *others[:-1]], 10_500)
    metrics.tell("other", None, 1_700_000_000_250)
    lines = file.read_text().splitlines()
    for line in (
        'headgate_replay_runner{cluster="old"} 1',
        'headgate_replay_runner{cluster="other"} 0',
        'headgate_replay_remaining_offsets{cluster="old"} 77',
        'headgate_replay_oldest_seconds{cluster="old"} 7.5',
        'headgate_replay_records_total{cluster="old"} 5',
        'headgate_replay_bytes_total{cluster="old"} 60',
        'headgate_replay_timestamp_seconds{cluster="other"} 1700000000.250',
        'headgate_replay_copies{cluster="old",state="pending"} 1',
        'headgate_replay_copies{cluster="old",state="copying"} 1',
        'headgate_replay_copies{cluster="old",state="paused"} 1',
        'headgate_replay_copies{cluster="old",state="ready"} 1',
        'headgate_replay_copies{cluster="old",state="failed"} 1',
        'headgate_replay_copies{cluster="old",state="expired"} 0',
    ):
        assert line in lines
    assert not [one for one in lines if one.startswith('headgate_replay_copies{cluster="other"')]
    metrics.tell("old", [others[-1]], 10_500)  # a spec that cannot be read stops nothing
    metrics.tell("old", None, 0)  # another process has taken over: what this one knew is old
    lines = file.read_text().splitlines()
    assert 'headgate_replay_runner{cluster="old"} 0' in lines
    assert 'headgate_replay_records_total{cluster="old"} 5' in lines
    assert not [one for one in lines if "remaining_offsets{" in one]
