"""Incident B: commits that go back across rebalances, on a real broker.

Committed offsets are read from `__consumer_offsets` itself, so a commit that was repaired a moment
later is seen, too.
"""

from __future__ import annotations

import asyncio
import logging
import random

import pytest

from commit_trail import commit_trail, regressions
from consumer_world import (
    PREFETCH,
    Handled,
    Member,
    OurMember,
    PlainMember,
    RdMember,
    Rebalances,
    fill,
    out_of_order,
)
from stack import RunningBroker, eventually

log = logging.getLogger(__name__)

pytestmark = pytest.mark.kafka

PARTITIONS, KEYS = 6, 7


@pytest.mark.parametrize(
    ("count", "each"),
    [pytest.param(20, 1_500), pytest.param(200, 12_000, marks=pytest.mark.full)],
)
async def test_commits_never_go_back_and_nothing_is_skipped(
    kafka: RunningBroker, topic_name: str, count: int, each: int
) -> None:
    seed = random.randrange(1_000_000)
    log.warning("seed %d", seed)
    chance = random.Random(seed)
    kafka.create_topic(topic_name, PARTITIONS)
    fill(kafka.bootstrap, topic_name, PARTITIONS, each, KEYS)
    handled, group = Handled(), f"billing-{topic_name}"
    ours: list[OurMember] = []

    def new_member() -> Member:
        if chance.random() < 0.25:
            return RdMember(kafka.bootstrap, topic_name, group, handled)
        member = OurMember(kafka.bootstrap, topic_name, group, handled, chance)
        ours.append(member)
        return member

    rebalances = Rebalances(new_member, chance)
    try:
        await rebalances.force(count, (0.1, 0.8))
        while not any(isinstance(one, OurMember) for one in rebalances.members):
            await rebalances.force(1, (0.1, 0.2))
        await eventually(lambda: len(handled.places()) == PARTITIONS * each, 120)
    finally:
        await rebalances.stop()
    handled.check_all(PARTITIONS, each)
    trail = await asyncio.to_thread(commit_trail, kafka.bootstrap, group)
    assert not regressions(trail)
    last = {one.partition: one.offset for one in trail}
    assert last == dict.fromkeys(range(PARTITIONS), each), "the last commit covers everything"
    revokes = sum(one.consumer.counts.revokes for one in ours)
    assert revokes >= count // 5, "there were rebalances"
    # What ended behind an event that was still waiting for its key comes again.
    assert handled.redelivered() <= PREFETCH * PARTITIONS * revokes
    assert not out_of_order(handled.done, KEYS)
    again = handled.redelivered()
    log.warning("%d commits, %d revocations, %d redelivered", len(trail), revokes, again)


async def test_the_same_with_plain_aiokafka_does_go_back(
    kafka: RunningBroker, topic_name: str
) -> None:
    chance = random.Random(7)
    kafka.create_topic(topic_name, PARTITIONS)
    fill(kafka.bootstrap, topic_name, PARTITIONS, 20_000, KEYS)
    handled, group = Handled(), f"plain-{topic_name}"

    def new_member() -> Member:
        return PlainMember(kafka.bootstrap, topic_name, group, handled, chance)

    rebalances = Rebalances(new_member, chance)
    try:
        for _ in range(6):
            await rebalances.force(5, (0.1, 0.8))
            trail = await asyncio.to_thread(commit_trail, kafka.bootstrap, group)
            if regressions(trail):
                return
    finally:
        await rebalances.stop()
    pytest.fail("the harness cannot see what it is there to see")
