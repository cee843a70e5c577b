"""A replay up to now of a topic that is being written: the mirror is always a little behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from headgate_spark.mirror.copier import copy_all
from support.process.stack import Gateway, eventually
from support.scenarios import mirror_copies, mirror_world
from support.scenarios.replay_world import Api, Two, mirror, post

pytestmark = pytest.mark.kafka


@pytest.fixture
def patient(two: Two, start_gateway: Callable[..., Gateway]) -> Api:
    return Api(start_gateway(two.config("[replays]\nmirror_wait_ms = 20000\n")))


def test_what_the_mirror_copies_meanwhile_is_waited_for(two: Two, topic: str, patient: Api) -> None:
    for is_dry, status, records in ((True, 200, 65), (False, 201, 70)):
        post(two, topic, 1, range(records + 55, records + 60))
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(patient.create, topic, dry_run=is_dry)
            mirror(two, topic)
            answer = asked.result(60)
        assert answer.status == status, answer.page
        assert (answer.page["planned"]["records"], answer.page["planned"]["covered"]) == (
            records, True,
        )  # fmt: skip


def test_the_end_does_not_recede_while_it_is_waited_for(two: Two, topic: str, patient: Api) -> None:
    """It is where the log ended when the replay was asked for, or it would never come."""
    post(two, topic, 1, range(120, 125))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(patient.create, topic, dry_run=True)
        for number in range(130, 1000):
            mirror(two, topic)
            if asked.done():
                break
            post(two, topic, 1, [number])
        answer = asked.result(60)
    assert (answer.status, answer.page["planned"]["records"]) == (200, 65), answer.page


def test_what_no_mirror_will_bring_is_refused_at_once(
    two: Two, topic_name: str, patient: Api
) -> None:
    two.create_topic(topic_name)
    post(two, topic_name, 0, range(3))
    refused = patient.create(topic_name)
    assert (refused.status, refused.page["reason"]) == (422, "not_covered")


async def test_a_mirror_that_commits_seldom_does_so_when_a_replay_waits(
    two: Two, topic_name: str, patient: Api
) -> None:
    """The next commit would be minutes away."""
    tiers = mirror_world.Two(two.ingest, two.backfill)
    two.ingest.create_topic(topic_name, 2)
    two.backfill.create_topic(topic_name, 2, mirror_world.TARGET_CONFIGS)
    await asyncio.to_thread(post, two, topic_name, 0, range(3))
    units = [mirror_world.unit(tiers, topic_name, one, end=None) for one in (0, 1)]
    following = asyncio.create_task(copy_all(units, tiers.options(interval_s=600)))
    try:
        await eventually(lambda: mirror_copies.mapped_end(tiers, topic_name) >= 3)
        await asyncio.to_thread(post, two, topic_name, 0, range(3, 8))
        answer = await asyncio.to_thread(patient.create, topic_name)
        assert (answer.status, answer.page["planned"]["records"]) == (201, 8), answer.page
        await asyncio.to_thread(post, two, topic_name, 1, range(5))
        answer = await asyncio.to_thread(patient.create, topic_name, dry_run=True)
        assert (answer.status, answer.page["planned"]["records"]) == (200, 13), answer.page
    finally:
        following.cancel()
        await asyncio.wait([following])
