"""Suppression as the settings ask: on one Redis server, on several, or none."""

import os
import time
from functools import partial

from headgate.backends.base import Verdicts
from headgate.backends.kafka.topics import KafkaTopics
from headgate.config import Settings
from headgate.core.suppression import Scope
from headgate.suppression.options import SuppressionMeter, SuppressOptions
from headgate.suppression.sharded import AnySuppressor, ShardedSuppressor
from headgate.suppression.store import RedisStore
from headgate.suppression.suppressor import Suppressor, memberships


def suppressor_of(
    settings: Settings,
    verdicts: Verdicts,
    meter: SuppressionMeter,
    topics: KafkaTopics,
    *,
    fences_by_writing: bool = True,
) -> AnySuppressor | None:
    """Return a connection to the suppression state; None without Redis."""
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
