"""Topics that a replay needs and somebody deletes, or that were never there: it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.kafka import kafka_log
from support.scenarios.replay_copies import replayed, until_ready, wanted
from support.scenarios.replay_world import Api, ReplayRunner, Two, post, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

StartRunner = Callable[[], ReplayRunner]


def until_failed(api: Api, page: Any) -> str:
    path = f"/v1/replays/{page['id']}"
    found = until(lambda: api.get(path), lambda now: now["state"] == "failed", 90)
    assert found["result"] is None
    return str(found["reason"])


def test_what_was_never_mirrored_is_copied_where_that_is_allowed(
    two: Two, topic_name: str, api: Api, start_runner: StartRunner
) -> None:
    two.ingest.create_topic(topic_name, 2)
    post(two, topic_name, 0, range(30), aborted=1)
    made = api.create(topic_name, allow_cold=True)
    assert (made.status, made.page["planned"]["records"]) == (201, 30)
    assert made.page["planned"]["cold_offsets"] > 30
    start_runner()
    ready = until_ready(api, made.page)
    assert ready["done"]["records"] == 30
    assert replayed(two, made.page) == wanted(two, topic_name, lambda _: True)
    assert topic_name not in kafka_log.topic_names(two.backfill.bootstrap)


def test_what_can_be_read_and_is_deleted_has_failed(
    two: Two, topic: str, topic_name: str, api: Api, start_runner: StartRunner
) -> None:
    seek = api.create(topic, deliver={"mode": "seek"}).page
    copy = api.create(topic).page
    start_runner()
    until_ready(api, copy)
    mine = f"replay.{copy['id']}"
    kafka_log.delete_topic(two.backfill.bootstrap, mine)
    assert until_failed(api, copy).startswith(
        f"topic {mine} was deleted or recreated by another program"
    )
    assert api.get(f"/v1/replays/{seek['id']}")["state"] == "ready"
    kafka_log.delete_topic(two.backfill.bootstrap, topic)
    assert until_failed(api, seek).startswith(
        f"topic {topic} was deleted or recreated by another program"
    )


def test_a_copy_that_is_deleted_under_way_is_not_begun_again_in_the_middle(
    two: Two, topic: str, api: Api, start_runner: StartRunner
) -> None:
    """Brokers make topics that are asked for: what was copied before would be missing."""
    made = api.create(topic, rate={"records_per_s": 5}).page
    path, mine = f"/v1/replays/{made['id']}", f"replay.{made['id']}"
    start_runner()
    until(lambda: api.get(path)["done"]["records"], lambda done: done > 5)
    kafka_log.delete_topic(two.backfill.bootstrap, mine)
    assert until_failed(api, made).startswith(
        f"topic {mine} was deleted or recreated by another program"
    )
    assert mine not in kafka_log.topic_names(two.backfill.bootstrap)
