"""Assembly of the pipeline: the path of an event from stage to stage.

    gate      does the topic take an event now, and by which rules?      every front asks
    decode    bodies become events                                       in C or in Python
    admit     in-flight budget, quotas
    records   key, partition, timestamp, size, lane
    identify  event ids that were seen before                            only if configured
    validate  schema, canonical form                                     only if configured
    turn      events of one turn of the loop go on together, by topic
    reserve   is the event unchanged? Redis knows                        only if configured
    produce   too large: the topic's oversize policy; into its lane, and to Kafka
    complete  outcomes become responses, metrics, facts

Each stage gets its dependencies and its next stage when it is built, so the last stage is built
first. Two edges lead back. Lane reports go to stages that need the lanes (`Reports`). The records
of an oversize event enter again at the stages that reserve and produce (`Produce.use`).

If topics spool, `spool.spool` stands between stages and lanes, and acts as each to the other.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from headgate.audits.facts import Facts
from headgate.backends.base import Deliveries, Identities, Lanes, Suppression, Verdicts
from headgate.config import Settings
from headgate.config.backend_settings import RedisSettings
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.store import IdentityOptions, RedisIdentityStore
from headgate.ingest.admission import Admission
from headgate.ingest.clock import ClockWatch
from headgate.ingest.complete import Complete, Reports
from headgate.ingest.gate import Admit, Expire, Gate, Quotas
from headgate.ingest.path import Identify, Pipeline, Reserve, ReserveVerdicts
from headgate.ingest.records import BuildRecords, Validate
from headgate.ingest.turn import Produce, Turn
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Meter
from headgate.model.event import EventIds
from headgate.model.suppression import Scope
from headgate.offload.helper_process import HelperProcess
from headgate.oversize.choose import Tools
from headgate.oversize.stage import OversizeStage
from headgate.spool.service import SpoolService
from headgate.suppression.options import SuppressOptions
from headgate.suppression.sharded import AnySuppressor, ShardedSuppressor
from headgate.suppression.store import RedisStore
from headgate.suppression.suppressor import Suppressor, memberships
from headgate.tracing.spans import Traces


class RequestLimits(NamedTuple):
    """Limits of one request.

    Args:
        batch_max_events: Maximum number of events.
        request_timeout_ms: Time until the deadline's response, in milliseconds.
    """

    batch_max_events: int
    request_timeout_ms: int


class PipelineParts(NamedTuple):
    """The parts of a pipeline.

    Args:
        schedule: Calls its argument at the end of this turn of the event loop.
        lanes: Returns the lanes for their listener.
        suppression: Returns the suppression for its listener.
        identities: State of event ids; None without Redis.
        tools: Tools for oversize events.
        clock_ms: Milliseconds since 1970.
        facts: Log of facts, if any topic has them.
        spool: The spool, if any topic spools.
        traces: Open traces, if requests are traced.
    """

    schedule: Callable[[Callable[[], None]], object]
    gate: Gate
    admission: Admission
    quotas: Quotas
    ids: EventIds
    limits: RequestLimits
    clock_ms: Callable[[], int]
    clock: ClockWatch
    lanes: Callable[[Deliveries], Lanes]
    suppression: Callable[[Verdicts], Suppression]
    identities: Identities | None
    helper: HelperProcess
    tools: Tools
    meter: Meter
    facts: Facts | None = None
    spool: SpoolService | None = None
    traces: Traces | None = None


class Built(NamedTuple):
    """A pipeline, and its oversize stage, to be closed at the end."""

    pipeline: Pipeline
    oversize: OversizeStage


def build_pipeline(parts: PipelineParts) -> Built:
    """Assemble the stages; see the module."""
    meter, limits = parts.meter, parts.limits
    complete = Complete(parts.admission, meter, parts.identities, parts.facts)
    reports = Reports(parts.clock, complete, parts.traces)
    spool = parts.spool
    lanes = parts.lanes(reports) if spool is None else spool.between(reports, parts.lanes)
    produce = Produce(parts.ids, lanes, parts.gate.state_of)
    suppression = parts.suppression(ReserveVerdicts(complete, produce))
    scope_of = parts.gate.scope_of
    is_behind = None
    if spool is not None:
        spool.announce_with(suppression, scope_of)
        is_behind = spool.backlogs.is_behind
    reserve = Reserve(suppression, scope_of, produce, is_behind)
    validate = Validate(reserve, complete.refused, parts.helper, meter.canonical_fallback)
    turn = Turn(parts.schedule, reserve.take, complete.refused)
    identify = Identify(parts.identities, validate, turn, complete)
    records = BuildRecords(lanes, parts.clock_ms)
    admit = Admit(parts.admission, parts.quotas, limits.batch_max_events)
    expire = Expire(
        turn, validate, produce, suppression, complete, parts.ids, limits.request_timeout_ms
    )

    oversize = OversizeStage(
        lanes,
        reserve,
        produce,
        suppression,
        complete,
        reports,
        parts.tools,
        meter.oversized,
        is_behind,
    )
    produce.use(oversize)
    reports.pass_on_to(suppression, oversize)

    stages = (
        parts.admission,
        parts.gate,
        admit,
        records,
        identify,
        validate,
        turn,
        complete,
        expire,
    )
    return Built(Pipeline(*stages, limits.batch_max_events), oversize)


# ---- connections to Redis


def suppressor_of(
    settings: Settings,
    verdicts: Verdicts,
    meter: Meter,
    topics: KafkaTopics,
    *,
    fences_by_writing: bool = True,
) -> AnySuppressor | None:
    """Return a client of the suppression state on all Redis servers; None without Redis."""
    redis = settings.redis
    servers = redis.servers
    if not servers:
        return None
    longest = max(cluster.delivery_timeout_ms for cluster in settings.clusters.values())
    options = SuppressOptions(
        token_ttl_ms=2 * longest,
        quarantine_ms=redis.quarantine_ms,
        max_suppress_age_ms=redis.max_suppress_age_ms,
        timeout_ms=redis.timeout_ms,
        fences_by_writing=fences_by_writing,
        touches_opened=len(servers) > 1,
    )
    members = memberships(list(servers), options, redis.namespace)
    own = (verdicts, options, time.monotonic, os.urandom, meter, partial(_grow, topics))
    stores = [RedisStore(address, options.timeout_ms) for address in servers.values()]
    if len(stores) == 1:
        return Suppressor(stores[0], *own, members[0])
    parts = {
        name: Suppressor(store, *own, member, f"suppression at {name}")
        for name, store, member in zip(servers, stores, members, strict=True)
    }
    timeout_s = options.timeout_ms / 1000
    return ShardedSuppressor(parts, members[0].agreement, time.monotonic, timeout_s)


def _grow(topics: KafkaTopics, scope: Scope, partitions: int) -> None:
    topics.grown(scope.topic, scope.topic_id, partitions)


def identity_of(redis: RedisSettings, meter: Meter) -> IdentityClient | ShardedIdentity | None:
    """Return a client of the state of Idempotency-Keys and event ids; None without Redis."""
    options = IdentityOptions(claim_ms=redis.claim_ms, timeout_ms=redis.timeout_ms)
    clients = {
        name: IdentityClient(
            RedisIdentityStore(address, redis.timeout_ms),
            options,
            time.monotonic,
            os.urandom,
            meter,
        )
        for name, address in redis.servers.items()
    }
    if len(clients) > 1:
        return ShardedIdentity(clients)
    return next(iter(clients.values()), None)
