"""Figures of one topic: the input of every rule, free of Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from headgate.model.times import shown_time
from headgate_spark.audit.measures import Balance, Load, balance

# ---- events that Kafka never saw, from the gateways' facts


OUTCOMES = ("unchanged", "superseded", "rejected", "duplicate")


class UnpublishedRow(NamedTuple):
    """Events of one producer that ended alike, and the bytes of their values. Sampled facts are
    scaled up; seen: how many events they are of before that, None = all of them."""

    producer: str
    outcome: str
    events: int
    bytes: int
    seen: int | None = None


class UnpublishedKey(NamedTuple):
    """One of the keys with most of these events. key: None = they had none."""

    key: bytes | None
    producer: str
    outcome: str
    events: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unpublished:
    """One topic's. why_unknown: None = it is known.

    since_ms: the first fact that was found.  is_sampled: numbers are estimates.
    unreadable: records of the topic of facts that no gateway wrote.  rows: of the producers with
    most of these events.  other_events, other_bytes: of all other producers.
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
        """Events of a producer by outcome; None where nothing is known."""
        if self.why_unknown is not None:
            return None
        mine = {row.outcome: row.events for row in self.rows if row.producer == producer}
        if not mine and self.other_events:
            return None  # it may be one of the others
        return {outcome: mine.get(outcome, 0) for outcome in OUTCOMES}

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


def _shown(one: UnpublishedKey) -> dict[str, Any]:
    return {**one._asdict(), "key": _text(one.key), "producer": one.producer or None}


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", "backslashreplace")


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
    """One of the heaviest keys. producer: who wrote most of it, None = no `hg-producer` header.

    runs: stretches of equal keys in partition order, of which run_p95 is a length.
    partition: where most of it lies.  kept: records that coalescing would have left.
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
        """The share of its records that follow a record of the same key."""
        return (self.records - self.runs) / self.records if self.records else 0.0

    @property
    def mean_run(self) -> float:
        """The mean length of its runs."""
        return self.records / self.runs if self.runs else 0.0


class Prediction(NamedTuple):
    """Load of the same keys on `partitions` partitions by Kafka's rule.

    moved_keys: keys that would leave their place; -1 for the count that the topic has.
    """

    partitions: int
    records: Load
    bytes: Load
    moved_keys: int


class Misplaced(NamedTuple):
    """Keyed records of one producer that do not lie where Kafka's rule puts their key.

    producer: empty = records without an `hg-producer` header.  keyed: all its records with a key.
    crc32: of the misplaced ones, how many lie where librdkafka's default puts their key.
    empty: how many of them have the empty key, which that default spreads at random.
    keys: how many keys they have; one on two partitions counts twice.
    earlier: by partition count, how many lie where the rule puts them with that count.
    """

    producer: str
    keyed: int
    records: int
    crc32: int
    empty: int
    keys: int
    earlier: Mapping[int, int]


class ProducerFigures(NamedTuple):
    """Events of one producer. producer: empty = records without an `hg-producer` header, as
    one with an empty one; null in audit.json.

    records, bytes: in Kafka. The rest: events that Kafka never saw; None = not known.
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
        """Events that Kafka never saw, as far as that is known."""
        ends = (self.unchanged, self.superseded, self.rejected, self.duplicate)
        return sum(one or 0 for one in ends)


class Keyless(NamedTuple):
    """Distribution of the records without a key over the partitions that were read.

    records: by partition.  windows: of 5 minutes with enough of them.  same: in how many of those
    the fullest partition is the one that is the fullest of all.
    """

    records: Load
    windows: int
    same: int


class BusyWindows(NamedTuple):
    """The windows of 5 minutes in which a burst may be; all others are summed.

    windows: how many there are from the first to the last, whether they have records or not.
    records, bytes: the load of all of them, by partition.
    busy_records, busy_bytes: one row for each partition, one column for each window that has
    `BUSY_SHARE` of the topic's records or bytes.
    """

    windows: int
    records: Load
    bytes: Load
    busy_records: Load
    busy_bytes: Load


class Heat(NamedTuple):
    """The bytes of the fullest partitions over time, in as many cells as a page can show.

    numbers: the partition of each row.  from_ms: where the first column begins.
    stretch_ms: the length of a column.
    """

    numbers: tuple[int, ...]
    from_ms: int
    stretch_ms: int
    bytes: Load


class KeyBucket(NamedTuple):
    """Keys with about equally many records (bytes), for the Lorenz curve over keys."""

    keys: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """Everything counted of one topic in [from_ms, to_ms).

    tombstones: records without a value.  numbers: which partition each row of loads and busy
    windows is, where only some were asked for; empty = all of them, from 0.  whole: how many the
    topic has then.  keyless: None = not looked at.  producers: those with most bytes.
    distinct_producers: how many there are.  misplaced: the producers with most misplaced records,
    who have all of them but `misplaced_by_others`.
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
    heat: Heat
    sizes: Sizes
    top_keys: tuple[KeyFigures, ...]
    predictions: tuple[Prediction, ...]
    misplaced: tuple[Misplaced, ...]
    producers: tuple[ProducerFigures, ...]
    key_buckets: tuple[KeyBucket, ...] = ()
    unpublished: Unpublished = NOT_READ
    numbers: tuple[int, ...] = ()
    whole: int = 0
    keyless: Keyless | None = None
    distinct_producers: int = 0
    misplaced_by_others: int = 0

    @property
    def partitions(self) -> int:
        """Return the number of partitions that were read."""
        return len(self.load_records)

    @property
    def misplaced_records(self) -> int:
        """Keyed records that do not lie where Kafka's rule puts their key."""
        return sum(one.records for one in self.misplaced) + self.misplaced_by_others

    @property
    def keyed_records(self) -> int:
        """Records with a key."""
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
        """The share of all records that the most frequent key has."""
        heaviest = max((key.records for key in self.top_keys), default=0)
        return heaviest / self.records if self.records else 0.0

    @property
    def top_byte_share(self) -> float:
        """The share of all bytes that the heaviest key has."""
        heaviest = max((key.bytes for key in self.top_keys), default=0)
        return heaviest / self.bytes if self.bytes else 0.0

    @property
    def p_max(self) -> float:
        """The larger of the two: what binds first."""
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
        """The prediction for this count, if it was asked for."""
        found = (one for one in self.predictions if one.partitions == partitions)
        return next(found, None)
