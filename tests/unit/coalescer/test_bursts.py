"""Committing a burst on lanes in memory: what happens when not all of its markers get in."""

from __future__ import annotations

import json
from collections.abc import Collection

import pytest

from headgate.coalescer.bursts import Bursts
from headgate.coalescer.windows import BurstEnd, read_held
from headgate.idempotency.rules import pack_outcomes, unpack_outcomes
from headgate.model.internal_topics import held_topic
from headgate.model.outcome import Failure, OutcomeName, Reason, Refused
from headgate.model.policy import PolicyTable
from headgate.model.reply import reply
from support.doubles.kafka_log import MemoryTopics
from support.gateway.fakes import NOW_MS, policy, topic_state
from support.gateway.room import MemoryRoom
from support.process.stack import eventually

AWAY = Failure(Reason.KAFKA_UNAVAILABLE, "no broker", retry_after_s=1)


class World:
    """`deals` and all `state.*` coalesce, `orders` does not; `former` did, and has its H still."""

    def __init__(self) -> None:
        names = ["orders", "deals", "state.a", "state.b", "headgate.held.deals"]
        names += ["headgate.held.state.a", "former"]
        names += ["headgate.held.former"]
        self.topics = MemoryTopics(topic_state(name, partitions=2) for name in names)
        state = {"kind": "state", "key": ("/id",), "coalesce_quiet_ms": 100}
        table = PolicyTable(
            [
                policy(),
                policy(pattern="deals", **state),
                policy(pattern="gone", **state),
                policy(pattern="state.*", **state),
                policy(pattern="former", kind="state", key=("/id",), oversize=("split", "reject")),
            ]
        )
        self.room = MemoryRoom(self.topics, table)
        self.quotas, self.lanes = self.room.quotas, self.room.lanes
        self.bursts = Bursts(
            self.room.gate, self.topics, lambda: table, self.lanes, self.quotas, lambda: NOW_MS, 0.2
        )

    async def commit(self, *named: str, allowed: Collection[str] | None = None) -> list[str]:
        def may_post(topic: str) -> bool:
            return allowed is None or topic in allowed

        return await self.bursts.commit(b"b1", "shop", may_post, named)

    async def refusal(self, *named: str, allowed: Collection[str] | None = None) -> Failure:
        with pytest.raises(Refused) as caught:
            await self.commit(*named, allowed=allowed)
        return caught.value.failure

    def markers(self) -> set[tuple[str, int]]:
        found = set()
        for place, records in self.lanes.log.items():
            for one in records:
                read = read_held(0, one.key, one.value, one.timestamp_ms, one.headers)
                assert read == BurstEnd(b"b1")
                found.add(place)
        return found


def places(*topics: str) -> set[tuple[str, int]]:
    return {(held_topic(topic), partition) for topic in topics for partition in range(2)}


async def test_every_partition_of_every_topic_that_may_hold_some_gets_a_marker() -> None:
    world = World()
    assert await world.commit() == ["deals", "former", "state.a"]
    assert world.markers() == places("deals", "former", "state.a")


async def test_only_the_topics_that_are_named_or_that_the_caller_may_post_to() -> None:
    world = World()
    assert await world.commit("state.a", "state.a") == ["state.a"]
    assert world.markers() == places("state.a")
    world = World()
    assert await world.commit(allowed=["deals", "orders"]) == ["deals"]
    assert world.markers() == places("deals")


@pytest.mark.parametrize(
    ("named", "allowed", "reason"),
    [
        (("deals",), ("orders",), Reason.FORBIDDEN),
        (("orders",), None, Reason.MALFORMED),
        (("no-such",), None, Reason.UNKNOWN_TOPIC),
        (("gone",), None, Reason.UNKNOWN_TOPIC),
        (("state.b",), None, Reason.KAFKA_UNAVAILABLE),  # `headgate init` was forgotten
        ((), ("orders",), Reason.UNKNOWN_TOPIC),
    ],
)
async def test_commits_for_unknown_topics_are_refused(
    named: tuple[str, ...], allowed: tuple[str, ...] | None, reason: Reason
) -> None:
    world = World()
    assert (await world.refusal(*named, allowed=allowed)).reason is reason
    assert world.markers() == set()


async def test_nothing_is_written_where_not_all_lanes_take_it() -> None:
    world = World()
    world.lanes.refusing = AWAY
    assert await world.refusal() == AWAY
    world.lanes.refusing = None
    world.quotas.failure = Failure(Reason.QUOTA_EXCEEDED, "too often")
    assert (await world.refusal()).reason is Reason.QUOTA_EXCEEDED
    assert world.markers() == set()


async def test_one_marker_that_is_lost_fails_the_commit_and_a_second_one_mends_it() -> None:
    world = World()
    world.lanes.next_failure = Failure(Reason.UNKNOWN, "no answer")
    assert (await world.refusal()).reason is Reason.UNKNOWN
    assert await world.commit() == ["deals", "former", "state.a"]
    assert world.markers() == places("deals", "former", "state.a")


async def test_what_kafka_does_not_take_in_time_is_never_written() -> None:
    world = World()
    world.lanes.is_paused = True
    assert (await world.refusal()).reason is Reason.KAFKA_UNAVAILABLE
    world.lanes.resume()
    assert await world.commit("deals") == ["deals"]
    assert world.markers() == places("deals")


async def test_what_kafka_may_have_is_unknown() -> None:
    world = World()
    world.lanes.is_silent = True
    assert (await world.refusal("deals")).reason is Reason.UNKNOWN


async def test_what_is_held_has_no_place_neither_has_its_repeat() -> None:
    """The held topic has partitions and offsets of its own: they say nothing to anybody."""
    world = World()
    ticket = world.room.post("deals", b'{"id":"7"}')
    await eventually(lambda: ticket.done)
    (outcome,) = ticket.answered()
    again = unpack_outcomes(pack_outcomes([(0, outcome)]))[0]
    for each, name in (
        (outcome, "held"),
        (again, "duplicate"),
        (outcome.of(OutcomeName.DUPLICATE, outcome.event_id), "duplicate"),
    ):
        shown = json.loads(reply("deals", [each], False, False, "r").body)
        known = {"outcome": name, "topic": "deals", "key": "7", "event_id": outcome.event_id}
        assert shown == known
