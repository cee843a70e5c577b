"""What an independent reader finds of the suppression namespaces in Redis."""

from __future__ import annotations

import struct

from redis import Redis


def out_of_quarantine(redis: Redis, prefix: str, quarantine_ms: float) -> int:
    """How many namespaces were born so long ago that their events may be suppressed."""
    seconds, microseconds = redis.time()  # type: ignore[misc]
    now = seconds * 1000 + microseconds / 1000
    values = [redis.get(name) for name in redis.scan_iter(f"{prefix}:*:inc")]
    # nonce, Redis' identity, born, renewed, partition count, key rule
    born = [struct.unpack(">16s16sddI8s", value)[2] for value in values if value]  # type: ignore[arg-type]
    return sum(now > one + quarantine_ms for one in born)
