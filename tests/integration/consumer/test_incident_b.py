"""Incident B (docs/design/incidents.md): commits that go back across rebalances, on a real broker.

Members join, leave, and stand still beyond their sessions; their commits are delayed between their
making and their sending. Committed offsets are read from `__consumer_offsets` itself, so that a
commit that was repaired a moment later is seen, too.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from support.kafka.commit_stream import commit_stream, regressions
from support.process.stack import RunningBroker, eventually
from support.scenarios.consumer_world import (
    PREFETCH,
    Handled,
    Member,
    OurMember,
    PlainMember,
    ProcessMember,
    RdMember,
    Rebalances,
    fill,
    out_of_order,
)

log = logging.getLogger(__name__)

pytestmark = pytest.mark.kafka

PARTITIONS, KEYS = 6, 7


class Group:
    """A group as an independent client sees it. In a thread: members run on this event loop."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self._name = name

    async def committed(self) -> dict[int, int]:
        asked = [ConsumerGroupTopicPartitions(self._name)]
        (found,) = self._admin.list_consumer_group_offsets(asked).values()
        offsets = await asyncio.to_thread(found.result, 90)
        return {one.partition: one.offset for one in offsets.topic_partitions}

    def has_committed(self, each: int) -> Callable[[], Awaitable[bool]]:
        """Whether it has committed the end of each partition."""
        ends = dict.fromkeys(range(PARTITIONS), each)

        async def asked() -> bool:
            return await self.committed() == ends

        return asked

    async def members(self) -> int:
        """0 as long as it is not stable."""
        (found,) = self._admin.describe_consumer_groups([self._name]).values()
        description = await asyncio.to_thread(found.result, 90)
        return len(description.members) if description.state.name == "STABLE" else 0


@pytest.mark.parametrize(
    ("count", "each"),
    [pytest.param(8, 600), pytest.param(200, 12_000, marks=pytest.mark.full)],
)
async def test_commits_never_go_back_and_nothing_is_skipped(
    kafka: RunningBroker, topic_name: str, tmp_path: Path, count: int, each: int
) -> None:
    seed = random.randrange(1_000_000)
    log.warning("seed %d", seed)
    chance = random.Random(seed)
    kafka.create_topic(topic_name, PARTITIONS)
    fill(kafka.bootstrap, topic_name, PARTITIONS, each, KEYS)
    handled, group = Handled(), f"billing-{topic_name}"
    ours: list[OurMember] = []

    def new_member() -> Member:
        kind = chance.random()
        if kind < 0.25:
            return RdMember(kafka.bootstrap, topic_name, group, handled)
        if kind < 0.5:
            return ProcessMember(kafka.bootstrap, topic_name, group, handled, tmp_path)
        member = OurMember(kafka.bootstrap, topic_name, group, handled, chance)
        ours.append(member)
        return member

    def revokes() -> int:
        return sum(one.consumer.counts.revokes for one in ours)

    rebalances = Rebalances(new_member, chance)
    try:
        await rebalances.force(count, (0.1, 0.8))
        # By chance there may be few of ours among them.
        while revokes() < count // 5 or not any(
            isinstance(one, OurMember) for one in rebalances.members
        ):
            await rebalances.force(1, (0.1, 0.5))
        await eventually(Group(kafka.bootstrap, group).has_committed(each), 180, 0.2)
    finally:
        await rebalances.stop()
    handled.check_all(PARTITIONS, each)
    commits = await asyncio.to_thread(commit_stream, kafka.bootstrap, group)
    assert not regressions(commits)
    last = {one.partition: one.offset for one in commits}
    assert last == dict.fromkeys(range(PARTITIONS), each), "the last commit covers everything"
    # What ended behind an event that was still waiting for its key comes again.
    assert handled.redelivered() <= PREFETCH * PARTITIONS * (rebalances.forced + revokes())
    assert not out_of_order(handled.done, KEYS)
    again = handled.redelivered()
    log.warning("%d commits, %d revocations, %d redelivered", len(commits), revokes(), again)


async def test_a_member_that_was_given_up_for_dead_does_not_commit(
    kafka: RunningBroker, topic_name: str, tmp_path: Path
) -> None:
    """It goes on when the group is empty: the broker would take what it commits then."""
    kafka.create_topic(topic_name, PARTITIONS)
    fill(kafka.bootstrap, topic_name, PARTITIONS, 1_500, KEYS)
    handled, group = Handled(), f"zombie-{topic_name}"
    seen = Group(kafka.bootstrap, group)
    zombie = ProcessMember(kafka.bootstrap, topic_name, group, handled, tmp_path)
    heir = OurMember(kafka.bootstrap, topic_name, group, handled, random.Random(1))
    await zombie.start()
    try:
        await eventually(lambda: zombie.has_begun(300), 60)
        zombie.halt()
        await heir.start()
        await eventually(seen.has_committed(1_500), 120, 0.2)
        await heir.stop()
        zombie.go_on()
        await eventually(seen.members, 60, 0.2)
    finally:
        await zombie.stop()
    commits = await asyncio.to_thread(commit_stream, kafka.bootstrap, group)
    assert not regressions(commits)


@pytest.mark.timeout(600)
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
    end = time.monotonic() + 300  # mostly ten seconds do, on a busy machine a hundred
    try:
        while time.monotonic() < end:
            await rebalances.force(5, (0.1, 0.8))
            commits = await asyncio.to_thread(commit_stream, kafka.bootstrap, group)
            if regressions(commits):
                return
    finally:
        await rebalances.stop()
    pytest.fail("the harness cannot see what it is there to see")
