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
from headgate.config.settings import TracingSettings
from headgate.ingest.admission import Admission
from headgate.ingest.complete import ClockWatch, Complete, Reports, now_ms
from headgate.ingest.gate import Gate, Routes
from headgate.kafka.lanes import KafkaLanes
from headgate.kafka.options import lane_limits
from headgate.kafka.topics import KafkaTopics
from headgate.model.internal_topics import HELD_PREFIX
from headgate.model.outcome import Failure, Refused
from headgate.model.policy import PolicyTable
from headgate.model.publish import Publish
from headgate.model.suppression import Scope
from headgate.model.text import counted
from headgate.spool.backlog import Backlogs
from headgate.spool.database import JournalError
from headgate.spool.disk import SpoolOptions
from headgate.spool.service import SpoolService
from headgate.suppression.sharded import Unsuppressed
from headgate.wiring.coalescing import cluster_of
from headgate.wiring.parts import Parts, suppressor_of
from headgate.wiring.pipeline import OpenLanes


def spool_of(
    parts: Parts,
    folder: Path,
    policies: Callable[[], PolicyTable],
    backlogs: Backlogs,
    reports: Reports,
    open_lanes: OpenLanes,
) -> SpoolService:
    """Return the spool of a process, with the lanes behind it.

    Args:
        parts: The parts of the process.
        folder: Directory of the spool.
        policies: Returns the active policies.
        backlogs: Backlogs of all lanes.
        reports: Receiver of results.
        open_lanes: Makes the lanes, which report to the listener that it gets.
    """
    spool = parts.settings.spool

    def after_s(topic: str) -> float | None:
        if topic.startswith(HELD_PREFIX):  # a pattern may match it, but held topics cannot spool
            return None
        policy = policies().match(topic)
        return policy.spool_after_ms / 1000 if policy is not None and policy.spool else None

    options = SpoolOptions(folder, spool.max_bytes, spool.max_age_ms, spool.drain_events_per_s)
    return SpoolService(
        options,
        backlogs,
        parts.topics,
        after_s,
        now_ms,
        parts.meter,
        reports,
        open_lanes,
        parts.tracing.later,
    )


# ---- the drain of a spool without its gateway, for one that will not come back

_STEP_S = 0.2
_SAY_S = 5.0  # time between two lines about the progress


class _NoVerdicts:
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
    # nothing sends spans here
    parts = Parts.from_settings(replace(settings, tracing=TracingSettings()))
    topics, policies = parts.topics, PolicyTable(settings.topics)
    gate = Gate(Routes(policies, topics, parts.compiler(lambda: suppressor)))
    complete = Complete(Admission(0, 0), parts.meter)
    reports = Reports(ClockWatch(topics.get, time.monotonic), complete, lambda: suppression)
    limits = {name: lane_limits(cluster) for name, cluster in parts.ingest.items()}
    suppressor = suppressor_of(parts, _NoVerdicts())
    suppression = suppressor or Unsuppressed(_NoVerdicts())

    def open_lanes(listener: Deliveries) -> KafkaLanes:
        return KafkaLanes(parts.clusters, topics, listener, limits, parts.meter)

    backlogs = Backlogs(lambda: suppression, partial(_scope_of, gate))
    service = spool_of(parts, folder, lambda: policies, backlogs, reports, open_lanes)
    lanes = service.spool.lanes
    assert isinstance(lanes, KafkaLanes)
    async with AsyncExitStack() as ending:
        ending.push_async_callback(topics.close)
        await topics.start(lambda topic: cluster_of(topic, policies))
        ending.push_async_callback(service.close)
        if suppressor is not None:
            ending.push_async_callback(suppressor.close)
            await suppressor.start()
        ending.push_async_callback(lanes.close)
        await lanes.start()
        await service.start(lambda cluster: lanes.health(cluster)[0])
        state = service.dependency()
        if not state.ok and not service.is_open:
            raise JournalError(state.detail)
        return await _until_empty(service, topics, timeout_s, say)


def _scope_of(gate: Gate, topic: str) -> Scope | None:
    try:
        return gate.find_route(topic).scope
    except Refused:
        return None  # its topic is not known (yet)


async def _until_empty(
    service: SpoolService, topics: KafkaTopics, timeout_s: float, say: Callable[[str], None]
) -> int:
    until_s, said_s = time.monotonic() + timeout_s, 0.0
    while True:
        events, size, _ = service.totals()
        now_s = time.monotonic()
        if not events or now_s >= until_s:
            return events
        if now_s - said_s >= _SAY_S:
            unknown = [name for name in service.by_topic() if topics.get(name) is None]
            why = f", Kafka does not know {', '.join(unknown)}" if unknown else ""
            say(f"left    {counted(events, 'event')} ({size:,} bytes){why}")
            said_s = now_s
        await asyncio.sleep(_STEP_S)
