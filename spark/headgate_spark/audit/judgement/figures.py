"""What the job has counted of one topic: the input of every judgement, free of Spark."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headgate_spark.audit.judgement.measures import Balance, Load, balance
from headgate_spark.audit.judgement.unpublished import NOT_READ, Unpublished

BUCKET_MS = 300_000  # the 5-minute windows in which bursts are looked for


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
    """What Kafka's partition rule makes of the same keys on `partitions` partitions.

    moved_keys: keys that would leave their place; -1 for the count that the topic has.
    """

    partitions: int
    records: Load
    bytes: Load
    moved_keys: int


class Misplaced(NamedTuple):
    """Keyed records that do not lie where Kafka's rule puts their key.

    crc32: of them, how many lie where librdkafka's default puts them.
    earlier: by partition count, how many lie where the rule puts them with that count.
    keys: how many keys they have; one on two partitions counts twice.
    """

    records: int
    crc32: int
    earlier: Mapping[int, int]
    keys: int


class ProducerFigures(NamedTuple):
    """What one producer sent. producer: empty = records without an `hg-producer` header, as
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
    """How the records without a key lie on the partitions that were read.

    records: by partition.  windows: of 5 minutes with enough of them.  same: in how many of those
    the fullest partition is the one that is the fullest of all.
    """

    records: Load
    windows: int
    same: int


class KeyBucket(NamedTuple):
    """Keys with about equally many records (bytes), for the Lorenz curve over keys."""

    keys: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True)
class TopicFigures:
    """Everything counted of one topic in [from_ms, to_ms).

    heat_records, heat_bytes: one row for each partition, one column for each 5-minute window
    from heat_from_ms on.  tombstones: records without a value.  numbers: which partition each row
    of heats and loads is, where only some were asked for; empty = all of them, from 0.  whole: how
    many the topic has then.  keyless: None = not looked at.
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
    heat_from_ms: int
    heat_records: Load
    heat_bytes: Load
    sizes: Sizes
    top_keys: tuple[KeyFigures, ...]
    predictions: tuple[Prediction, ...]
    misplaced: Misplaced
    producers: tuple[ProducerFigures, ...]
    key_buckets: tuple[KeyBucket, ...] = ()
    unpublished: Unpublished = NOT_READ
    numbers: tuple[int, ...] = ()
    whole: int = 0
    keyless: Keyless | None = None

    @property
    def partitions(self) -> int:
        """Those that were read: what loads can be compared over."""
        return len(self.load_records)

    @property
    def is_part(self) -> bool:
        """Whether the topic has other partitions, of whose keys nothing is known."""
        return bool(self.numbers)

    def row_of(self, partition: int) -> int:
        """Where a partition is in loads and heats."""
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
