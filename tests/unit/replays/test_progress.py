"""How far a replay has come: whatever chunks it is cut into, each offset is read once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.commands.terminal import Amount
from headgate.replays.plan import BACKFILL, INGEST, Piece
from headgate.replays.registry import Control, Replay, ReplayState
from headgate.replays.spec import RecordFilter
from headgate_spark.copying.batches import Chunk
from headgate_spark.job.exposition import Textfile
from headgate_spark.replay.progress import (
    Order,
    ReplayMetrics,
    after_chunk,
    copying_step,
    next_position,
    remaining,
    when_ready,
    with_state,
)


class One(NamedTuple):
    offset: int
    timestamp: int = 0
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    headers: tuple[tuple[str, bytes | None], ...] = ()


pieces = st.lists(st.tuples(st.sampled_from([BACKFILL, INGEST]), st.integers(0, 9)), max_size=4)


def order_of(lengths: list[list[tuple[str, int]]]) -> Order:
    plan = {
        partition: tuple(Piece(tier, 100 * at, 100 * at + n) for at, (tier, n) in enumerate(some))
        for partition, some in enumerate(lengths)
    }
    return Order("orders", "main", len(lengths), plan, RecordFilter(), {}, 60, {})


@given(st.lists(pieces, max_size=3), st.data())
def test_each_offset_is_read_once_in_any_chunks(lengths: Any, data: st.DataObject) -> None:
    order, status, ends = order_of(lengths), dict[str, Any](), dict[int, int]()
    read: list[tuple[int, str, int]] = []
    while (place := next_position(order, status)) is not None:
        end = data.draw(st.integers(place.at + 1, place.piece.end))
        there = [one for one in range(place.at, end) if data.draw(st.booleans())]
        chunk = Chunk([One(offset, timestamp=offset) for offset in there], end)
        copied = Chunk([one for one in chunk.records if one.offset % 2], end)
        read += [(place.partition, place.piece.tier, one) for one in range(place.at, end)]
        behind = ends.get(place.partition, 0) + len(copied.records) if copied.records else None
        ends[place.partition] = behind or ends.get(place.partition, 0)
        status = json.loads(
            json.dumps(after_chunk(status, place, chunk, copied, behind, now_ms=1))
        )  # a runner that is killed here leaves this to the next one
    wanted = [
        (partition, piece.tier, offset)
        for partition, some in order.pieces.items()
        for piece in some
        for offset in range(piece.start, piece.end)
    ]
    assert read == wanted
    replay = Replay("x", {}, status)
    ready = when_ready(replay, order, 5)
    assert (ready["state"], ready["expires_ms"]) == (ReplayState.READY, 60_005)
    assert {int(one): place["end"] for one, place in ready["offsets"].items()} == {
        partition: ends.get(partition, 0) for partition in range(order.partitions)
    }
    assert ready.get("records", 0) == sum(ends.values())


def test_a_reason_stays_with_the_state() -> None:
    replay = Replay("x", {}, {"state": "copying", "records": 5, "of_later_release": 1})
    failed = with_state(replay, ReplayState.FAILED, 7, "records are gone")
    assert failed == {
        "state": "failed", "at_ms": 7, "reason": "records are gone", "records": 5,
        "of_later_release": 1,
    }  # fmt: skip


def copying(name: str, at: int, end: int, **status: object) -> Replay:
    pieces = [{"tier": "backfill", "start": 0, "end": end}]
    progress = {"0": {"piece": 0, "next": at}}
    spec = {"plan": {"0": {"pieces": pieces}}}
    return Replay(name, spec, {"state": "copying", "progress": progress, **status})


def test_how_far_all_that_are_being_copied_are() -> None:
    paused = copying("r8", 5, 10)
    paused.control = Control.PAUSE
    others = [Replay("r0"), copying("r9", 5, 10, state="ready"), paused]
    assert copying_step(others, "backfill") is None
    some = [copying("r1", 30, 100, records=20, bytes=1500), *others, copying("r2", 10, 60)]
    step = copying_step(some, "backfill")
    assert step is not None
    assert (step.what, step.done, step.total) == ("replay r1, r2", 40, 160)
    assert step.also == (Amount(20, "records taken"), Amount(1500, "B"))
    many = copying_step([copying(f"r{number}", 0, 5) for number in range(3)], "backfill")
    assert many is not None
    assert many.what == "backfill: 3 replays"


# What a runner says of its replays to Prometheus.


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
    metrics.update("old", [copying, *others[:-1]], 10_500)
    metrics.update("other", None, 1_700_000_000_250)
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
    metrics.update("old", [others[-1]], 10_500)  # a spec that cannot be read stops nothing
    metrics.update("old", None, 0)  # another process has taken over: what this one knew is old
    lines = file.read_text().splitlines()
    assert 'headgate_replay_runner{cluster="old"} 0' in lines
    assert 'headgate_replay_records_total{cluster="old"} 5' in lines
    assert not [one for one in lines if "remaining_offsets{" in one]
