"""A real Prometheus takes OpenMetrics from the gateway, and keeps the exemplars."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from support.clients.http_client import JSON, post
from support.network.otlp_receiver import OtlpReceiver
from support.process.stack import PATIENCE, Gateway, RunningBroker, eventually, free_port

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="no Prometheus"),
]

GATEWAY = """
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
[tracing]
endpoint = "{endpoint}"
sample_one_in = 0
[topics."{topic}"]
key = ["/id"]
"""
SCRAPE = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: headgate
    static_configs: [{{targets: ["{host}:{port}"]}}]
"""
QUERY = 'headgate_request_seconds_bucket{route="/v1/topics/{topic}/events",status="201"}'


class Prometheus:
    """A server of its own, with its data in a folder of the test."""

    def __init__(self, folder: Path, scraped_port: int) -> None:
        self.url = f"http://{LOOPBACK}:{(port := free_port())}"
        file = folder / "prometheus.yml"
        file.write_text(SCRAPE.format(host=LOOPBACK, port=scraped_port))
        command = [
            "prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={LOOPBACK}:{port}", "--enable-feature=exemplar-storage",
        ]  # fmt: skip
        self.child = Child("prometheus", command, folder / "prometheus.log")
        self.child.wait_until(self.is_ready, 30.0 * PATIENCE)

    def is_ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=10).status_code == 200
        except requests.ConnectionError:
            return False

    def ask(self, path: str, **parameters: Any) -> Any:
        answer = requests.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=10)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


@pytest.fixture
def start_prometheus(tmp_path: Path) -> Iterator[Callable[[int], Prometheus]]:
    found: list[Prometheus] = []

    def start(port: int) -> Prometheus:
        found.append(Prometheus(tmp_path, port))
        return found[-1]

    yield start
    for one in found:
        one.child.kill()


async def test_prometheus_knows_the_trace_behind_a_latency(
    kafka: RunningBroker,
    topic_name: str,
    start_gateway: Callable[..., Gateway],
    start_prometheus: Callable[[int], Prometheus],
) -> None:
    kafka.create_topic(topic_name)
    with OtlpReceiver().running() as receiver:
        config = GATEWAY.format(
            bootstrap=kafka.bootstrap, topic=topic_name, endpoint=receiver.endpoint
        )
        gateway = start_gateway(config, "--workers", "2")
        prometheus = start_prometheus(gateway.management_port)
        posted, began = set[str](), time.time()

        def exemplars() -> Any:
            trace_id = f"{len(posted) + 1:032x}"
            posted.add(trace_id)
            headers = {**JSON, "traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"}
            assert post(gateway.port, topic_name, b'{"id": 1}', headers).status == 201
            assert post(gateway.port, topic_name, b'{"id": 2}', JSON).status == 201
            return prometheus.ask("query_exemplars", query=QUERY, start=began, end=time.time() + 1)

        found = await eventually(exemplars, deadline_s=40.0, interval_s=0.3)
    shown = [one for series in found for one in series["exemplars"]]
    assert {one["labels"]["trace_id"] for one in shown} <= posted
    for series in found:
        bound = float(series["seriesLabels"]["le"])
        assert all(float(one["value"]) <= bound for one in series["exemplars"])
    (target,) = prometheus.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    (up,) = prometheus.ask("query", query='headgate_workers{state="up"}')["result"]
    assert up["value"][1] == "2"
