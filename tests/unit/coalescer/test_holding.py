"""Whether a topic's events are held: its held topic decides, in every place that asks."""

from __future__ import annotations

import json

import pytest

from headgate.check.rules import Level, judge_held
from headgate.coalescer.coalescer import held_states, rules_of
from headgate.coalescer.windows import WindowTimes
from headgate.ingest.gate import Compiler, Routes
from headgate.model.internal_topics import as_held, held_topic, held_topics_of, is_held
from headgate.model.outcome import Failure, Outcome, Reason, Refused
from headgate.model.policy import PolicyTable, fingerprint
from headgate.wiring.coalescing import cluster_of
from support.doubles.kafka_log import MemoryTopics
from support.gateway.fakes import FakeTopics, policy, topic_state
from support.gateway.room import MemoryRoom
from support.process.stack import eventually

ON = policy(kind="state", suppress="raw", coalesce_quiet_ms=100)
OFF = policy(kind="state", suppress="raw")
H = topic_state(held_topic("orders"))
ELSEWHERE = H._replace(cluster="second")


@pytest.mark.parametrize(
    ("option", "held", "expected"),
    [(ON, H, True), (ON, None, True), (OFF, H, True), (OFF, None, False), (OFF, ELSEWHERE, False)],
)
def test_the_held_topic_decides_and_the_option_asks_for_one(
    option: object, held: object, expected: bool
) -> None:
    assert is_held(option, held) is expected  # type: ignore[arg-type]


def test_gateways_with_and_without_the_option_send_events_the_same_way() -> None:
    topics = FakeTopics(topic_state(), H)
    gateways = [Routes(PolicyTable([one]), topics, Compiler(128, "ns")) for one in (ON, OFF)]
    assert [one.find("orders").held for one in gateways] == [H, H]
    coalescers = [
        Routes(PolicyTable([one]), topics, Compiler(128, "ns"), holds=False) for one in (ON, OFF)
    ]
    digests = [one.find("orders").digest for one in coalescers]
    assert len({digest(b"{}", None) for digest in digests if digest is not None}) == 1
    assert None not in digests


def test_without_its_held_topic_a_topic_is_ordinary_or_takes_nothing() -> None:
    topics = FakeTopics(topic_state(), H)
    without, with_it = (
        Routes(PolicyTable([one]), topics, Compiler(128, "ns")) for one in (OFF, ON)
    )
    assert without.find("orders").held is H
    del topics.states[H.name]
    for routes in (without, with_it):
        routes.forget("orders")
    assert without.find("orders").held is None
    with pytest.raises(Refused) as caught:
        with_it.find("orders")
    assert caught.value.failure.reason is Reason.KAFKA_UNAVAILABLE


def test_a_held_event_becomes_one_record_whatever_the_ladder_says() -> None:
    off = policy(kind="state", suppress="raw", oversize=("compress", "chunk", "reject"))
    routes = Routes(PolicyTable([off]), FakeTopics(topic_state(), H), Compiler(128, "ns"))
    assert routes.find("orders").policy.oversize == ("reject",)
    # and its contents are compared as they were with the option, which allows no strategies
    assert fingerprint(as_held(off)) == fingerprint(ON) != fingerprint(off)


def test_held_topics_are_read_and_coalesced_without_the_option() -> None:
    table = PolicyTable([OFF])
    assert cluster_of(H.name, table) == "main"
    assert cluster_of(held_topic("of-no-section"), table) is None
    states = [H, topic_state(held_topic("of-no-section")), topic_state()]
    assert held_states(states, table, "main") == [H]
    assert held_states([ELSEWHERE], table, "second") == []
    assert held_topics_of(states, table) == {"orders": (H, OFF)}


def test_without_the_option_nothing_waits() -> None:
    rules = rules_of(OFF)
    assert rules.times == WindowTimes(0, 0, OFF.coalesce_burst_max_ms)
    assert rules_of(ON).times == WindowTimes(100, 500, ON.coalesce_burst_max_ms)


@pytest.mark.parametrize(
    ("sections", "held", "level", "said"),
    [
        ([OFF], H, Level.WARN, "still held, in headgate.held.orders, although"),
        ([policy()], H, Level.ERROR, "new events are refused (503)"),
        ([policy(pattern="deals")], H, Level.WARN, "no [topics] section matches orders"),
        ([OFF], ELSEWHERE, Level.WARN, "in cluster second, but orders belongs to main"),
    ],
)
def test_a_held_topic_that_nobody_asks_for_is_found(
    sections: list[object], held: object, level: Level, said: str
) -> None:
    (found,) = judge_held([held, topic_state()], PolicyTable(sections))  # type: ignore[list-item,arg-type]
    assert (found.level, found.subject) == (level, "topic headgate.held.orders")
    assert said in found.text
    assert "delete headgate.held.orders" in found.fix


def test_where_the_topic_coalesces_nothing_is_found() -> None:
    assert list(judge_held([H, topic_state()], PolicyTable([ON]))) == []


@pytest.mark.parametrize("kind", ["state", "event"])
async def test_events_that_each_count_are_not_held(kind: str) -> None:
    """kind = "event" since: they must not replace each other, nor pass what is held."""
    topics = MemoryTopics([topic_state(), H])
    table = PolicyTable([policy(kind=kind, key=("/id",))])
    room = MemoryRoom(topics, table)
    ticket = room.post("orders", json.dumps({"id": "7"}).encode())
    await eventually(lambda: ticket.done)
    (outcome,) = ticket.answered()
    assert isinstance(outcome, Outcome)
    if kind == "state":
        assert outcome.name == "held"
        assert {name for name, _ in room.lanes.log} == {H.name}
    else:
        assert outcome.failure is not None
        assert outcome.failure.reason is Reason.KAFKA_UNAVAILABLE
        assert "must be deleted" in outcome.failure.detail
        assert not room.lanes.log


async def test_a_held_topic_that_is_full_refuses_what_would_be_held() -> None:
    topics = MemoryTopics([topic_state(), H])
    full = {H.name: Failure(Reason.OVERLOADED, "too many are held")}
    table = PolicyTable([policy(kind="state", key=("/id",))])
    room = MemoryRoom(topics, table, full.get)
    ticket = room.post("orders", b'{"id":"7"}')
    assert ticket.done
    (outcome,) = ticket.answered()
    assert isinstance(outcome, Outcome)
    assert outcome.failure == full[H.name]
    assert not room.lanes.log
