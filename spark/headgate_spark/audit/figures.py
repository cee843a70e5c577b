"""Figures of one topic: the input of every rule. Pure: Spark is not needed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.model.times import shown_time
from headgate_spark.audit.measures import Balance, Load, balance

# ---- events that Kafka never saw, from the gateways' facts


OUTCOMES = ("unchanged", "superseded", "rejected", "duplicate")


class UnpublishedRow(NamedTuple):
    """Events of one producer with one outcome, and the bytes of their values.

    Sampled facts are scaled up. `seen` is the number of events before that; None if all were
    counted.
    """

    producer: str
    outcome: str
    events: int
    bytes: int
    seen: int | None = None


class UnpublishedKey(NamedTuple):
    """One of the keys with the most unpublished events; the key is None for events without one."""

    key: bytes | None
    producer: str
    outcome: str
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unpublished:
    """The unpublished events of one topic.

    Attributes:
        why_unknown: Reason if they are unknown.
        since_ms: Time of the first fact.
        is_sampled: The numbers are estimates.
        unreadable: Records of the topic of facts that no gateway wrote.
        rows: The producers with the most of these events.
        other_events, other_bytes: The events of all other producers.
    """

    why_unknown: str | None
    rows: tuple[UnpublishedRow, ...] = ()
    keys: tuple[UnpublishedKey, ...] = ()
    since_ms: int | None = None
    is_sampled: bool = False
    unreadable: int = 0
    other_events: int = 0
    other_bytes: int = 0

    def of(self, producer: str) -> Mapping[str, int] | None:
        """Return the events of a producer by outcome; None if nothing is known."""
        if self.why_unknown is not None:
            return None
        by_outcome = {row.outcome: row.events for row in self.rows if row.producer == producer}
        if not by_outcome and self.other_events:
            return None  # it may be one of the others
        return {outcome: by_outcome.get(outcome, 0) for outcome in OUTCOMES}

    @property
    def producers(self) -> list[str]:
        """Return all producers that have facts."""
        return sorted({row.producer for row in self.rows})

    def shown(self) -> dict[str, Any]:
        """Return the fields of audit.json."""
        return {
            "why_unknown": self.why_unknown,
            "from": None if self.since_ms is None else shown_time(self.since_ms),
            "sampled": self.is_sampled,
            "unreadable_records": self.unreadable,
            "events": sum(row.events for row in self.rows) + self.other_events,
            "bytes": sum(row.bytes for row in self.rows) + self.other_bytes,
            "top_keys": [_shown(key) for key in self.keys],
        }


NOT_READ = Unpublished("the facts were not read")


def _shown(key: UnpublishedKey) -> dict[str, Any]:
    return {**key._asdict(), "key": _text(key.key), "producer": key.producer or None}


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "backslashreplace")


# ---- figures of the records in Kafka


BUCKET_MS = 300_000  # the 5-minute windows in which bursts are looked for
FITS = 0.99  # of misplaced records: a rule that explains so many explains all
BUSY_SHARE = 0.05  # of all records or bytes: at most 20 windows of a topic have as much of either


class Sizes(NamedTuple):
    """Quantiles of the bytes of a record (key, value and headers)."""

    p50: int
    p95: int
    p99: int
    max: int


class KeyFigures(NamedTuple):
    """One of the heaviest keys.

    Attributes:
        producer: The producer that wrote most of it; None without an `hg-producer` header.
        runs: Number of runs of equal keys in partition order; `run_p95` is a percentile of
            their lengths.
        partition: The partition with most of it.
        kept: Records that coalescing would have left.
    """

    key: bytes
    records: int
    bytes: int
    producer: str | None
    runs: int
    run_p95: int
    partition: int
    kept: int

    @property
    def run_share(self) -> float:
        """Return the share of the key's records that follow a record of the same key."""
        return (self.records - self.runs) / self.records if self.records else 0.0

    @property
    def mean_run(self) -> float:
        """Return the mean length of the key's runs."""
        return self.records / self.runs if self.runs else 0.0


class Prediction(NamedTuple):
    """The load of the same keys on `partitions` partitions by Kafka's rule.

    `moved_keys` is the number of keys that would move; -1 for the topic's own count.
    """

    partitions: int
    records: Load
    bytes: Load
    moved_keys: int


class Misplaced(NamedTuple):
    """Keyed records of one producer that are not on the partition of Kafka's rule.

    Attributes:
        producer: Empty for records without an `hg-producer` header.
        keyed: All records of the producer with a key.
        crc32: The misplaced records that are on the partition of librdkafka's default.
        empty: The misplaced records with the empty key, which that default spreads at random.
        keys: The number of their keys; a key on two partitions counts twice.
        earlier: By partition count, the records that the rule puts there with that count.
    """

    producer: str
    keyed: int
    records: int
    crc32: int
    empty: int
    keys: int
    earlier: Mapping[int, int]


class ProducerFigures(NamedTuple):
    """Events of one producer.

    Records and bytes are in Kafka. The other figures are events that Kafka never received; None if
    unknown. The name is empty for records without an `hg-producer` header or with an empty one;
    null in audit.json.
    """

    producer: str
    records: int
    bytes: int
    unchanged: int | None = None
    superseded: int | None = None
    rejected: int | None = None
    duplicate: int | None = None

    @property
    def in_vain(self) -> int:
        """Return the events that Kafka never received, as far as that is known."""
        ends = (self.unchanged, self.superseded, self.rejected, self.duplicate)
        return sum(count or 0 for count in ends)


class Keyless(NamedTuple):
    """The distribution of records without a key over the partitions that were read.

    Attributes:
        records: Records by partition.
        windows: Number of windows of 5 minutes with enough of them.
        same: Number of these windows in which the fullest partition is the fullest of all
            windows.
    """

    records: Load
    windows: int
    same: int


class BusyWindows(NamedTuple):
    """The windows of 5 minutes that may have a burst; all others are summed.

    Attributes:
        windows: Their number from first to last, with records or without.
        records, bytes: The load of all windows, by partition.
        busy_records, busy_bytes: One row for each partition, one column for each window that
            has `BUSY_SHARE` of the topic's records or bytes.
    """

    windows: int
    records: Load
    bytes: Load
    busy_records: Load
    busy_bytes: Load


class HeatMap(NamedTuple):
    """The bytes of the fullest partitions over time, in as many cells as a page can show.

    Attributes:
        numbers: The partition of each row.
        from_ms: Beginning of the first column.
        stretch_ms: Length of a column.
    """

    numbers: tuple[int, ...]
    from_ms: int
    stretch_ms: int
    bytes: Load


class KeyBucket(NamedTuple):
    """Keys with about equally many records (or bytes), for the Lorenz curve over keys."""

    keys: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """All figures of one topic in [from_ms, to_ms).

    Attributes:
        tombstones: Records without a value.
        numbers: The partition of each row of loads and busy windows if only some were
            requested; empty for all, from 0.
        topic_partitions: The topic's number of partitions in that case.
        keyless: None if it was not examined.
        producers: The producers with the most bytes.
        distinct_producers: The number of producers.
        misplaced: The producers with the most misplaced records; the others have
            `misplaced_by_others`.
    """

    topic: str
    from_ms: int
    to_ms: int
    records: int
    bytes: int
    keyless_records: int
    keyless_bytes: int
    tombstones: int
    distinct_keys: int
    load_records: Load
    load_bytes: Load
    busy: BusyWindows
    heat: HeatMap
    sizes: Sizes
    top_keys: tuple[KeyFigures, ...]
    predictions: tuple[Prediction, ...]
    misplaced: tuple[Misplaced, ...]
    producers: tuple[ProducerFigures, ...]
    key_buckets: tuple[KeyBucket, ...] = ()
    unpublished: Unpublished = NOT_READ
    numbers: tuple[int, ...] = ()
    topic_partitions: int = 0
    keyless: Keyless | None = None
    distinct_producers: int = 0
    misplaced_by_others: int = 0

    @property
    def partitions(self) -> int:
        """Return the number of partitions that were read."""
        return len(self.load_records)

    @property
    def misplaced_records(self) -> int:
        """Return the keyed records that are not on the partition of Kafka's rule."""
        return sum(misplaced.records for misplaced in self.misplaced) + self.misplaced_by_others

    @property
    def keyed_records(self) -> int:
        """Return the records with a key."""
        return self.records - self.keyless_records

    @property
    def is_part(self) -> bool:
        """Return whether the topic has partitions that were not read."""
        return bool(self.numbers)

    def row_of(self, partition: int) -> int:
        """Return the row of a partition in loads and heats."""
        return self.numbers.index(partition) if self.is_part else partition

    @property
    def top_record_share(self) -> float:
        """Return the share of the most frequent key in all records."""
        heaviest = max((key.records for key in self.top_keys), default=0)
        return heaviest / self.records if self.records else 0.0

    @property
    def top_byte_share(self) -> float:
        """Return the share of the heaviest key in all bytes."""
        heaviest = max((key.bytes for key in self.top_keys), default=0)
        return heaviest / self.bytes if self.bytes else 0.0

    @property
    def p_max(self) -> float:
        """Return the larger of both shares, which is the tighter limit."""
        return max(self.top_record_share, self.top_byte_share)

    def by_records(self) -> Balance:
        return balance(self.load_records, self.top_record_share)

    def by_bytes(self) -> Balance:
        return balance(self.load_bytes, self.top_byte_share)

    def record_share(self, key: KeyFigures) -> float:
        return key.records / self.records if self.records else 0.0

    def byte_share(self, key: KeyFigures) -> float:
        return key.bytes / self.bytes if self.bytes else 0.0

    def prediction(self, partitions: int) -> Prediction | None:
        """Return the prediction for this partition count, if it was requested."""
        matches = (
            prediction for prediction in self.predictions if prediction.partitions == partitions
        )
        return next(matches, None)
