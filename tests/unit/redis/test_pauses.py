"""Pause intent: the union of reasons, of which each is taken away by itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.redis.pauses import ALL, Intent, Pauses, PauseScope, field_intent, intent_field

topics = st.sampled_from(["orders", "deals"])
scopes = st.one_of(
    st.just(ALL),
    st.builds(PauseScope, topics, st.none()),
    st.builds(PauseScope, topics, st.integers(0, 2)),
)
reasons = st.sampled_from(["operator", "deploy", "breaker"])


def test_a_partition_is_read_again_when_every_reason_is_gone() -> None:
    pauses = Pauses()
    pauses.pause(ALL, "operator")
    pauses.pause(PauseScope("orders", 1), "breaker")
    assert pauses.resume(ALL, "operator")
    assert pauses.forbids("orders", 1)
    assert not pauses.forbids("orders", 0)
    assert not pauses.forbids("deals", 1)
    assert pauses.resume(PauseScope("orders", 1), "breaker")
    assert not pauses.forbids("orders", 1)


def test_resuming_another_scope_or_reason_changes_nothing() -> None:
    pauses = Pauses()
    pauses.pause(PauseScope("orders"), "operator")
    assert not pauses.resume(PauseScope("orders", 0), "operator")
    assert not pauses.resume(PauseScope("orders"), "deploy")
    assert pauses.forbids("orders", 0)


def test_what_the_store_says_is_not_resumed_by_the_process() -> None:
    pauses = Pauses()
    assert pauses.store_says([Intent(ALL, "operator")])
    assert not pauses.store_says([Intent(ALL, "operator")])
    pauses.resume(ALL, "operator")
    assert pauses.forbids("orders", 0)
    pauses.store_says([])
    assert not pauses.forbids("orders", 0)


@pytest.mark.parametrize(
    ("scope", "reason"),
    [
        (PauseScope(None, 3), "operator"),
        (PauseScope("", 1), "x"),
        (PauseScope("orders", -1), "x"),
        (ALL, ""),
    ],
)
def test_what_cannot_be_meant_is_refused(scope: PauseScope, reason: str) -> None:
    with pytest.raises(ValueError, match=r"partition|reason"):
        Pauses().pause(scope, reason)


@given(st.lists(st.tuples(st.booleans(), scopes, reasons), max_size=40))
def test_intent_is_what_was_paused_and_not_resumed(
    steps: list[tuple[bool, PauseScope, str]],
) -> None:
    pauses, model = Pauses(), set[tuple[PauseScope, str]]()
    for is_pause, scope, reason in steps:
        if is_pause:
            pauses.pause(scope, reason)
            model.add((scope, reason))
        else:
            pauses.resume(scope, reason)
            model.discard((scope, reason))
    for topic in ("orders", "deals"):
        for partition in range(3):
            expected = any(
                scope.topic in (None, topic) and scope.partition in (None, partition)
                for scope, _ in model
            )
            assert pauses.forbids(topic, partition) == expected
    assert {tuple(one) for one in pauses.intents()} == model


@given(scopes, st.text(min_size=1, max_size=20))
def test_a_field_of_the_store_says_which_intent_it_is(scope: PauseScope, reason: str) -> None:
    assert field_intent(intent_field(Intent(scope, reason))) == Intent(scope, reason)
