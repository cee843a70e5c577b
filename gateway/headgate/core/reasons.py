"""Reasons for the failure of an event or a request.

A `Reason` is wire text, metric label and page name (`/problems/<reason>`). Only the table below
maps a reason to its HTTP status.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Reason for the failure of an event or a request."""

    MALFORMED = "malformed"
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    UNKNOWN_TOPIC = "unknown_topic"
    UNKNOWN_PARTITION = "unknown_partition"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    REQUEST_TIMEOUT = "request_timeout"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    REPLAY_FINISHED = "replay_finished"
    GROUP_ACTIVE = "group_active"
    TOO_LARGE = "too_large"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    IDEMPOTENCY_MISMATCH = "idempotency_mismatch"
    MISSING_KEY = "missing_key"
    INVALID_KEY = "invalid_key"
    SCHEMA_VIOLATION = "schema_violation"
    TIMESTAMP_OUT_OF_RANGE = "timestamp_out_of_range"
    TOO_MANY_EVENTS = "too_many_events"
    NEEDS_NATIVE_API = "needs_native_api"
    NOT_COVERED = "not_covered"
    QUOTA_EXCEEDED = "quota_exceeded"
    TOO_MANY_ATTEMPTS = "too_many_attempts"
    HEADERS_TOO_LARGE = "headers_too_large"
    INTERNAL = "internal"
    BROKER_REFUSED = "broker_refused"
    OVERLOADED = "overloaded"
    DRAINING = "draining"
    KAFKA_UNAVAILABLE = "kafka_unavailable"
    REDIS_UNAVAILABLE = "redis_unavailable"
    BLOBS_UNAVAILABLE = "blobs_unavailable"
    ISSUER_UNAVAILABLE = "issuer_unavailable"
    CLOCK_WRONG = "clock_wrong"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__


class Traits(NamedTuple):
    """A row of the reason table.

    Args:
        status: HTTP status of a request that failed for this reason alone.
        retryable: Whether the same event may succeed when it is sent again unchanged.
        log_level: A level name of `logging`. Mistakes of clients are no alarm.
        title: The title of the problem document.
        advice: The client's next step; the text of the problem page.
    """

    status: int
    retryable: bool
    log_level: str
    title: str
    advice: str


TRAITS: Mapping[Reason, Traits] = {
    Reason.MALFORMED: Traits(
        400,
        False,
        "INFO",
        "The request or event is malformed",
        "Fix the body. The same body will be refused again.",
    ),
    Reason.UNAUTHENTICATED: Traits(
        401,
        False,
        "INFO",
        "No valid credentials",
        "Send `Authorization: Bearer <token>` with a token that this gateway accepts.",
    ),
    Reason.FORBIDDEN: Traits(
        403,
        False,
        "INFO",
        "Not allowed",
        "Ask the operators for the right that `detail` names: a topic, a role or a web page's "
        "origin.",
    ),
    Reason.NOT_FOUND: Traits(
        404, False, "INFO", "No such page", "Check the path. /docs lists all paths."
    ),
    Reason.UNKNOWN_TOPIC: Traits(
        404,
        False,
        "INFO",
        "Unknown topic",
        "Check the name. The topic must match the configuration and exist in Kafka. The gateway "
        "finds a new topic within a second of the first request for it.",
    ),
    Reason.UNKNOWN_PARTITION: Traits(
        404,
        False,
        "INFO",
        "Unknown partition",
        "Let the key choose the partition, or send one that the topic has.",
    ),
    Reason.METHOD_NOT_ALLOWED: Traits(
        405, False, "INFO", "Method not allowed", "Use a method that the Allow header lists."
    ),
    Reason.REQUEST_TIMEOUT: Traits(
        408,
        True,
        "INFO",
        "The request did not arrive in time",
        "Send the whole body without pauses, then retry.",
    ),
    Reason.IDEMPOTENCY_CONFLICT: Traits(
        409,
        True,
        "INFO",
        "The same request or event is in progress",
        "Wait for Retry-After seconds, then retry. The response is the result of the first "
        "request.",
    ),
    Reason.REPLAY_FINISHED: Traits(
        409,
        False,
        "INFO",
        "The replay has ended",
        "A finished replay cannot be changed. Request a new one.",
    ),
    Reason.GROUP_ACTIVE: Traits(
        409,
        False,
        "INFO",
        "The group has members",
        "Stop the group's consumers, then retry. Offsets of a running group are not changed.",
    ),
    Reason.TOO_LARGE: Traits(
        413,
        False,
        "INFO",
        "Too large",
        "Make the event smaller. `largest_paths` lists its largest parts.",
    ),
    Reason.UNSUPPORTED_ENCODING: Traits(
        415,
        False,
        "INFO",
        "Unsupported content encoding or type",
        "Use gzip, deflate, zstd or no Content-Encoding, and a Content-Type that this path "
        "accepts.",
    ),
    Reason.IDEMPOTENCY_MISMATCH: Traits(
        422,
        False,
        "INFO",
        "The identity was used before with other content",
        "Use a new Idempotency-Key or event id for a new request or event.",
    ),
    Reason.MISSING_KEY: Traits(
        422,
        False,
        "INFO",
        "The event has no key",
        "Send the header Headgate-Key, or fill the field that the topic's key rule names.",
    ),
    Reason.INVALID_KEY: Traits(
        422,
        False,
        "INFO",
        "The key cannot be used",
        "A key is a string, an integer or a boolean, of at most `http.key_max_bytes` bytes.",
    ),
    Reason.SCHEMA_VIOLATION: Traits(
        422,
        False,
        "INFO",
        "The event does not fit the topic's schema",
        "Fix the places in `violations`. Each has its JSON Pointer.",
    ),
    Reason.TIMESTAMP_OUT_OF_RANGE: Traits(
        422,
        False,
        "INFO",
        "Timestamp out of range",
        "Send a time within the topic's retention and timestamp limits.",
    ),
    Reason.TOO_MANY_EVENTS: Traits(
        422, False, "INFO", "Too many events in one batch", "Send smaller batches."
    ),
    Reason.NEEDS_NATIVE_API: Traits(
        422,
        False,
        "INFO",
        "Not available through a compatible API",
        "Post to /v1/topics/{topic}/events. This topic coalesces, so a response has no offset.",
    ),
    Reason.NOT_COVERED: Traits(
        422,
        False,
        "INFO",
        "Not on the backfill tier",
        "Mirror the range first, or request a range that `/v1/coverage/{topic}` shows.",
    ),
    Reason.QUOTA_EXCEEDED: Traits(
        429, True, "INFO", "Quota exceeded", "Wait for Retry-After seconds, then retry."
    ),
    Reason.TOO_MANY_ATTEMPTS: Traits(
        429,
        True,
        "INFO",
        "Too many wrong credentials",
        "Nothing was written, and the token was not checked. Stop the client that sends wrong "
        "tokens "
        "from this address. A valid token is accepted after Retry-After seconds.",
    ),
    Reason.HEADERS_TOO_LARGE: Traits(
        431, False, "INFO", "Header fields too large", "Send fewer or shorter headers."
    ),
    Reason.INTERNAL: Traits(
        500,
        True,
        "ERROR",
        "Internal error",
        "Nothing was written. Retry, and report the request id to the operators.",
    ),
    Reason.BROKER_REFUSED: Traits(
        502,
        False,
        "ERROR",
        "Kafka refused the record",
        "Nothing was written. Ask the operators to check the topic's settings and permissions.",
    ),
    Reason.OVERLOADED: Traits(
        503,
        True,
        "WARNING",
        "Overloaded",
        "Nothing was written. Wait for Retry-After seconds, then retry.",
    ),
    Reason.DRAINING: Traits(
        503,
        True,
        "INFO",
        "This instance is shutting down",
        "Nothing was written. Retry on another instance.",
    ),
    Reason.KAFKA_UNAVAILABLE: Traits(
        503,
        True,
        "WARNING",
        "Kafka is not available",
        "Nothing was written. Wait for Retry-After seconds, then retry.",
    ),
    Reason.REDIS_UNAVAILABLE: Traits(
        503,
        True,
        "WARNING",
        "Redis is not available",
        "Nothing was written, because this topic does not publish without Redis. Wait for "
        "Retry-After seconds, then retry.",
    ),
    Reason.ISSUER_UNAVAILABLE: Traits(
        503,
        True,
        "WARNING",
        "The keys of the token's issuer are not known",
        "Nothing was written, because the token's signature could not be checked. Wait for "
        "Retry-After seconds, then retry.",
    ),
    Reason.BLOBS_UNAVAILABLE: Traits(
        503,
        True,
        "WARNING",
        "The blob store is not available",
        "Nothing was written, because the event is too large for Kafka alone. Wait for Retry-After "
        "seconds, then retry.",
    ),
    Reason.CLOCK_WRONG: Traits(
        503,
        True,
        "ERROR",
        "The gateway's clock is wrong",
        "Nothing was written. Retry on another instance, and ask the operators to set the clock of "
        "this one.",
    ),
    Reason.UNKNOWN: Traits(
        504,
        True,
        "WARNING",
        "The outcome is unknown",
        "The event may be in Kafka, or may still arrive. A retry may write it twice.",
    ),
}
