"""A real Prometheus that scrapes real gateways and the monitor: every query has an answer."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, TopicPartition

from generate import DASHBOARDS
from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from support.gateway.coalescing_gateway import run_init
from support.identity.issuer import Issuer
from support.known_metrics import LABELS
from support.process.prometheus import (
    PROGRAM,
    Prometheus,
    running_prometheus,
    textfile_collector,
)
from support.process.stack import PATIENCE, Gateway, RunningBroker, RunningRedis, free_port
from support.promql import selectors
from support.scenarios.replay_world import Two
from support.scenarios.scraped_world import (
    JobFiles,
    Traffic,
    config,
    spooling_config,
    topics,
)

pytestmark = [  # not `kafka`, which is never skipped under CI: Prometheus may not be there
    pytest.mark.redis,
    pytest.mark.timeout(600),
    pytest.mark.skipif(PROGRAM is None, reason="no prometheus (Debian: prometheus)"),
]

# What finds nothing here, and what it would take.
SILENT_HERE = {
    "headgate_certificate_expiry_timestamp_seconds": "TLS, as in test_certificates.py",
    "headgate_coalescer_restarts_total": "a coalescer whose transaction Kafka refuses",
    "headgate_producer_limited_total": "a producer above its share of the events in flight",
    "headgate_spool_repeated_total": "a drain that ends without Kafka's answer",
    "headgate_spool_aside_events": "spooled events that Kafka refuses for good",
    "headgate_spool_aside_total": "spooled events that Kafka refuses for good",
    "headgate_tls_last_reload_successful": "TLS, as in test_certificates.py",
    "headgate_trace_spans_total": "a collector, as in test_tracing.py",
    "headgate_unexplained_bytes_per_second": "a rogue reader, for minutes",
}


def with_all(text: str) -> str:
    """Choose `All` for each variable."""
    return re.sub(r'"\$\w+"', '".*"', text)


def queries() -> dict[str, str]:
    """Each query of the dashboards, with `All` for each variable; and where it is."""
    found = {}
    for file in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", ()):
                expr = with_all(target["expr"]).replace("$__rate_interval", "1m")
                found[expr] = f"{file.stem}: {panel['title']}"
    return found


def variables() -> set[tuple[str, str]]:
    """(metric, label) of each choice that the dashboards offer."""
    boards = [json.loads(file.read_text()) for file in DASHBOARDS.glob("*.json")]
    asked = [one["query"]["query"] for each in boards for one in each["templating"]["list"][1:]]
    return {
        (metric, label)
        for text in map(with_all, asked)
        for metric, label in [text.removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)]
    }


class World(NamedTuple):
    """What is scraped, who scrapes it, and what can be made to fail.

    left: the queries that have found nothing yet, and where they are.
    """

    prometheus: Prometheus
    traffic: Traffic
    files: JobFiles
    kafka: RunningBroker
    redis: RunningRedis
    topic: str
    left: dict[str, str]

    def look(self) -> None:
        """Ask what has had no answer yet."""
        for expr in [*self.left]:
            if self.prometheus.query(expr):
                del self.left[expr]

    def until(self, is_enough: Callable[[], bool], act: Callable[[], None]) -> None:
        """Act and look until it is."""
        end = time.monotonic() + 60 * PATIENCE
        while not is_enough():
            assert time.monotonic() < end, (self.traffic.seen, self.left)
            act()
            self.look()

    def has_seen(self, *ends: str) -> bool:
        """Whether requests have ended in all of these ways."""
        return set(ends) <= self.traffic.seen

    def has_found(self, start: str) -> bool:
        """Whether every query of metrics whose name begins so has had an answer."""
        return not any(one.name.startswith(start) for e in self.left for one in selectors(e))

    def everything(self) -> None:
        """Some events of each kind, and what the jobs write."""
        self.traffic.round()
        self.files.write()

    def commit(self, *offsets: int) -> None:
        """As a consumer that goes back."""
        consumer = Consumer({"bootstrap.servers": self.kafka.bootstrap, "group.id": self.topic})
        for offset in offsets:
            place = TopicPartition(self.topic, 0, offset)
            consumer.commit(offsets=[place], asynchronous=False)
        consumer.close()


@pytest.fixture
def world(
    two: Two,
    topic_name: str,
    tmp_path: Path,
    start_redis: Callable[..., RunningRedis],
    start_gateway: Callable[..., Gateway],
) -> Iterator[World]:
    prefix, port = topic_name[-20:].strip("-"), free_port()
    for topic in topics(prefix):
        two.ingest.create_topic(topic, 2)
    redis, issuer = start_redis(), Issuer()
    issuer.add("key")
    gateway = start_gateway(config(two, redis.url, prefix), "--workers", "2", wait=False)
    spooling = start_gateway(spooling_config(two, prefix, tmp_path, issuer), wait=False)
    assert run_init(gateway.config).returncode == 0
    watched = {
        "HEADGATE_MONITOR__PORT": str(port),
        "HEADGATE_MONITOR__INTERVAL_MS": "500",
        "HEADGATE_MONITOR__PATIENCE_MS": "2000",
        "HEADGATE_MONITOR__STATE_FILE": str(tmp_path / "state.json"),
    }
    command = [sys.executable, "-m", "headgate", "monitor", "--config", str(gateway.config)]
    with ExitStack() as ending:
        environment = {**os.environ, **watched}
        monitor = Child("monitor", command, tmp_path / "monitor.log", environment=environment)
        ending.callback(monitor.kill)
        jobs = tmp_path / "jobs"
        jobs.mkdir()
        files = ending.enter_context(textfile_collector(jobs))
        gateways = [urlsplit(one.management_url).netloc for one in (gateway, spooling)]
        monitored = [f"{LOOPBACK}:{port}"]
        scraped = {"headgate": gateways, "headgate-monitor": monitored, "node": [files]}
        prometheus = ending.enter_context(running_prometheus(tmp_path / "prometheus", scraped))
        gateway.wait()
        spooling.wait()
        traffic = Traffic(gateway, spooling, prefix, issuer.token("key", client_id="shop"))
        left = {expr: place for expr, place in queries().items() if not is_excused(expr)}
        topic = f"{prefix}-orders"
        yield World(prometheus, traffic, JobFiles(jobs), two.ingest, redis, topic, left)


@pytest.fixture
def resumed(two: Two) -> Iterator[None]:
    """The next test finds the broker answering."""
    yield
    two.ingest.resume()
    two.ingest.wait()


def is_excused(expr: str) -> bool:
    return any(one.name in SILENT_HERE for one in selectors(expr))


def test_every_query_has_an_answer(world: World, resumed: None) -> None:
    world.everything()
    world.commit(2, 1)
    world.kafka.pause()
    ends = ("spooled", "unknown", "kafka_unavailable")
    waiting = ("headgate_spool_events", "headgate_spool_bytes", "headgate_spool_oldest_seconds")
    world.until(
        lambda: world.has_seen(*ends) and all(map(world.has_found, waiting)),
        world.traffic.ask_kafka,
    )
    world.kafka.resume()
    world.kafka.wait()
    world.redis.pause()
    bypassed = ("headgate_suppression_bypassed_total", "headgate_identity_bypassed_total")
    world.until(
        lambda: world.has_seen("redis_unavailable") and all(map(world.has_found, bypassed)),
        world.traffic.ask_redis,
    )
    world.redis.resume()
    world.until(lambda: not world.left, world.everything)
    excused = {expr for expr in queries() if is_excused(expr)}
    for expr in excused:
        world.prometheus.query(expr)  # it can be asked
    assert {one.name for expr in excused for one in selectors(expr)} == set(SILENT_HERE)
    _choices_have_values(world)
    _labels_are_those_declared(world)
    rules = world.prometheus.rules()
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    assert {target["health"] for target in world.prometheus.targets()} == {"up"}


def _choices_have_values(world: World) -> None:
    for metric, label in variables():
        assert {one.get(label) for one in world.prometheus.series(metric)} - {None}, metric


def _labels_are_those_declared(world: World) -> None:
    """An empty label is none to Prometheus: `reason` of an event that ended well."""
    for name in {*LABELS} - {"ALERTS"}:
        for series in world.prometheus.series(name):
            labels = set(series) - {"__name__"}
            assert labels <= LABELS[name], name
            assert LABELS[name] - labels <= {"reason"}, name
