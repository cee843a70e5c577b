"""Route of a topic: its policy and its state in Kafka, compiled once.

A route decides everything about an event that needs neither Redis nor the lanes: key, partition,
timestamp, size. It is rebuilt when the policy or the topic's state changes.
"""

import sys
from collections.abc import Callable
from typing import Final, Protocol

from headgate.model.cache import BoundedCache
from headgate.model.content import ContentCheck
from headgate.model.event import SPREAD, RawEvent
from headgate.model.keys import KEY_MAX_BYTES, partition_for
from headgate.model.outcome import Failure, Reason, Refused, brief, long_key, malformed
from headgate.model.oversize import Strategy, usable
from headgate.model.policy import TopicPolicy
from headgate.model.record import (
    BATCH_OVERHEAD,
    CONTENT_TYPE,
    SCHEMA,
    WANTED_TIMESTAMP,
    Header,
    Record,
    bytes_of,
    size_of,
)
from headgate.model.suppression import Scope
from headgate.model.topics import TopicState
from headgate.model.trace import Trace
from headgate.native.chosen import is_too_deep

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
_CACHED_KEY_BYTES: Final = 256
_NO_TIMESTAMPS: Final = (
    'this topic\'s records get the time of their arrival (compat_timestamps = "refuse"): '
    "leave out timestamp"
)


class Common:
    """The shared data of a request's events.

    Args:
        route: The topic's rules at the request's arrival.
        key: The key of the request, which has one event only.
        timestamp_ms: The timestamp of the request, in milliseconds since 1970.
        tombstone: Whether the event is a tombstone.
        request_number: The request's number in its topic; events without a key go to the partition
            of this number, modulo the partition count.
        headers: Record headers of every event.
        now_ms: The time of arrival, in milliseconds since 1970.
        force: Whether to publish unchanged events, too.
        trace: Trace of the request, if it is sampled.
    """

    __slots__ = (
        "force",
        "headers",
        "key",
        "now_ms",
        "request_number",
        "route",
        "timestamp_ms",
        "tombstone",
        "trace",
    )

    def __init__(
        self,
        route: "Route",
        key: bytes | None,
        timestamp_ms: int | None,
        tombstone: bool,
        request_number: int,
        headers: list[Header],
        now_ms: int,
        force: bool = False,
        trace: Trace | None = None,
    ) -> None:
        self.route: Final = route
        self.trace: Final = trace
        self.force: Final = force
        self.key: Final = key
        self.timestamp_ms: Final = timestamp_ms
        self.tombstone: Final = tombstone
        self.request_number: Final = request_number
        self.headers: Final = headers
        self.now_ms: Final = now_ms


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
        facts: See `Ticket`.
        scanner: The fast path for plain documents (`formats.decode`); None if there is none, or if
            documents must fit a schema.
        is_behind: Whether the spool has events of the topic. It takes single records only, so the
            route has no strategies then (`ingest.gate.Routes.behind`).
        requests: The number of requests of the topic so far. With one counter for all topics,
            requests that alternate between topics would put all keyless events of a topic on one
            partition.
    """

    __slots__ = (
        "_after_ms",
        "_before_ms",
        "_depth",
        "_partitions",
        "_read_key",
        "_takes_timestamps",
        "check",
        "digest",
        "facts",
        "held",
        "is_behind",
        "key_max_bytes",
        "lane",
        "max_record_bytes",
        "max_value_bytes",
        "policy",
        "refuses",
        "requests",
        "scanner",
        "schema_bytes",
        "schema_headers",
        "scope",
        "state",
        "strategies",
        "topic",
    )

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
        self._depth = json_max_depth
        self.key_max_bytes = key_max_bytes
        self._takes_timestamps = policy.timestamp == "event"
        rules = state.rules
        self._before_ms = sys.maxsize if rules.before_ms is None else rules.before_ms
        if (
            rules.kept_ms is not None and not rules.is_stamped
        ):  # retention counts from the record's time
            self._before_ms = min(self._before_ms, rules.kept_ms)
        self._after_ms = sys.maxsize if rules.after_ms is None else rules.after_ms
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
        self._read_key = read_key
        self._partitions = BoundedCache[bytes, int](_CACHED_KEYS)

    def partition(self, key: bytes) -> int:
        """Return the partition of a key.

        Keys repeat, and the hash of a key costs 2 to 8 us in Python. Long keys are not cached,
        because they rarely repeat and would fill the cache.
        """
        partition = self._partitions.get(key)
        if partition is None:
            partition = partition_for(key, self.lane.partitions)
            if len(key) <= _CACHED_KEY_BYTES:
                self._partitions.put(key, partition)
        return partition

    def record(self, event: bytes | RawEvent, common: Common) -> Record:
        """Return the record of an event, with only the event's own headers.

        `ingest.turn` adds the other headers.

        Raises:
            Refused: The event cannot be published.
        """
        if type(event) is bytes:
            document: bytes | None = event
            value: bytes | None = event
            given = common.key
            headers = PLAIN_HEADERS
            timestamp = self._timestamp(None, common) if self._takes_timestamps else common.now_ms
        else:
            assert isinstance(event, RawEvent)
            document, value = event.document, event.value
            if event.partition is not None:
                return self._placed(event, event.partition, common)
            given = event.key if common.key is None else common.key
            headers = _own_headers(event)
            timestamp = self._timestamp(event.timestamp_ms, common)
        key = given if document is None else self._key(document, given)
        if key is None:
            partition = self._keyless(common.request_number)
        elif len(key) <= self.key_max_bytes:
            partition = self.partition(key)
        else:
            raise Refused(long_key(self.key_max_bytes))
        if common.tombstone:
            value = None
        if timestamp != common.now_ms and self.held is not None:
            # Retention counts from the arrival; the coalescer restores the event's own time.
            headers = [*headers, (WANTED_TIMESTAMP, b"%d" % timestamp)]
            timestamp = common.now_ms
        return Record(self.topic, partition, key, value, headers, timestamp)

    def _placed(self, event: RawEvent, partition: int, common: Common) -> Record:
        """Return the record of an event whose client may choose the partition and omit the key.

        Such clients also choose the timestamp, whatever the topic's option `timestamp` is.
        """
        if not SPREAD <= partition < self.state.partitions:
            detail = f"topic {brief(self.topic)} has no partition {partition}"
            raise Refused(Failure(Reason.UNKNOWN_PARTITION, detail))
        timestamp = common.now_ms
        if event.timestamp_ms is not None:
            if self.policy.compat_timestamps == "refuse":
                raise Refused(Failure(Reason.TIMESTAMP_OUT_OF_RANGE, _NO_TIMESTAMPS))
            timestamp = self._within(event.timestamp_ms, common.now_ms)
        key = event.key
        if event.document is not None:
            key = self._key(event.document, key, may_lack=True)
        if key is not None and len(key) > self.key_max_bytes:
            raise Refused(long_key(self.key_max_bytes))
        if partition == SPREAD:
            partition = (
                common.request_number % self.state.partitions
                if key is None
                else self.partition(key)
            )
        value = None if common.tombstone else event.value
        return Record(self.topic, partition, key, value, _own_headers(event), timestamp)

    def _key(self, document: bytes, given: bytes | None, *, may_lack: bool = False) -> bytes | None:
        depth = self._depth
        if document.count(b"{") + document.count(b"[") > depth and is_too_deep(document, depth):
            raise Refused(malformed(f"the JSON nests deeper than {depth}"))
        try:
            key = self._read_key(document)
        except Refused as refused:
            if refused.failure.reason is Reason.MALFORMED:
                raise
            if given is None and not (
                refused.failure.reason is Reason.MISSING_KEY
                and (may_lack or self.policy.keyless == "spread")
            ):
                raise  # a pointer without a match is accepted only if order does not matter
            return given
        return key if given is None else given

    def _keyless(self, request_number: int) -> int:
        if self.policy.keyless == "spread":
            return request_number % self.state.partitions
        detail = (
            "the event has no key, and this topic has no key rule that applies to it: "
            "send Headgate-Key"
        )
        raise Refused(Failure(Reason.MISSING_KEY, detail))

    def _timestamp(self, own_ms: int | None, common: Common) -> int:
        if not self._takes_timestamps:
            return common.now_ms
        given = common.timestamp_ms if common.timestamp_ms is not None else own_ms
        return common.now_ms if given is None else self._within(given, common.now_ms)

    def _within(self, given: int, now_ms: int) -> int:
        """Return the timestamp if the topic keeps it. Raises Refused if not."""
        oldest = max(0, now_ms - self._before_ms)
        # Differences are compared, because sums exceed an int64 if the topic has no limits.
        if given < oldest or given - now_ms > self._after_ms:
            newest = min(now_ms + self._after_ms, sys.maxsize)
            figures = {"oldest_ms": oldest, "newest_ms": newest}
            kept = f"{oldest} to {newest} ms"
            detail = f"timestamp {given} ms lies outside what the topic keeps: {kept}"
            raise Refused(Failure(Reason.TIMESTAMP_OUT_OF_RANGE, detail, figures))
        return given


def _own_headers(event: RawEvent) -> list[Header]:
    if event.content_type is None:
        return [*event.headers]
    return [(CONTENT_TYPE, event.content_type), *event.headers]


# Limits of sizes, and the detail of every 413 response.
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


def streamed_record(limit: int) -> Failure:
    """Return the failure of a streamed record; reading ended at the limit, in bytes."""
    name = "http.body_max_bytes"
    detail = f"a record has more than the limit of {limit} bytes ({name})"
    return Failure(Reason.TOO_LARGE, detail, {"limit_bytes": limit, "limit": name})


def streamed_batch() -> Failure:
    """Return the failure of a batch above the body limit; only single events are streamed."""
    return Failure(
        Reason.TOO_LARGE,
        "a batch over http.body_max_bytes: send fewer events in one request, or "
        "Headgate-Batch: false where the array is one event",
    )


def stored_in_vain(route: Route) -> Failure:
    """Return the failure of a stored value whose topic has no strategies any more."""
    if route.is_behind:
        return BEHIND
    return Failure(
        Reason.TOO_LARGE, "the topic's option oversize has no claim-check since a reload"
    )


def management_body(limit: int) -> Failure:
    """Return the failure of a body for the control plane, whose limit is not an option."""
    return Failure(Reason.TOO_LARGE, f"the body is over {limit} bytes")


def replay_request(why: str) -> Failure:
    """Return the failure of a replay that exceeds a registry record; `why` has the sizes."""
    advice = "ask for less, with fewer values in its filter or fewer partitions"
    return Failure(Reason.TOO_LARGE, f"{why}: {advice}")


def refused_by_kafka(size: int, limit: int) -> Failure:
    """Return the failure of a record that only the current limit in Kafka refuses."""
    detail = "Kafka refused the record: it is larger than the topic's max.message.bytes"
    return too_large(size, limit, "max.message.bytes")._replace(detail=detail)


def fits(route: Route, value_bytes: int, record_bytes: int) -> bool:
    """Return whether an event is within both limits of its topic.

    Kafka's limit applies to a batch after compression, so a record that fits uncompressed passes.

    Args:
        route: The route of the topic.
        value_bytes: The size of the value.
        record_bytes: The size of the record, as `record.size_of` bounds it.
    """
    return value_bytes <= route.max_value_bytes and record_bytes <= route.max_record_bytes


def exceeded(route: Route, value_bytes: int, record_bytes: int) -> Failure:
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


# ---- Largest parts of a JSON document
