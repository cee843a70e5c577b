"""Replays become entries once, however often their registry is read."""

from __future__ import annotations

from headgate.core.installation import Kind
from headgate.core.replays.replay import Replay, ReplayState
from headgate.replays.observer import ReplayObserver

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
