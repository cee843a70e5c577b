"""The spool of a process, if its configuration has one."""

from collections.abc import Callable
from pathlib import Path

from headgate.config import Settings
from headgate.core.coalescing import HELD_PREFIX
from headgate.core.topics.policy import PolicyTable
from headgate.spool.disk import SpoolMeter, SpoolOptions
from headgate.spool.service import KnownTopics, SpoolService
from headgate.tracing.spans import LaterSpans


def spool_of(
    settings: Settings,
    topics: KnownTopics,
    policies: Callable[[], PolicyTable],
    clock_ms: Callable[[], int],
    meter: SpoolMeter,
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
