"""Connections to the Redis servers of Idempotency-Keys and event ids."""

import os
import time

from headgate.config.backend_settings import RedisSettings
from headgate.idempotency.client import IdentityClient, ShardedIdentity
from headgate.idempotency.store import IdentityOptions, RedisIdentityStore
from headgate.metrics.meter import Meter


def identity_of(redis: RedisSettings, meter: Meter) -> IdentityClient | ShardedIdentity | None:
    """Return a client of the identity state; None without Redis."""
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
