"""Whether topics are suppressed now, as a process tells it to its log and in its health."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headgate.backends.base import Topics
from headgate.model.policy import PolicyTable, TopicPolicy
from headgate.model.suppression_states import AWAY, ON, QUARANTINE, TopicSuppression
from headgate.model.topics import TopicState
from headgate.suppression.reservations import BypassMode
from headgate.suppression.sharded import redis_dependency, states_now
from headgate.suppression.suppressor import StateLog
from support.gateway.suppression_world import QUARANTINE_MS, World, make_scope


class StandIn:
    """What health asks of a suppressor."""

    def __init__(self, ok: bool = True, detail: str = "connected") -> None:
        self.found = ok, detail

    def health(self, effect: str = "") -> tuple[bool, str]:
        return self.found if self.found[1] else (False, effect)


def redis(suppressor: StandIn, **states: TopicSuppression) -> tuple[bool, str, float]:
    shown = redis_dependency(suppressor.health, "", states)
    assert (shown.name, shown.required) == ("redis", False)
    return shown.ok, shown.detail, shown.limited_s


def test_redis_is_well_while_topics_are_in_quarantine_and_says_for_how_long() -> None:
    on, away = TopicSuppression(ON), TopicSuppression(AWAY)
    assert redis(StandIn()) == (True, "connected", 0)
    assert redis(StandIn(), deals=on) == (True, "connected", 0)
    one = "connected; 1 topic suppresses nothing for up to 37 s (quarantine)"
    assert redis(StandIn(), deals=TopicSuppression(QUARANTINE, 36.2), x=on) == (True, one, 36.2)
    two = "connected; 2 topics suppress nothing for up to 37 s (quarantine)"
    states = {"a": TopicSuppression(QUARANTINE, 37.0), "b": TopicSuppression(QUARANTINE, None)}
    assert redis(StandIn(), **states) == (True, two, 37.0)
    yet = "connected; 1 topic suppresses nothing yet (quarantine)"
    assert redis(StandIn(), deals=TopicSuppression(QUARANTINE)) == (True, yet, 0)
    slow = StandIn(False, "slow: 3 events went past it")
    assert redis(slow, **states) == (False, "slow: 3 events went past it", 0)
    assert redis(StandIn(False, "gone"), deals=away) == (False, "gone", 0)


def test_redis_that_is_unavailable_says_whether_events_are_published_or_refused() -> None:
    policies = PolicyTable(
        (TopicPolicy("deals", "main"), TopicPolicy("orders", "main", redis_loss="refuse"))
    )

    def detail(*topics: str) -> str:
        states = dict.fromkeys(topics, TopicSuppression(AWAY))
        suppressor = StandIn(False, "")
        return redis_dependency(
            suppressor.health, "", states, refusing=policies.refusing(states)
        ).detail

    assert detail("deals") == "events are published without comparison"
    assert detail("orders") == 'events are refused (redis_loss = "refuse")'
    both = (
        "events are published without comparison, or are refused if the topic has "
        'redis_loss = "refuse"'
    )
    assert detail("deals", "orders") == both


def test_topics_that_are_gone_or_compared_no_more_are_not_told() -> None:
    """A suppressor remembers the namespaces of both."""
    policies = PolicyTable(
        (
            TopicPolicy("deals", "main", kind="state", suppress="raw"),
            TopicPolicy("gone", "main", kind="state", suppress="raw"),
            TopicPolicy("orders", "main"),
        )
    )
    there: Any = {
        name: TopicState(name, "main", b"1" * 16, 1) for name in ("deals", "orders", "unserved")
    }
    names = ("deals", "gone", "orders", "unserved")
    seen = [{name: TopicSuppression(ON) for name in names}, {"deals": TopicSuppression(AWAY)}]
    found = states_now(seen, policies, cast("Topics", there))
    assert found == {"deals": TopicSuppression(AWAY)}


def test_a_topic_s_way_from_unknown_over_quarantine_to_on_and_away() -> None:
    world = World(warm=False)
    reservations, topic = world.g0.reservations, world.scope.topic
    assert reservations.states(world.g0.seconds) == {}
    reservations.open(world.scope)
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(QUARANTINE, None)}
    world.g0.exchange()
    left_s = QUARANTINE_MS / 1000
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(QUARANTINE, left_s)}
    world.later(QUARANTINE_MS - 1000)
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(QUARANTINE, 1.0)}
    world.later(1000)
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(ON)}
    world.restart_redis()
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(AWAY)}
    reservations.begin_catching_up()  # events still go past Redis
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(AWAY)}
    reservations.mode = BypassMode.READY
    world.g0.exchange()
    assert reservations.states(world.g0.seconds) == {topic: TopicSuppression(QUARANTINE, left_s)}
    reservations.shut(world.scope)
    assert reservations.states(world.g0.seconds) == {}


def test_a_recreated_topic_is_in_quarantine_of_its_own() -> None:
    world = World(warm=False)
    world.g0.reservations.open(world.scope)
    world.g0.exchange()
    world.later(QUARANTINE_MS)
    world.g0.reservations.scope_changed(world.scope, make_scope(2))
    (state,) = world.g0.reservations.states(world.g0.seconds).values()
    assert state.state == QUARANTINE


def test_one_line_of_the_log_at_the_begin_and_one_at_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    log = StateLog()
    on, paused = TopicSuppression(ON), TopicSuppression(QUARANTINE, 37.4)
    for states in ({"a": on}, {"a": paused, "b": paused}, {"a": paused, "b": paused}):
        log.note(states)
    (begin,) = caplog.messages
    assert begin.startswith("suppression: a, b: quarantine: all events are published, for 37 s")
    for states in ({"a": on, "b": on}, {"a": on, "b": on}):
        log.note(states)
    assert caplog.messages == [begin, "suppression: a, b: active, the quarantine is over"]
    log.note({f"t{number}": paused for number in range(9)})
    assert "t0, t1, t2, t3, t4 and 4 more: quarantine" in caplog.messages[-1]
