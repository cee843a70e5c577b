"""Nothing is in the log of a gateway that has no trouble, from its start to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
import requests

from headgate.metrics.build import WITHOUT_NATIVE
from support.process.stack import Gateway, RunningRedis
from support.scenarios.replay_world import Api, Two

pytestmark = [pytest.mark.kafka, pytest.mark.redis, pytest.mark.timeout(300)]

READS = 10  # of the second tier: each takes a consumer, and drops it


@pytest.mark.parametrize("seconds", [0, pytest.param(60, marks=pytest.mark.full)])
def test_a_gateway_with_a_mirrored_cluster(
    two: Two,
    redis_server: RunningRedis,
    topic: str,
    start_gateway: Callable[..., Gateway],
    seconds: int,
) -> None:
    # Only its own topics: others of this broker may give a reason to warn.
    own = f'[redis]\nurl = "{redis_server.url}"\n[topics."{topic}*"]\ndedupe_ttl_s = 600'
    config = two.config().replace('[topics."*"]', own)
    gateway = start_gateway(config, "--workers", "2")
    events = f"{gateway.url}/v1/topics/{topic}/events"
    page = Api(gateway)
    end = time.monotonic() + seconds
    turn = 0
    while turn < READS or time.monotonic() < end:
        turn += 1
        document = {"id": turn}
        assert requests.post(events, json=document, timeout=60).status_code == 201
        batch = [document] * 20
        assert requests.post(events, json=batch, timeout=60).status_code == 200
        known = {"Idempotency-Key": f"key-{turn}"}
        assert requests.post(events, json=document, headers=known, timeout=60).status_code == 201
        page.get("/v1/replays")
        page.get(f"/v1/coverage/{topic}")
        page.get("/v1/producers")
    gateway.stop()
    assert gateway.exit_code == 0
    lines = [json.loads(line) for line in gateway.log().splitlines()]
    trouble = [line for line in lines if line["level"] not in ("DEBUG", "INFO")]
    # Tests run the sources: that is said once, and nothing else.
    assert [line["text"] for line in trouble] == [WITHOUT_NATIVE]
    assert {"worker 0 started", "worker 1 started", "draining"} <= {one["text"] for one in lines}
