"""Outcomes of events. Every event has exactly one `Outcome`."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class Reason(StrEnum):
    """Reason for the failure of an event or a request.

    It is wire text, metric label and page name (`/problems/<reason>`). Only `TRAITS` maps a reason
    to its HTTP status.
    """

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
    MONITOR_UNAVAILABLE = "monitor_unavailable"
    CLOCK_WRONG = "clock_wrong"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__


class Traits(NamedTuple):
    """A row of the reason table.

    Attributes:
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
        404,
        False,
        "INFO",
        "Not found",
        "Check the path, and the name in it that `detail` shows. /docs lists all paths.",
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
        "Wait for Retry-After seconds, then retry. If the first request succeeded, the retry is "
        "answered `duplicate`.",
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
        "Post to /v1/topics/{topic}/events. A compatible API answers with an offset, and events of "
        "this topic may have none yet.",
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
        "tokens from this address. A valid token is accepted after Retry-After seconds.",
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
    Reason.MONITOR_UNAVAILABLE: Traits(
        503,
        True,
        "WARNING",
        "The monitor of consumer groups is not available",
        "Start `headgate monitor`. If it runs already, `detail` has the cause.",
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


class OutcomeName(StrEnum):
    """Name of an outcome.

    `rejected` = certainly not written; `unknown` = perhaps written; `held` = durable in the held
    topic, to be coalesced; `superseded` = a later event of its key was published instead; `spooled`
    = on the gateway's disk, to be published when Kafka accepts it.
    """

    PUBLISHED = "published"
    UNCHANGED = "unchanged"
    DUPLICATE = "duplicate"
    HELD = "held"
    SUPERSEDED = "superseded"
    SPOOLED = "spooled"
    REJECTED = "rejected"
    UNKNOWN = "unknown"

    __hash__ = str.__hash__  # Enum's own hash is Python code, and metrics use names as keys


class Failure(NamedTuple):
    """A reason with details for the client.

    Attributes:
        reason: The reason.
        detail: A sentence for people.
        figures: Numbers and names, such as `size_bytes`, `limit_bytes`, `limit`, `largest_paths`.
        retry_after_s: Seconds for the Retry-After header; None if a later retry does not help.
    """

    reason: Reason
    detail: str
    figures: Mapping[str, object] | None = None
    retry_after_s: int | None = None

    @property
    def is_of_producer(self) -> bool:
        """Return whether `overloaded` is due to the limit or the share of its own producer."""
        if self.reason is not Reason.OVERLOADED or self.figures is None:
            return False
        return "producer" in self.figures or self.figures.get("limit") == "share"


class Outcome:
    """The outcome of one event. It is a class and not a tuple for the same reason as `Record`.

    Args:
        name: The name of the outcome.
        partition: The partition of its record; -1 if there is none.
        offset: The offset of its record; -1 if there is none or Kafka returned none.
        key: The key.
        event_id: The event's own id.
        failure: The failure, if it failed.
        records: The number of records that were written for it; 0 if an equal event's record
            represents it.
        oversize: The strategy for an oversized event (`model.oversize.Strategy`).
        timestamp_ms: The timestamp of its record in the log; -1 if there is none or it is unknown.
    """

    __slots__ = (
        "event_id",
        "failure",
        "key",
        "name",
        "offset",
        "oversize",
        "partition",
        "records",
        "timestamp_ms",
    )

    def __init__(
        self,
        name: OutcomeName,
        partition: int = -1,
        offset: int = -1,
        key: bytes | None = None,
        event_id: str | None = None,
        failure: Failure | None = None,
        records: int = 0,
        oversize: str | None = None,
        timestamp_ms: int = -1,
    ) -> None:
        self.name: Final = name
        self.partition: Final = partition
        self.offset: Final = offset
        self.key: Final = key
        self.event_id: Final = event_id
        self.failure: Final = failure
        self.records: Final = records
        self.oversize: Final = oversize
        self.timestamp_ms: Final = timestamp_ms

    def _fields(self) -> tuple[object, ...]:
        identity = (self.name, self.partition, self.offset, self.key, self.event_id)
        return (*identity, self.failure, self.records, self.oversize, self.timestamp_ms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcome) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((self.name, self.partition, self.offset, self.key, self.event_id))

    def __repr__(self) -> str:
        return f"Outcome{self._fields()}"

    def of(self, name: OutcomeName, event_id: str | None) -> "Outcome":
        """Return the outcome of another event that this event's record represents."""
        return Outcome(
            name,
            self.partition,
            self.offset,
            self.key,
            event_id,
            self.failure,
            records=0,
            oversize=self.oversize,
            timestamp_ms=self.timestamp_ms,
        )

    def with_failure(self, failure: Failure) -> "Outcome":
        """Return the same outcome with a more detailed failure."""
        return Outcome(
            self.name,
            self.partition,
            self.offset,
            self.key,
            self.event_id,
            failure,
            self.records,
            self.oversize,
            self.timestamp_ms,
        )


def rejected(failure: Failure, key: bytes | None = None, event_id: str | None = None) -> Outcome:
    """Return the outcome of a failed event: unknown if the reason is unknown, else rejected."""
    name = OutcomeName.UNKNOWN if failure.reason is Reason.UNKNOWN else OutcomeName.REJECTED
    return Outcome(name, key=key, event_id=event_id, failure=failure)


# ---- refusals of requests and events, with the failure for the client


OVERLOADED_RETRY_S: Final = 1  # the budget turns over in the time of a batch's acknowledgement
SHOWN: Final = 100  # maximum length of a client's text in a response or a log line


class Refused(Exception):
    """Refusal of an event or of the whole request, with a Failure.

    Args:
        failure: The failure for the client.
        producer: The identified caller, for the log, if it lacks a permission.
    """

    def __init__(self, failure: Failure, producer: str = "") -> None:
        super().__init__(failure.detail)
        self.failure = failure
        self.producer = producer


class TooMuch(Refused):
    """Refusal of a body above the limit; `chunks` are the parts that were read.

    It is a normal refusal, unless the event can be streamed (`http.body`). It is defined here,
    because a compiled class can only have compiled subclasses.
    """

    def __init__(self, failure: Failure, chunks: list[bytes]) -> None:
        super().__init__(failure)
        self.chunks = chunks


def brief(text: str) -> str:
    """Quote a text from a request; a long text is shortened."""
    return f"{text[:SHOWN]!r}..." if len(text) > SHOWN else repr(text)


def long_key(max_bytes: int) -> Failure:
    """Return the failure of a key that is too long, without the key itself."""
    detail = f"the key is longer than http.key_max_bytes = {max_bytes}"
    return Failure(Reason.INVALID_KEY, detail, {"limit_bytes": max_bytes})


def malformed(detail: str) -> Failure:
    """Return the failure of a malformed text or request."""
    return Failure(Reason.MALFORMED, detail)
