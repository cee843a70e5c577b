"""Each replay is carried out alone: what one of them waits for stops no other."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from headgate.replays.registry import REGISTRY_TOPIC, RUNNER_KEY
from support.kafka import kafka_log
from support.process.stack import RunningBroker
from support.scenarios.replay_copies import replayed, state_of, topics_of, until_ready, wanted
from support.scenarios.replay_world import Api, ReplayRunner, Two, mirror, post, until

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(600)]

PATIENCE_S = 15.0  # a standby takes over from a runner that is silent for longer


def half_mirrored(two: Two, topic: str, records: int) -> dict[str, Any]:
    """A replay of it reads the first records on the backfill tier, the others on the ingest
    tier."""
    two.create_topic(topic)
    post(two, topic, 0, range(14))
    mirror(two, topic)
    post(two, topic, 0, range(14, records))
    ends = kafka_log.end_offsets(two.ingest.bootstrap, topic)
    to = {"offsets": {str(one): end for one, end in ends.items()}}
    return {"to": to, "allow_cold": True}


def heartbeats_ms(two: Two) -> list[int]:
    """When the runner said that it is alive."""
    return [
        json.loads(one.value or b"{}")["at_ms"]
        for one in kafka_log.read_log(two.backfill.bootstrap, REGISTRY_TOPIC)
        if one.key == RUNNER_KEY
    ]


def test_a_cold_replay_whose_cluster_hangs_stops_no_other(
    two: Two,
    pausable: RunningBroker,
    topic: str,
    topic_name: str,
    api: Api,
    start_runner: Callable[..., ReplayRunner],
) -> None:
    cold, doomed = f"{topic_name}-cold", f"{topic_name}-doomed"
    slow = {"rate": {"records_per_s": 7}}
    cold_page, doomed_page = (
        api.create(one, **half_mirrored(two, one, 100), **slow).page for one in (cold, doomed)
    )
    warm_page = api.create(topic, rate={"records_per_s": 2}).page
    runner = start_runner("--patience", f"{PATIENCE_S:g}")
    for page in (cold_page, doomed_page):
        path = f"/v1/replays/{page['id']}"
        until(lambda path=path: api.get(path)["done"]["records"], lambda done: done > 14)
    pausable.pause()
    assert state_of(api, warm_page) == "copying"
    until_ready(api, warm_page)
    stuck = until(
        lambda: api.get(f"/v1/replays/{cold_page['id']}"), lambda page: page["reason"] is not None
    )
    assert stuck["state"] == "copying"
    assert stuck["reason"].startswith(f"cluster main: partition 0 of {cold}"), stuck["reason"]
    assert stuck["reason"].endswith("; trying again")
    assert api.ask("DELETE", f"/v1/replays/{doomed_page['id']}").status == 200
    until(lambda: state_of(api, doomed_page), "cancelled".__eq__)
    assert f"replay.{doomed_page['id']}" not in topics_of(two)
    pausable.resume()
    ready = until_ready(api, cold_page)
    assert ready["reason"] is None
    assert replayed(two, cold_page) == wanted(two, cold, lambda _: True)
    assert replayed(two, warm_page) == wanted(two, topic, lambda _: True)
    beats = heartbeats_ms(two)
    assert max(after - before for before, after in pairwise(beats)) < PATIENCE_S * 1000
    assert runner.log().count("this is the runner now") == 1
    assert "Error: ;" not in runner.log()


def test_records_that_a_topic_refuses_are_the_trouble_of_their_replay(
    two: Two, topic_name: str, topic: str, api: Api, start_runner: Callable[..., ReplayRunner]
) -> None:
    large = f"{topic_name}-large"
    two.create_topic(large)
    post(two, large, 0, range(14), text="x" * 20_000)
    mirror(two, large)
    refused = api.create(large, rate={"records_per_s": 1}).page
    runner = start_runner()
    path = f"/v1/replays/{refused['id']}"
    until(lambda: api.get(path)["done"]["records"], lambda done: done > 0)
    mine = f"replay.{refused['id']}"
    kafka_log.set_topic_configs(two.backfill.bootstrap, mine, {"max.message.bytes": "100"})
    stuck = until(lambda: api.get(path), lambda page: page["reason"] is not None)
    assert f"topic {mine} does not take a record: MessageSizeTooLarge" in stuck["reason"]
    until_ready(api, api.create(topic).page)
    assert runner.log().count("this is the runner now") == 1
    kafka_log.set_topic_configs(two.backfill.bootstrap, mine, {"max.message.bytes": "1000000"})
    assert until_ready(api, refused)["reason"] is None
    assert replayed(two, refused) == wanted(two, large, lambda _: True)
