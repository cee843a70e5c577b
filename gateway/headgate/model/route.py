"""Route of a topic: its policy and its state in Kafka, compiled once.

A route has everything that decides about an event without Redis and the lanes: rules for its key,
partition, timestamp and size. It is rebuilt when the policy or the topic's state changes.
"""

import sys
from collections.abc import Callable
from typing import Final, Protocol

from headgate.model.cache import BoundedCache
from headgate.model.content import ContentCheck
from headgate.model.keys import KEY_MAX_BYTES
from headgate.model.outcome import Failure, Reason
from headgate.model.oversize import Strategy, usable
from headgate.model.policy import TopicPolicy
from headgate.model.record import (
    BATCH_OVERHEAD,
    CONTENT_TYPE,
    SCHEMA,
    Header,
    bytes_of,
    size_of,
)
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState

# Values, keys, partitions and digests.
Scanned = tuple[list[bytes], list[bytes] | None, list[int] | None, list[bytes | None] | None]


class Scanner(Protocol):
    """Interface of `_scanner.Scanner`."""

    def lines(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def elements(self, body: bytes, limit: int, /) -> Scanned | None: ...

    def one(self, body: bytes, /) -> Scanned | None: ...


Digest = Callable[[bytes | None, bytes | None], bytes]
ReadKey = Callable[[bytes], bytes | None]  # `formats.json_text.KeyReader`


# A plain document's own headers, and the bytes of its record without key and value.
PLAIN_HEADERS: Final[list[Header]] = [(CONTENT_TYPE, b"application/json")]
PLAIN_BYTES: Final = size_of(None, None, PLAIN_HEADERS)
_CACHED_KEYS: Final = 100_000


class Route:
    """The active rules of one topic.

    Attributes:
        strategies: The oversize strategies to try before an event is refused.
        key_max_bytes: The maximum size of a key.
        max_value_bytes: The maximum size of a value.
        max_record_bytes: The maximum size of a record, as `size_of` bounds it.
        digest: Function from value and content type to 16 bytes; None if the topic does not
            suppress.
        scope: The suppression namespace, whatever the policy; None without Redis.
        check: The examination that events need first, or None. If it has a comparison, it also
            makes the digest, unless the scanner has made it.
        schema_headers: Headers of records that fit the topic's schema.
        schema_bytes: The bytes of these headers.
        refuses: Whether to publish nothing without a reservation in Redis.
        held: The state of the held topic, if the topic coalesces.
        lane: The state of the topic that events are written to.
        facts: Report the facts of one in this many events of the topic; 0 for none.
        scanner: The fast path for plain documents (`formats.decode`); None if there is none, or if
            documents must fit a schema.
        is_behind: Whether the spool has events of the topic. It takes single records only, so the
            route has no strategies then (`ingest.gate.Routes.while_spooled`).
        partitions: The partitions of keys that had events already.
        requests: The number of requests of the topic so far. With one counter for all topics,
            requests that alternate between topics would put all keyless events of a topic on one
            partition.
    """

    def __init__(
        self,
        policy: TopicPolicy,
        state: TopicState,
        read_key: ReadKey,
        json_max_depth: int,
        digest: Digest | None = None,
        scope: Scope | None = None,
        check: ContentCheck | None = None,
        held: TopicState | None = None,
        scanner: Scanner | None = None,
        key_max_bytes: int = KEY_MAX_BYTES,
    ) -> None:
        self.policy = policy
        self.is_behind = False
        self.state = state
        self.held = held
        self.lane = state if held is None else held
        self.topic = self.lane.name
        self.requests = 0
        self.facts = policy.facts_one_in if policy.facts else 0
        self.depth = json_max_depth
        self.key_max_bytes = key_max_bytes
        self.takes_timestamps = policy.timestamp == "event"
        rules = state.rules
        self.before_ms = sys.maxsize if rules.before_ms is None else rules.before_ms
        if (
            rules.kept_ms is not None and not rules.is_stamped
        ):  # retention counts from the record's time
            self.before_ms = min(self.before_ms, rules.kept_ms)
        self.after_ms = sys.maxsize if rules.after_ms is None else rules.after_ms
        self.max_value_bytes = sys.maxsize if policy.max_bytes is None else policy.max_bytes
        self.max_record_bytes = state.batch_limit_bytes - BATCH_OVERHEAD
        self.strategies: tuple[Strategy, ...] = usable(
            policy.oversize, rules.compacts, state.compression_type
        )
        self.digest = digest
        self.scope = scope
        self.check = check
        self.scanner = scanner
        self.refuses = policy.redis_loss == "refuse"
        self.schema_headers: list[Header] = []
        if policy.schema is not None:
            self.schema_headers = [(SCHEMA, policy.schema.version)]
        self.schema_bytes = sum([bytes_of(header) for header in self.schema_headers])
        self.read_key = read_key
        self.partitions = BoundedCache[bytes, int](_CACHED_KEYS)


# ---- limits of sizes, and the detail of every 413 response
#
# Titles and advice are those of the reasons (`model.outcome`). Header fields that are too large are
# another reason, with status 431 (`http.server`).


BEHIND: Final = Failure(
    Reason.KAFKA_UNAVAILABLE,
    "the event does not fit into one record, and earlier events of its topic still lie in the "
    "spool, which takes single records; nothing was written",
    retry_after_s=5,
)


def too_large(size: int, limit: int, name: str) -> Failure:
    """Return the failure of data above a limit.

    Args:
        size: The size, in bytes.
        limit: The limit, in bytes.
        name: The name of the limit, such as `max_bytes` or `max.message.bytes`.
    """
    detail = f"{size} bytes are more than the limit of {limit} bytes ({name})"
    figures = {"size_bytes": size, "limit_bytes": limit, "limit": name}
    return Failure(Reason.TOO_LARGE, detail, figures)


def record_too_large(limit: int) -> Failure:
    """Return the failure of a streamed record; reading ended at the limit, in bytes."""
    name = "http.body_max_bytes"
    detail = f"a record has more than the limit of {limit} bytes ({name})"
    return Failure(Reason.TOO_LARGE, detail, {"limit_bytes": limit, "limit": name})


def batch_too_large() -> Failure:
    """Return the failure of a batch above the body limit; only single events are streamed."""
    return Failure(
        Reason.TOO_LARGE,
        "a batch over http.body_max_bytes: send fewer events in one request, or "
        "Headgate-Batch: false where the array is one event",
    )


def value_too_large(route: Route) -> Failure:
    """Return the failure of a stored value whose topic has no strategies any more."""
    if route.is_behind:
        return BEHIND
    return Failure(
        Reason.TOO_LARGE,
        "the topic stores no large values since a reload: its option oversize has no claim-check, "
        "or it coalesces",
    )


def body_too_large(limit: int) -> Failure:
    """Return the failure of a body for the control plane, whose limit is not an option."""
    return Failure(Reason.TOO_LARGE, f"the body is over {limit} bytes")


def replay_too_large(why: str) -> Failure:
    """Return the failure of a replay that exceeds a registry record; `why` has the sizes."""
    advice = "ask for less, with fewer values in its filter or fewer partitions"
    return Failure(Reason.TOO_LARGE, f"{why}: {advice}")


def too_large_for_kafka(size: int, limit: int) -> Failure:
    """Return the failure of a record that only the current limit in Kafka refuses."""
    detail = "Kafka refused the record: it is larger than the topic's max.message.bytes"
    return too_large(size, limit, "max.message.bytes")._replace(detail=detail)


def event_too_large(route: Route, value_bytes: int, record_bytes: int) -> Failure:
    """Return the failure of an event that exceeds a limit of its topic.

    While the spool has events of the topic, its strategies do not apply, so the refusal is
    temporary.
    """
    if route.is_behind:
        return BEHIND
    if value_bytes > route.max_value_bytes:
        failure = too_large(value_bytes, route.max_value_bytes, "max_bytes")
    else:
        failure = too_large(record_bytes, route.max_record_bytes, "max.message.bytes")
    if not route.strategies:
        return failure
    detail = f"{failure.detail}, and does not fit by any of: {', '.join(route.strategies)}"
    return failure._replace(detail=detail)
