"""A real Prometheus takes OpenMetrics from the gateway, and keeps the exemplars."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import JSON, post
from support.network.otlp_receiver import OtlpReceiver
from support.process.prometheus import PROGRAM, running_prometheus
from support.process.stack import Gateway, RunningBroker, eventually

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no prometheus (Debian: prometheus)")

GATEWAY = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[tracing]
endpoint = "{endpoint}"
sample_one_in = 0
[topics."{topic}"]
key = ["/id"]
"""
QUERY = 'headgate_request_seconds_bucket{route="/v1/topics/{topic}/events",status="201"}'


async def test_prometheus_knows_the_trace_behind_a_latency(
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
    tmp_path: Path,
) -> None:
    kafka.create_topic(topic_name)
    with ExitStack() as ending:
        receiver = ending.enter_context(OtlpReceiver().running())
        config = GATEWAY.format(
            bootstrap=kafka.bootstrap, topic=topic_name, endpoint=receiver.endpoint
        )
        gateway = start_gateway(config, "--workers", "2")
        scraped = {"headgate": [f"{LOOPBACK}:{gateway.management_port}"]}
        prometheus = ending.enter_context(running_prometheus(tmp_path / "prometheus", scraped))
        posted, began = set[str](), time.time()

        def exemplars() -> Any:
            trace_id = f"{len(posted) + 1:032x}"
            posted.add(trace_id)
            headers = {**JSON, "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
            assert post(gateway.port, topic_name, b'{"id": 1}', headers).status == 201
            assert post(gateway.port, topic_name, b'{"id": 2}', JSON).status == 201
            return prometheus.exemplars(QUERY, began)

        found = await eventually(exemplars, deadline_s=40.0, interval_s=0.3)
        shown = [one for series in found for one in series["exemplars"]]
        assert {one["labels"]["trace_id"] for one in shown} <= posted
        for series in found:
            bound = float(series["seriesLabels"]["le"])
            assert all(float(one["value"]) <= bound for one in series["exemplars"])
        (target,) = prometheus.targets()
        assert (target["health"], target["lastError"]) == ("up", "")
        (up,) = prometheus.query('headgate_workers{state="up"}')
        assert up["value"][1] == "2"
