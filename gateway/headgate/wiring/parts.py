"""The parts that every process with connections to the ingest clusters is built from."""

import os
import platform
import random
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from headgate import __version__
from headgate.backends.base import Verdicts
from headgate.backends.owned import OwnedTasks
from headgate.config import Settings
from headgate.config.backend_settings import ClusterSettings
from headgate.config.settings import TracingSettings
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.store import IdentityOptions, RedisIdentityStore
from headgate.ingest.gate import Compiler, ScopeListener
from headgate.kafka.options import ClusterOptions, cluster_options
from headgate.kafka.topics import KafkaTopics
from headgate.metrics.meter import Labels, Meter
from headgate.model.suppression import Scope
from headgate.offload.helper_process import HelperProcess
from headgate.suppression.options import SuppressOptions
from headgate.suppression.sharded import AnySuppressor, ShardedSuppressor
from headgate.suppression.store import RedisStore
from headgate.suppression.suppressor import Suppressor, memberships
from headgate.tracing.exporter import Collector, Exporter
from headgate.tracing.spans import LaterSpans, Traces

# ---- tracing

_END_S = 1.0  # time for the sending task to end
_SPANS = 3  # maximum of a request


def _nothing_to_start(_closing: AsyncExitStack) -> None:
    pass


class Tracing(NamedTuple):
    """The tracing of a process.

    Without a collector there are no traces, and each stage finds None in a request's slot `trace`.

    Attributes:
        traces: Open traces; None without tracing.
        later: Spans of later steps, in the spool and the coalescer.
        start: Begins to send spans; takes the stack that ends it.
    """

    traces: Traces | None = None
    later: LaterSpans | None = None
    start: Callable[[AsyncExitStack], None] = _nothing_to_start


def tracing_of(settings: TracingSettings, meter: Meter) -> Tracing:
    """Return a worker's tracing; the meter counts spans."""
    if settings.endpoint is None:
        return Tracing()
    timeout_s = settings.timeout_ms / 1000
    collector = Collector(settings.endpoint, settings.header_pairs, timeout_s)
    exporter = Exporter(_resource(settings.service_name), collector.post, meter.spans)
    left_out = partial(meter.spans, "dropped", _SPANS)
    traces = Traces(
        settings.sample_one_in, random.random, _random_hex, time.time_ns, exporter.take, left_out
    )

    def start(closing: AsyncExitStack) -> None:
        tasks = OwnedTasks()
        closing.push_async_callback(collector.close)
        closing.push_async_callback(exporter.close)
        closing.push_async_callback(tasks.end, _END_S)
        tasks.keep(exporter.run, "export of spans")

    return Tracing(traces, LaterSpans(_random_hex, time.time_ns, exporter.take), start)


def _random_hex(digits: int) -> str:
    return os.urandom(digits // 2).hex()


def _resource(service_name: str) -> Mapping[str, str | int]:
    """Return the source of the spans as OpenTelemetry attributes."""
    return {
        "service.name": service_name,
        "service.version": __version__,
        "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
        "host.name": socket.gethostname(),
        "process.pid": os.getpid(),
        "process.runtime.name": platform.python_implementation().lower(),
        "telemetry.sdk.name": "headgate",
        "telemetry.sdk.language": "python",
        "telemetry.sdk.version": __version__,
    }


# ---- the parts


@dataclass(frozen=True, slots=True)
class Parts:
    """The common parts of a process.

    Attributes:
        settings: The configuration at the start; a reload does not change it.
        ingest: Settings of the clusters of the ingest tier, by name.
        clusters: Options of these clusters, by name.
        topics: The topics of these clusters.
        meter: The metrics.
        tracing: The tracing.
        helper: The helper process; it starts when it is first needed.
    """

    settings: Settings
    ingest: Mapping[str, ClusterSettings]
    clusters: Mapping[str, ClusterOptions]
    topics: KafkaTopics
    meter: Meter
    tracing: Tracing
    helper: HelperProcess

    @classmethod
    def from_settings(cls, settings: Settings) -> "Parts":
        """Return new parts; none of them is started."""
        ingest = {
            name: cluster for name, cluster in settings.clusters.items() if cluster.tier == "ingest"
        }
        clusters = {name: cluster_options(cluster) for name, cluster in ingest.items()}
        refresh_ms = min(cluster.metadata_refresh_ms for cluster in ingest.values())
        topics = KafkaTopics(clusters, refresh_ms)
        meter = Meter(labels(settings, topics), time.time)
        tracing = tracing_of(settings.tracing, meter)
        return cls(settings, ingest, clusters, topics, meter, tracing, HelperProcess())

    def compiler(self, listener: Callable[[], ScopeListener | None]) -> Compiler:
        """Return a compiler of routes.

        Args:
            listener: Returns the listener for scopes; None without Redis.
        """
        http, namespace = self.settings.http, self.settings.redis.namespace
        return Compiler(http.json_max_depth, namespace, http.key_max_bytes, listener)


def labels(settings: Settings, topics: KafkaTopics) -> Labels:
    """Return the producers and topics that metrics name."""
    return Labels(settings.producers, lambda topic: topics.get(topic) is not None)


# ---- connections to Redis


def suppressor_of(
    parts: Parts,
    verdicts: Verdicts,
    *,
    fences_by_writing: bool = True,
    name: str = "suppression",
) -> AnySuppressor | None:
    """Return a client of the suppression state on all Redis servers; None without Redis.

    Args:
        parts: The parts of the process.
        verdicts: Receives the verdicts on events.
        fences_by_writing: As in `SuppressOptions`.
        name: Name of the client in the log.
    """
    settings, redis = parts.settings, parts.settings.redis
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
    topics = parts.topics

    def grow(scope: Scope, partitions: int) -> None:
        topics.grown(scope.topic, scope.topic_id, partitions)

    connect = partial(
        Suppressor,
        verdicts=verdicts,
        options=options,
        clock=time.monotonic,
        random_bytes=os.urandom,
        meter=parts.meter,
        grow=grow,
    )
    stores = [RedisStore(address, options.timeout_ms) for address in servers.values()]
    if len(stores) == 1:
        return connect(stores[0], membership=members[0], name=name)
    clients = {
        server: connect(store, membership=member, name=f"{name} at {server}")
        for server, store, member in zip(servers, stores, members, strict=True)
    }
    timeout_s = options.timeout_ms / 1000
    return ShardedSuppressor(clients, members[0].agreement, time.monotonic, timeout_s)


def identity_of(parts: Parts) -> IdentityClient | ShardedIdentity | None:
    """Return a client of the state of Idempotency-Keys and event ids; None without Redis."""
    redis = parts.settings.redis
    options = IdentityOptions(claim_ms=redis.claim_ms, timeout_ms=redis.timeout_ms)
    clients = {
        name: IdentityClient(
            RedisIdentityStore(address, redis.timeout_ms),
            options,
            time.monotonic,
            os.urandom,
            parts.meter,
        )
        for name, address in redis.servers.items()
    }
    if len(clients) > 1:
        return ShardedIdentity(clients)
    return next(iter(clients.values()), None)
