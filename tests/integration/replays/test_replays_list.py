"""Replays of several backfill clusters while one of them is away."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from support.process.stack import Gateway, RunningBroker
from support.scenarios.replay_world import Api, Two, mirror, post, until

pytestmark = pytest.mark.kafka

SEEK = {"deliver": {"mode": "seek"}}
UNKNOWN = "0192f0c1-7a3e-7c5a-9a52-2f4be1d3a001"


def config(first: Two, second: Two) -> str:
    """The cluster that goes away is asked first."""
    return f"""
[clusters.stock]
bootstrap_servers = "{second.ingest.bootstrap}"
backfill = "a-old"
[clusters.a-old]
bootstrap_servers = "{second.backfill.bootstrap}"
tier = "backfill"
[clusters.sales]
bootstrap_servers = "{first.ingest.bootstrap}"
backfill = "b-old"
[clusters.b-old]
bootstrap_servers = "{first.backfill.bootstrap}"
tier = "backfill"
[topics."stock-*"]
cluster = "stock"
keyless = "spread"
[topics."*"]
cluster = "sales"
keyless = "spread"
[replays]
active_max = 1000
"""


def test_one_that_is_away_takes_no_other_along(
    two: Two,
    topic: str,
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
) -> None:
    second = Two(two.ingest, start_broker())
    second.create_internal()
    stock = f"stock-{topic}"[:240]
    second.create_topic(stock)
    post(second, stock, 0, range(20))
    mirror(second, stock)
    api = Api(start_gateway(config(two, second)))
    made, gone = (api.create(one, **SEEK).page["id"] for one in (topic, stock))
    api.ask("POST", "/v1/snapshots", {"name": stock, "topic": stock})
    api.ask("POST", "/v1/snapshots", {"name": topic, "topic": topic})

    def listed() -> tuple[set[str], list[str]]:
        page = api.get("/v1/replays")
        return {one["id"] for one in page["replays"]}, [
            one["cluster"] for one in page["unavailable"]
        ]

    def named() -> tuple[set[str], list[str]]:
        page = api.get("/v1/snapshots")
        found = {one["name"] for one in page["snapshots"]} & {stock, topic}
        return found, [one["cluster"] for one in page["unavailable"]]

    assert listed()[0] >= {made, gone}
    assert listed()[1] == named()[1] == []
    second.backfill.kill()
    until(lambda: listed()[1], ["a-old"].__eq__)
    found, _ = listed()
    assert made in found
    assert gone not in found
    assert named() == ({topic}, ["a-old"])
    (silent,) = api.get("/v1/replays")["unavailable"]
    assert "a-old does not answer" in silent["why"]
    assert api.get(f"/v1/replays/{made}")["id"] == made
    for one in (gone, UNKNOWN):  # it may be there
        refused = api.ask("GET", f"/v1/replays/{one}")
        assert (refused.status, refused.page["reason"]) == (503, "kafka_unavailable")
    cancelled = api.ask("DELETE", f"/v1/replays/{made}")
    assert (cancelled.status, cancelled.page["state"]) == (200, "cancelled")
    second.backfill.restart()
    until(lambda: listed()[1], [].__eq__)
    assert listed()[0] >= {made, gone}
    assert api.ask("GET", f"/v1/replays/{UNKNOWN}").status == 404


def _status(api: Api, path: str) -> int:
    return api.ask("GET", path).status


def test_when_none_answers_the_list_is_refused(
    kafka: RunningBroker,
    start_broker: Callable[..., RunningBroker],
    start_gateway: Callable[..., Gateway],
) -> None:
    away = Two(kafka, start_broker())
    api = Api(start_gateway(away.config()))
    away.backfill.kill()
    for path in ("/v1/replays", "/v1/snapshots"):
        # The gateway may have read the registry just before the broker ended.
        until(partial(_status, api, path), (503).__eq__)
        refused = api.ask("GET", path)
        assert (refused.status, refused.page["reason"]) == (503, "kafka_unavailable")
        assert refused.headers["Retry-After"]
