"""The connection to Redis that knows Idempotency-Keys and event ids."""

import os
import time

from headgate.backends.redis.identity import RedisIdentityStore
from headgate.config.backend_settings import RedisSettings
from headgate.idempotency.identity_client import IdentityClient
from headgate.idempotency.options import IdentityOptions
from headgate.stats.meter import Meter


def identity_of(redis: RedisSettings, meter: Meter) -> IdentityClient | None:
    """None where there is no Redis."""
    if redis.address is None:
        return None
    store = RedisIdentityStore(redis.address, redis.timeout_ms)
    options = IdentityOptions(claim_ms=redis.claim_ms, timeout_ms=redis.timeout_ms)
    return IdentityClient(store, options, time.monotonic, os.urandom, meter)
