"""The registry's fold: whatever API and runner write in whatever order, states stay allowed."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headgate.model.installation import Kind
from headgate.replays.registry import (
    FINISHED,
    NEXT,
    REGISTRY_TOPIC,
    Control,
    Registry,
    Replay,
    ReplayObserver,
    ReplayState,
    keyed_id,
    new_id,
    reachable,
    read_wanted,
    record,
    runner_record,
    snapshot_record,
    tombstones,
    wanted_record,
)

ID = "0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001"
Record = tuple[bytes, bytes | None]

specs = st.just(record(ID, "spec", {"name": "again", "created_ms": 5, "of_later_release": [1]}))
controls = st.sampled_from([*Control]).map(lambda one: record(ID, "control", {"control": one}))
states = st.sampled_from([*ReplayState]).map(
    lambda one: record(ID, "status", {"state": one, "x": 1})
)
garbage = st.tuples(st.binary(max_size=8), st.none() | st.binary(max_size=8))
written = st.lists(st.one_of(controls, states, states, garbage), max_size=25)


def folded(records: Sequence[Record]) -> Registry:
    registry = Registry()
    for key, value in records:
        registry.see(key, value)
    return registry


def compacted(records: Sequence[Record], keep: Sequence[bool]) -> list[Record]:
    """What cleanup may leave: of each key the newest, and any of the older ones."""
    newest = {key: at for at, (key, _) in enumerate(records)}
    marks = [*keep, *([True] * len(records))]
    return [one for at, one in enumerate(records) if newest[one[0]] == at or marks[at]]


@given(specs, written)
def test_only_allowed_states_follow(spec: Record, records: list[Record]) -> None:
    registry = folded([spec])
    replay = registry.get(ID)
    assert replay is not None
    was_cancelled = False
    for key, value in records:
        before = replay.state
        registry.see(key, value)
        assert replay.state in {before, *reachable(before)}
        was_cancelled = was_cancelled or replay.control is Control.CANCEL
        assert not was_cancelled or replay.control is Control.CANCEL
        if before in FINISHED:
            assert replay.state is before
    assert json.loads(json.dumps(replay.spec))["of_later_release"] == [1]


class Writers:
    """An API and a runner as they are built: each reads, then writes; others may write between."""

    def __init__(self) -> None:
        self.log: list[Record] = [record(ID, "spec", {"name": "again"})]

    def read(self) -> tuple[ReplayState, Control]:
        replay = folded(self.log).get(ID)
        assert replay is not None
        return replay.state, replay.control

    def api(self, seen: tuple[ReplayState, Control], wanted: Control) -> None:
        state, control = seen
        if state in FINISHED or control is Control.CANCEL:
            return
        self.log.append(record(ID, "control", {"control": wanted}))
        if wanted is Control.CANCEL and state is ReplayState.PENDING:
            self.log.append(record(ID, "status", {"state": ReplayState.CANCELLED}))

    def runner(self, seen: tuple[ReplayState, Control], wanted: ReplayState) -> None:
        state, control = seen
        if state in FINISHED:
            return
        if control is Control.CANCEL:
            self.log.append(record(ID, "status", {"state": ReplayState.CANCELLED}))
        elif control is Control.RUN and wanted in NEXT[state]:
            self.log.append(record(ID, "status", {"state": wanted}))


steps = st.lists(
    st.tuples(
        st.booleans(), st.sampled_from([*Control]), st.sampled_from([*ReplayState]), st.booleans()
    ),
    max_size=30,
)


@given(steps, st.lists(st.booleans(), max_size=70))
def test_any_interleaving_ends_in_an_allowed_state(steps: Any, keep: list[bool]) -> None:
    writers = Writers()
    api_saw = runner_saw = writers.read()
    for is_api, control, state, reads in steps:
        if reads:  # else it acts on what it saw before others wrote
            api_saw, runner_saw = (writers.read(), runner_saw) if is_api else (
                api_saw, writers.read(),
            )  # fmt: skip
        if is_api:
            writers.api(writers.read(), control)  # its transaction reads the log's end
        else:
            writers.runner(runner_saw, state)
    for _ in range(2):  # the runner goes on: it reads, acts, reads again
        state, control = writers.read()
        if control is Control.CANCEL:
            writers.runner((state, control), ReplayState.CANCELLED)
    state, control = writers.read()
    assert control is not Control.CANCEL or state in FINISHED
    again = folded(compacted(writers.log, keep)).get(ID)
    assert again is not None
    assert again.control is control or again.control is Control.CANCEL
    if control is Control.CANCEL:
        assert again.state in {*FINISHED} or again.state in reachable(ReplayState.PENDING)


@given(st.lists(st.sampled_from([*ReplayState]), max_size=8), st.lists(st.booleans(), max_size=8))
def test_compaction_changes_nothing_of_an_allowed_history(
    wished: list[ReplayState], keep: list[bool]
) -> None:
    state, records = ReplayState.PENDING, [record(ID, "spec", {"name": "again"})]
    for one in wished:
        if one in NEXT[state]:
            state = one
            records.append(record(ID, "status", {"state": one}))
    replay = folded(compacted(records, keep)).get(ID)
    assert replay is not None
    assert replay.state is state


def test_a_replay_is_there_with_its_spec_and_gone_with_its_tombstones() -> None:
    registry = folded([record(ID, "status", {"state": "copying"})])
    assert registry.get(ID) is None
    assert list(registry) == []
    registry.see(*record(ID, "spec", {"name": "again"}))
    assert [one.state for one in registry] == [ReplayState.COPYING]
    assert [one.topic for one in registry] == [f"replay.{ID}"]
    for key, value in tombstones(ID):
        registry.see(key, value)
    assert list(registry) == []


def test_snapshots_and_the_runner_are_in_the_same_topic() -> None:
    assert REGISTRY_TOPIC == "headgate.replays"
    registry = folded(
        [snapshot_record("release", {"topic": "orders"}), runner_record({"runner": "a"})]
    )
    assert registry.snapshots == {"release": {"topic": "orders"}}
    assert registry.runner == {"runner": "a"}
    registry.see(b"snapshot/release", None)
    assert registry.snapshots == {}


def test_what_makes_no_sense_is_counted() -> None:
    registry = folded([(b"x", b"{}"), (f"{ID}/spec".encode(), b"["), (b"", None)])
    assert registry.unread == 3


def test_ids() -> None:
    first, second = new_id(5, b"a" * 10), new_id(6, b"\0" * 10)
    assert first < second
    assert uuid.UUID(first).version == 7
    assert uuid.UUID(first).variant == uuid.RFC_4122
    assert keyed_id("shop", "k") == keyed_id("shop", "k")
    assert keyed_id("shop", "k") != keyed_id("sho", "pk")
    assert uuid.UUID(keyed_id("shop", "k")).version == 8


@given(st.sampled_from(["spec", "control", "status"]), st.sampled_from([None, [], {}, "x", 1.5]))
def test_fields_of_another_shape_leave_the_registry_readable(what: str, odd: object) -> None:
    names = {"spec": "created_ms", "control": "control", "status": "state"}
    spec = record(ID, "spec", {"name": "again", "created_ms": 5})
    registry = folded([record(ID, what, {names[what]: odd}), spec])
    (replay,) = registry
    assert (replay.control, replay.state) == (Control.RUN, ReplayState.PENDING)


def test_who_waits_for_the_mirror_is_in_the_registry_and_no_replay() -> None:
    wanted = wanted_record("deals.v1", {0: 5, 12: 2**40})
    assert read_wanted(*wanted) == {("deals.v1", 0): 5, ("deals.v1", 12): 2**40}
    registry = folded([record(ID, "spec", {"name": "again"}), wanted])
    assert (registry.unread, [one.id for one in registry]) == (0, [ID])
    for other in (record(ID, "spec", {"ends": {"0": 5}}), snapshot_record("wanted", {"at_ms": 1})):
        assert read_wanted(*other) == {}
    for value in (None, b"", b"[]", b'{"ends": 5}', b'{"ends": {"x": 1, "1": "y"}}'):
        assert read_wanted(wanted[0], value) == {}


# Replays become entries once, however often their registry is read.


START_MS = 1_790_000_000_000


def replay(state: str, asked_ms: int = START_MS + 5, reason: str = "", name: str = "r1") -> Replay:
    spec = {
        "name": "again",
        "topic": "orders",
        "mode": "topic",
        "created_ms": asked_ms,
        "by": "ann",
    }
    status = {"state": state, "at_ms": START_MS + 99} | ({"reason": reason} if reason else {})
    return Replay(name, spec, status)


def kinds(observer: ReplayObserver, *replays: Replay) -> list[Kind]:
    return [one.kind for one in observer.see(replays)]


def test_a_replay_is_told_of_from_its_beginning_to_its_end() -> None:
    observer = ReplayObserver(START_MS)
    (created,) = observer.see([replay("pending")])
    assert (created.kind, created.subject, created.at_ms) == (
        Kind.REPLAY_CREATED, "r1", START_MS + 5,
    )  # fmt: skip
    assert created.text == "again of orders: asked for"
    assert created.details == {"name": "again", "topic": "orders", "mode": "topic", "by": "ann"}
    assert kinds(observer, replay("copying")) == []
    (failed,) = observer.see([replay("failed", reason="the topic was deleted")])
    assert failed.kind == Kind.REPLAY_FAILED
    assert failed.text == "again of orders: failed: the topic was deleted"
    assert failed.at_ms == START_MS + 99
    assert kinds(observer, replay("failed")) == []


def test_one_that_ends_between_two_polls_has_both_entries() -> None:
    assert kinds(ReplayObserver(START_MS), replay("completed")) == [
        Kind.REPLAY_CREATED, Kind.REPLAY_DONE,
    ]  # fmt: skip


def test_what_was_asked_for_before_the_start_is_nothing_new_but_its_end_is() -> None:
    observer = ReplayObserver(START_MS)
    old, other = replay("copying", START_MS - 1), replay("ready", START_MS - 1, name="r2")
    assert kinds(observer, old, other) == []
    assert kinds(observer, replay("cancelled", START_MS - 1), other) == [Kind.REPLAY_CANCELLED]


def test_a_registry_that_is_read_again_from_its_beginning_tells_nothing_twice() -> None:
    observer = ReplayObserver(START_MS)
    assert kinds(observer, replay("ready")) == [Kind.REPLAY_CREATED, Kind.REPLAY_DONE]
    assert kinds(observer) == []
    assert kinds(observer, replay("ready")) == []


def test_every_end_has_an_entry() -> None:
    ends = [ReplayState.READY, ReplayState.COMPLETED, ReplayState.FAILED, ReplayState.CANCELLED,
            ReplayState.EXPIRED]  # fmt: skip
    for state in ends:
        assert len(kinds(ReplayObserver(START_MS), replay(state))) == 2, state
