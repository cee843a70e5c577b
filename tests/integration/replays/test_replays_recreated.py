"""A topic that is deleted, or recreated, under a replay: it fails, and copies nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.kafka import kafka_log
from support.scenarios.replay_copies import OTHER, remake
from support.scenarios.replay_world import Api, ReplayRunner, Two, mirror, post, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

RECORDS = 200


def mirrored(two: Two, topic: str) -> None:
    two.create_topic(topic)
    post(two, topic, 0, range(RECORDS))
    mirror(two, topic)


def until_failed(api: Api, page: Any) -> str:
    path = f"/v1/replays/{page['id']}"
    found = until(lambda: api.get(path), lambda now: now["state"] in ("failed", "ready"), 90)
    assert found["state"] == "failed", found
    return str(found["reason"])


def copied(api: Api, page: Any) -> int:
    return int(api.get(f"/v1/replays/{page['id']}")["done"]["records"])


@pytest.mark.parametrize("tier", ["ingest", "backfill"])
def test_a_map_of_a_deleted_topic_plans_nothing(
    two: Two, topic_name: str, api: Api, tier: str
) -> None:
    """Until the mirror has looked, the map is of the topics that were there before."""
    mirrored(two, topic_name)
    deliver: Any = {"mode": "group", "group": f"g-{topic_name}"}
    start = {"offsets": {"0": 100, "1": 0}}
    remake(getattr(two, tier), topic_name)
    for one in (deliver, {"mode": "seek"}):
        refused = api.create(topic_name, **{"from": start}, deliver=one)
        assert (refused.status, refused.page["reason"]) == (422, "not_covered"), refused
        assert "was deleted and recreated" in refused.page["detail"]
    committed = kafka_log.group_offsets(two.backfill.bootstrap, f"g-{topic_name}", topic_name)
    assert set(committed.values()) == {-1}


def test_a_topic_that_is_recreated_while_it_is_copied(
    two: Two, topic: str, topic_name: str, api: Api, start_runner: Callable[..., ReplayRunner]
) -> None:
    again = f"{topic_name}-again"
    mirrored(two, again)
    made = api.create(again, rate={"records_per_s": 10}).page
    runner = start_runner()
    until(lambda: copied(api, made), lambda done: done > 10)
    remake(two.backfill, again)
    assert "was deleted and recreated since this was planned" in until_failed(api, made)
    assert copied(api, made) < RECORDS
    waiting = api.create(topic).page  # of another topic: it is none the worse
    page = f"/v1/replays/{waiting['id']}"
    until(lambda: api.get(page)["state"], "ready".__eq__, 90)
    mine = f"replay.{made['id']}"
    until(lambda: mine in kafka_log.topic_names(two.backfill.bootstrap), (False).__eq__)
    values = {
        one.value for one in kafka_log.read_log(two.backfill.bootstrap, f"replay.{waiting['id']}")
    }
    assert OTHER not in values
    assert len(values) > 10
    assert runner.exit_code is None


@pytest.mark.full
def test_a_topic_that_is_recreated_before_it_is_begun_and_one_that_is_deleted(
    two: Two, topic_name: str, api: Api, start_runner: Callable[..., ReplayRunner]
) -> None:
    early, gone = f"{topic_name}-early", f"{topic_name}-gone"
    for one in (early, gone):
        mirrored(two, one)
    first, second = (api.create(one, rate={"records_per_s": 20}).page for one in (early, gone))
    remake(two.backfill, early)
    start_runner()
    assert "was deleted and recreated since this was planned" in until_failed(api, first)
    until(lambda: copied(api, second), lambda done: done > 10)
    kafka_log.delete_topic(two.backfill.bootstrap, gone)
    assert until_failed(api, second) == f"cluster old has no topic {gone}"


@pytest.mark.full
def test_what_is_read_from_a_recreated_topic_of_the_ingest_tier(
    two: Two, topic_name: str, api: Api, start_runner: Callable[..., ReplayRunner]
) -> None:
    mirrored(two, topic_name)
    post(two, topic_name, 0, range(RECORDS, 2 * RECORDS))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic_name)
    to = {"offsets": {str(one): end for one, end in ends.items()}}
    since = {"offsets": {"0": RECORDS + 60, "1": 0}}
    more = {"from": since, "to": to, "allow_cold": True, "rate": {"records_per_s": 20}}
    made = api.create(topic_name, **more).page
    start_runner()
    until(lambda: copied(api, made), lambda done: done > 10)
    remake(two.ingest, topic_name)
    assert "was deleted and recreated since this was planned" in until_failed(api, made)
