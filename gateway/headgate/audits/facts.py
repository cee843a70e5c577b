"""Facts: their topic, and those of a process until they are written.

A fact describes an event that got no record of its own: unchanged, superseded, duplicate
or rejected. A record carries many facts of one topic as JSON, one array a column, all of one
length; its key is the topic's name. The skew audit reads them.

    {"topic": "deals", "one_in": 1, "at_ms": [..], "producer": [..], "outcome": [..], ...}

Facts that wait are bounded and lossy: those that do not fit are counted and dropped, so that facts
never delay or fail an event. Pure: the clock and the randomness are arguments.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from math import log
from typing import Final

import orjson

from headgate.model.internal_topics import InternalTopic
from headgate.model.outcome import Outcome, OutcomeName, Reason
from headgate.model.policy import PolicyTable
from headgate.model.topics import TopicState

FACTS_TOPIC: Final = "headgate.facts"
_RETENTION_MS: Final = 604_800_000
_PARTITIONS: Final = 6  # shared by all topics: the facts of each topic are on one
_MIN_RECORD_BYTES: Final = 65_536  # two records of a few hundred facts
TOPIC: Final = "topic"
# Number of events that each fact stands for, if a topic has facts of a sample (`facts_one_in`).
ONE_IN: Final = "one_in"

AT_MS: Final = "at_ms"  # time of the event's outcome, in ms since 1970
PRODUCER: Final = "producer"
OUTCOME: Final = "outcome"  # unchanged, superseded, duplicate or rejected
REASON: Final = "reason"  # reason of a rejected event, else null
PARTITION: Final = "partition"  # position of the record with the content, or null
OFFSET: Final = "offset"
KEY: Final = "key"  # null if the event had none, or was refused before its key was read
KEY_BASE64: Final = "key_base64"  # replaces `key` if any of the keys is not UTF-8
# Size of the event's value as received, 0 for a tombstone; the sum if `events` is not 1.
BYTES: Final = "bytes"
EVENTS: Final = "events"  # number of events: superseded ones are summed by window

# The columns with their types in SQL; `key` and `key_base64` exclude each other.
COLUMNS: Final[Mapping[str, str]] = {
    AT_MS: "bigint",
    PRODUCER: "string",
    OUTCOME: "string",
    REASON: "string",
    PARTITION: "int",
    OFFSET: "bigint",
    KEY: "string",
    KEY_BASE64: "string",
    BYTES: "bigint",
    EVENTS: "bigint",
}
KEY_MAX_BYTES: Final = 1024  # a longer key is cut and made unique again by a digest


def facts_cluster(tiers: Mapping[str, str]) -> str | None:
    """Return the cluster of the topic of facts: the first one of tier ingest.

    Args:
        tiers: Tiers by the clusters' names, in the order of the configuration.
    """
    return next((name for name, tier in tiers.items() if tier == "ingest"), None)


def facts_topic(
    policies: PolicyTable, states: Mapping[str, TopicState], cluster: str
) -> InternalTopic | None:
    """Return the topic of facts, as safe as its cluster's safest topic; None if nothing needs it.

    Args:
        policies: The policies of all topics.
        states: The topics that exist on the cluster.
        cluster: The cluster of the facts (`facts_cluster`).
    """
    if not any(policy.facts for policy in policies.policies):
        return None
    configs = {
        "cleanup.policy": "delete",
        "retention.ms": str(_RETENTION_MS),
        "message.timestamp.type": "CreateTime",
        "min.insync.replicas": str(
            max((state.min_insync_replicas for state in states.values()), default=1)
        ),
    }
    replicas = max((state.replication_factor for state in states.values()), default=1)
    return InternalTopic(FACTS_TOPIC, cluster, _PARTITIONS, replicas, configs)


def facts_faults(topic: TopicState) -> list[str]:
    """Return the faults of a topic of facts that exists, each with its fix."""
    wrong, rules = [], topic.rules
    if rules.compacts:
        # all facts of a topic have one key
        wrong.append(f"cleanup.policy is {topic.cleanup_policy}: set it to delete")
    if rules.is_stamped:
        wrong.append("message.timestamp.type is LogAppendTime: set it to CreateTime")
    if topic.max_message_bytes < _MIN_RECORD_BYTES:
        minimum = _MIN_RECORD_BYTES
        wrong.append(f"max.message.bytes is {topic.max_message_bytes}: set it to {minimum} or more")
    return wrong


# ---- facts of a process, until they are written


# 0.2 ms of encoding at once, some 130 kB; a fuller record spares requests, not bytes
FACTS_A_RECORD: Final = 2000
MAX_WAITING: Final = 20_000  # some 4 MB; 20 MB if all have keys of KEY_MAX_BYTES
_KEY_BYTES: Final = KEY_MAX_BYTES
_DIGEST_BYTES: Final = 8

_PUBLISHED: Final = OutcomeName.PUBLISHED
_UNCHANGED: Final = OutcomeName.UNCHANGED.value
# Reported names as texts: orjson takes twice as long for the member of an enum.
_REPORTED: Final[dict[OutcomeName, str]] = {
    name: name.value
    for name in (
        OutcomeName.UNCHANGED,
        OutcomeName.DUPLICATE,
        OutcomeName.SUPERSEDED,
        OutcomeName.REJECTED,
    )
}
_REASONS: Final[dict[Reason, str]] = {reason: reason.value for reason in Reason}


class Columns:
    """Facts of one topic that go into one record; each stands for `one_in` events."""

    def __init__(self, topic: str, one_in: int) -> None:
        self.topic: Final = topic
        self.one_in: Final = one_in
        self.at_ms: list[int] = []
        self.producers: list[str] = []
        self.outcomes: list[str] = []
        self.reasons: list[str | None] = []
        self.partitions: list[int | None] = []
        self.offsets: list[int | None] = []
        self.keys: list[bytes | None] = []
        self.sizes: list[int] = []
        self.events: list[int] = []

    def encoded(self) -> bytes:
        """Return the value of a record."""
        document: dict[str, object] = {
            TOPIC: self.topic,
            ONE_IN: self.one_in,
            AT_MS: self.at_ms,
            PRODUCER: self.producers,
            OUTCOME: self.outcomes,
            REASON: self.reasons,
            PARTITION: self.partitions,
            OFFSET: self.offsets,
            BYTES: self.sizes,
            EVENTS: self.events,
        }
        try:
            document[KEY] = [None if key is None else key.decode() for key in self.keys]
        except UnicodeDecodeError:
            texts = [None if key is None else b64encode(key).decode() for key in self.keys]
            document[KEY_BASE64] = texts
        return orjson.dumps(document)

    def part(self, start: int, end: int) -> "Columns":
        """Return the facts from `start` up to, without, `end`."""
        part = Columns(self.topic, self.one_in)
        part.at_ms, part.producers = self.at_ms[start:end], self.producers[start:end]
        part.outcomes, part.reasons = self.outcomes[start:end], self.reasons[start:end]
        part.partitions, part.offsets = self.partitions[start:end], self.offsets[start:end]
        part.keys, part.sizes = self.keys[start:end], self.sizes[start:end]
        part.events = self.events[start:end]
        return part


class FactsRecord:
    """The value of one record, with the number of its facts and their topic."""

    __slots__ = ("count", "topic", "value")

    def __init__(self, topic: str, count: int, value: bytes) -> None:
        self.topic: Final = topic
        self.count: Final = count
        self.value: Final = value


def encode_records(columns: Columns, limit_bytes: int) -> list[FactsRecord]:
    """Return the records of these facts, each value at most limit_bytes long if one fact is."""
    value, count = columns.encoded(), len(columns.keys)
    if len(value) <= limit_bytes or count < 2:
        return [FactsRecord(columns.topic, count, value)]
    half = count // 2
    first, second = columns.part(0, half), columns.part(half, count)
    return encode_records(first, limit_bytes) + encode_records(second, limit_bytes)


class Facts:
    """Facts that wait for `collect`; `dropped` counts, by topic, those that found no space.

    Args:
        clock_ms: Wall clock, in ms since 1970.
        draw: Source of random numbers in [0, 1).
        on_full: Called when there are enough facts for a record.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        draw: Callable[[], float],
        on_full: Callable[[], None] | None = None,
    ) -> None:
        self.waiting = 0
        self.dropped: dict[str, int] = {}
        self._clock_ms = clock_ms
        self._draw = draw
        self._on_full = on_full
        self._filling: dict[tuple[str, int], Columns] = {}
        self._full: list[Columns] = []
        self._gaps: dict[tuple[str, int], int] = {}

    def take(
        self,
        producer: str,
        topic: str,
        one_in: int,
        outcomes: Sequence[Outcome],
        sizes: Sequence[int],
    ) -> None:
        """Add facts of a request's events that got no record.

        An event that was answered with the record of an equal one on its way (`published`, records
        0) counts as unchanged.

        Args:
            producer: The sender of the events.
            topic: Their topic.
            one_in: Add one fact of so many, by chance.
            outcomes: The outcome of every event of the request.
            sizes: Length of each event's value, in bytes.
        """
        group = (topic, one_in)
        now_ms = self._clock_ms()
        for outcome, size in zip(outcomes, sizes, strict=True):
            name = _REPORTED.get(outcome.name)
            if name is None:
                if outcome.name is not _PUBLISHED or outcome.records:
                    continue
                name = _UNCHANGED
            if one_in > 1 and self._is_skipped(group):
                continue
            failure = outcome.failure
            reason = None if failure is None else _REASONS[failure.reason]
            self._put(
                group,
                now_ms,
                producer,
                name,
                reason,
                outcome.partition,
                outcome.offset,
                outcome.key,
                size,
                1,
            )

    def coalesced(
        self, producer: str, topic: str, outcome: OutcomeName, key: bytes, events: int, size: int
    ) -> None:
        """Add one fact of a producer's held events of a key in a window.

        There are so few of these facts that none is skipped.

        Args:
            producer: The sender of the events.
            topic: Their topic.
            outcome: The outcome that they share.
            key: Their key.
            events: Number of events.
            size: Length of their values together, in bytes.
        """
        now_ms = self._clock_ms()
        self._put((topic, 1), now_ms, producer, outcome.value, None, -1, -1, key, size, events)

    def _put(
        self,
        group: tuple[str, int],
        at_ms: int,
        producer: str,
        name: str,
        reason: str | None,
        partition: int,
        offset: int,
        key: bytes | None,
        size: int,
        events: int,
    ) -> None:
        if self.waiting >= MAX_WAITING:
            self.dropped[group[0]] = self.dropped.get(group[0], 0) + 1
            return
        columns = self._filling.get(group)
        if columns is None:
            columns = self._filling[group] = Columns(group[0], group[1])
        columns.at_ms.append(at_ms)
        columns.producers.append(producer)
        columns.outcomes.append(name)
        columns.reasons.append(reason)
        columns.partitions.append(partition if partition >= 0 else None)
        columns.offsets.append(offset if offset >= 0 else None)
        columns.keys.append(key if key is None or len(key) <= _KEY_BYTES else _cut(key))
        columns.sizes.append(size)
        columns.events.append(events)
        self.waiting += 1
        if len(columns.keys) >= FACTS_A_RECORD:
            del self._filling[group]
            self._full.append(columns)
            if self._on_full is not None:
                self._on_full()

    def collect(self, everything: bool) -> list[Columns]:
        """Remove and return facts that are enough for a record, or (everything) all facts."""
        collected, self._full = self._full, []
        if everything:
            collected += self._filling.values()
            self._filling = {}
        self.waiting -= sum([len(columns.keys) for columns in collected])
        return collected

    def take_dropped(self) -> dict[str, int]:
        """Return the number of facts that were dropped since the last call, by topic."""
        dropped, self.dropped = self.dropped, {}
        return dropped

    def _is_skipped(self, group: tuple[str, int]) -> bool:
        """Return whether chance skips this fact; one number is drawn for each fact that is kept."""
        gap = self._gaps.get(group)
        if gap is None:
            gap = self._gap(group[1])
        self._gaps[group] = self._gap(group[1]) if gap == 0 else gap - 1
        return gap > 0

    def _gap(self, one_in: int) -> int:
        """Return the number of facts to skip before the next one: geometrically distributed."""
        return int(log(1.0 - self._draw()) / log(1.0 - 1.0 / one_in))


def _cut(key: bytes) -> bytes:
    return key[:_KEY_BYTES] + blake2b(key, digest_size=_DIGEST_BYTES).hexdigest().encode()
