"""The spool of a process, and the drain of a spool without its gateway."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from headgate.backends.base import Deliveries
from headgate.config import Settings
from headgate.ingest.admission import Admission
from headgate.ingest.clock import ClockWatch, now_ms
from headgate.ingest.complete import Complete, Reports
from headgate.ingest.gate import Gate
from headgate.ingest.routes import Compiler, Routes
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import cluster_options, lane_limits
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Labels, Meter
from headgate.model.internal_topics import HELD_PREFIX
from headgate.model.outcome import Failure, Refused
from headgate.model.policy import PolicyTable
from headgate.model.publish import Publish
from headgate.model.suppression import Scope
from headgate.spool.database import JournalError
from headgate.spool.disk import SpoolOptions
from headgate.spool.service import KnownTopics, SpoolService
from headgate.suppression.sharded import Unsuppressed
from headgate.tracing.spans import LaterSpans
from headgate.wiring.coalescing import cluster_of
from headgate.wiring.pipeline import suppressor_of


def spool_of(
    settings: Settings,
    topics: KnownTopics,
    policies: Callable[[], PolicyTable],
    clock_ms: Callable[[], int],
    meter: Meter,
    spans: LaterSpans | None = None,
) -> SpoolService | None:
    """Return the spool of a process; None if the configuration has none.

    Args:
        settings: The configuration.
        topics: The topics of the clusters.
        policies: Returns the active policies.
        clock_ms: Milliseconds since 1970.
        meter: The metrics.
        spans: Spans of later steps, if requests are traced.
    """
    spool = settings.spool
    if spool.path is None:
        return None

    def after_s(topic: str) -> float | None:
        if topic.startswith(HELD_PREFIX):  # a pattern may match it, but held topics cannot spool
            return None
        policy = policies().match(topic)
        return policy.spool_after_ms / 1000 if policy is not None and policy.spool else None

    options = SpoolOptions(
        Path(spool.path), spool.max_bytes, spool.max_age_ms, spool.drain_events_per_s
    )
    return SpoolService(options, topics, after_s, clock_ms, meter, spans)


def spooling_to(cluster: str, policies: PolicyTable) -> bool:
    """Return whether any topic of the cluster spools."""
    return any(policy.spool and policy.cluster == cluster for policy in policies.policies)


# ---- the drain of a spool without its gateway, for one that will not come back

_STEP_S = 0.2
_TELL_S = 5.0


class _Nobody:
    """A listener for verdicts, which a drain never requests: spooled events only get announced."""

    def publish(self, publish: Publish) -> None:
        raise AssertionError(publish)

    def unchanged(self, publish: Publish, offset: int) -> None:
        raise AssertionError(publish, offset)

    def refused(self, publish: Publish, failure: Failure) -> None:
        raise AssertionError(publish, failure)


async def drain(
    settings: Settings, folder: Path, timeout_s: float, say: Callable[[str], None]
) -> int:
    """Publish all events in the folder; return the number of remaining events.

    Args:
        settings: The configuration.
        folder: The spool's directory.
        timeout_s: Time limit, in seconds.
        say: Takes lines about the progress.

    Raises:
        JournalError: The folder cannot be used.
    """
    settings = replace(settings, spool=replace(settings.spool, path=str(folder)))
    ingest = {
        name: cluster for name, cluster in settings.clusters.items() if cluster.tier == "ingest"
    }
    options = {name: cluster_options(cluster) for name, cluster in ingest.items()}
    topics = KafkaTopics(options, min(cluster.metadata_refresh_ms for cluster in ingest.values()))
    policies = PolicyTable(settings.topics)
    meter = Meter(Labels({}, lambda topic: topics.get(topic) is not None), time.time)
    http = settings.http
    compiler = Compiler(http.json_max_depth, settings.redis.namespace, http.key_max_bytes)
    gate = Gate(Routes(policies, topics, compiler))
    service = spool_of(settings, topics, lambda: policies, now_ms, meter)
    assert service is not None
    reports = Reports(ClockWatch(topics.get, time.monotonic), Complete(Admission(0, 0), meter))
    limits = {name: lane_limits(cluster) for name, cluster in ingest.items()}
    lanes: KafkaLanes | None = None

    def open_lanes(deliveries: Deliveries) -> KafkaLanes:
        nonlocal lanes
        lanes = KafkaLanes(options, topics, deliveries, limits, meter)
        return lanes

    service.between(reports, open_lanes)
    assert lanes is not None
    suppressor = suppressor_of(settings, _Nobody(), meter, topics)
    suppression = suppressor or Unsuppressed(_Nobody())
    compiler.listener = suppressor
    reports.pass_on_to(suppression, None)
    service.announce_with(suppression, partial(_scope_of, gate))
    async with AsyncExitStack() as ending:
        ending.push_async_callback(topics.close)
        await topics.start(lambda topic: cluster_of(topic, policies))
        ending.push_async_callback(service.close)
        if suppressor is not None:
            ending.push_async_callback(suppressor.close)
            await suppressor.start()
        ending.push_async_callback(lanes.close)
        await lanes.start()
        await service.start(partial(_is_healthy, lanes))
        state = service.dependency()
        if not state.ok and not service.is_open:
            raise JournalError(state.detail)
        return await _until_empty(service, topics, timeout_s, say)


def _scope_of(gate: Gate, topic: str) -> Scope | None:
    try:
        return gate.rules(topic).scope
    except Refused:
        return None  # its topic is not known (yet)


def _is_healthy(lanes: KafkaLanes, cluster: str) -> bool:
    return lanes.health(cluster)[0]


async def _until_empty(
    service: SpoolService, topics: KafkaTopics, timeout_s: float, say: Callable[[str], None]
) -> int:
    until_s, told_s = time.monotonic() + timeout_s, 0.0
    while True:
        events, size, _ = service.totals()
        now_s = time.monotonic()
        if not events or now_s >= until_s:
            return events
        if now_s - told_s >= _TELL_S:
            unknown = [name for name in service.by_topic() if topics.get(name) is None]
            why = f", Kafka does not know {', '.join(unknown)}" if unknown else ""
            say(f"left    {events:,} events ({size:,} bytes){why}")
            told_s = now_s
        await asyncio.sleep(_STEP_S)
