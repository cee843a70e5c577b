"""The gateway's reasons, for the gateway in memory."""

from collections.abc import Mapping

# Each reason of docs/reference/reasons.md that a sender may get: its status, and whether the same
# event may succeed later.
REASONS: Mapping[str, tuple[int, bool]] = {
    "malformed": (400, False),
    "unauthenticated": (401, False),
    "forbidden": (403, False),
    "unknown_topic": (404, False),
    "request_timeout": (408, True),
    "idempotency_conflict": (409, True),
    "too_large": (413, False),
    "unsupported_encoding": (415, False),
    "idempotency_mismatch": (422, False),
    "missing_key": (422, False),
    "invalid_key": (422, False),
    "schema_violation": (422, False),
    "timestamp_out_of_range": (422, False),
    "too_many_events": (422, False),
    "quota_exceeded": (429, True),
    "too_many_attempts": (429, True),
    "headers_too_large": (431, False),
    "internal": (500, True),
    "broker_refused": (502, False),
    "overloaded": (503, True),
    "draining": (503, True),
    "kafka_unavailable": (503, True),
    "redis_unavailable": (503, True),
    "issuer_unavailable": (503, True),
    "blobs_unavailable": (503, True),
    "clock_wrong": (503, True),
    "unknown": (504, True),
}
