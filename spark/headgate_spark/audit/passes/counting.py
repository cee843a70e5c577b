"""Counts facts in DataFrames. What is large stays in Spark; only what a report holds comes out.

The hot key that the audit looks for must not slow the audit: whatever is grouped by key is summed
before it is shuffled (Spark's partial aggregation: one row a key and task), and order within a
partition is looked at in blocks of offsets, never by key and never a partition as a whole.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headgate_spark.audit.judgement.figures import BUCKET_MS
from headgate_spark.audit.judgement.hashing import crc32_partitions, hashes, partitions_for
from headgate_spark.audit.passes.runs import kept
from headgate_spark.session.schema import KEPT, SUMS

TOP_KEYS = 50  # by records, and as many by bytes
BLOCK = 16_384  # offsets whose order one task looks at, at a time
COALESCE_MS = (2000, 10_000)  # quiet, maximum: where the topic does not say
PREDICTED, MOVED, WRONG, CRC32, EARLIER = "predicted", "moved", "wrong", "crc32", "earlier"


def by_partition_and_key(facts: DataFrame) -> DataFrame:
    """Records and bytes of each key on each partition."""
    keyed = facts.where(F.col("key").isNotNull())
    return keyed.groupBy("topic", "partition", "key").agg(
        F.count("*").alias("records"),
        F.sum("bytes").alias("bytes"),
    )


def by_key(placed: DataFrame) -> DataFrame:
    """Records and bytes of each key, wherever it lies."""
    return placed.groupBy("topic", "key").agg(
        F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def by_time(facts: DataFrame) -> DataFrame:
    """The load of each partition in each window of 5 minutes."""
    keyless = F.col("key").isNull()
    return facts.groupBy(
        "topic", "partition", F.floor(F.col("at_ms") / BUCKET_MS).cast("long").alias("window")
    ).agg(
        F.count("*").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.count_if(keyless).alias("keyless_records"),
        F.sum(F.when(keyless, F.col("bytes")).otherwise(0)).alias("keyless_bytes"),
        F.count_if("is_tombstone").alias("tombstones"),
        F.min("at_ms").alias("first_ms"),
        F.max("at_ms").alias("last_ms"),
    )


def by_producer(facts: DataFrame) -> DataFrame:
    """What each producer wrote; null where the header is missing."""
    return facts.groupBy("topic", "producer").agg(
        F.count("*").alias("records"), F.sum("bytes").alias("bytes")
    )


def sizes(facts: DataFrame) -> DataFrame:
    """Quantiles of record sizes: exact up to 10,000 records, then within 0.01 % of the rank."""
    quantiles = F.percentile_approx("bytes", [0.5, 0.95, 0.99], 10_000)
    return facts.groupBy("topic").agg(quantiles.alias("quantiles"), F.max("bytes").alias("largest"))


def heaviest(keys: DataFrame, limit: int = TOP_KEYS) -> DataFrame:
    """The keys with most records and those with most bytes (Spark limits before it shuffles)."""
    found = [_first(keys, weight, limit) for weight in ("records", "bytes")]
    return found[0].union(found[1]).distinct()


def _first(keys: DataFrame, weight: str, limit: int) -> DataFrame:
    order = Window.partitionBy("topic").orderBy(F.desc(weight), F.col("key"))
    ranked = keys.withColumn("rank", F.row_number().over(order))
    return ranked.where(F.col("rank") <= limit).select("topic", "key", "records", "bytes")


def distribution(keys: DataFrame) -> DataFrame:
    """Keys by their size, in steps of a quarter of a power of two: the Lorenz curve over keys."""
    step = F.floor(4 * F.log2("records")).cast("int").alias("step")
    return keys.groupBy("topic", step).agg(
        F.count("*").alias("keys"), F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def runs(facts: DataFrame) -> DataFrame:
    """Runs of equal keys within blocks of offsets: key, length, and which end of a block they
    touch. A run that goes on over a block's end is put together by `runs.merged`."""
    block = F.floor(F.col("offset") / BLOCK).cast("long").alias("block")
    rows = facts.select("topic", "partition", block, "offset", "key")
    order = Window.partitionBy("topic", "partition", "block").orderBy("offset")
    before = F.lag("key").over(order)
    starts = (
        rows.withColumn("at", F.row_number().over(order))
        .withColumn("is_start", (F.col("at") == 1) | ~F.col("key").eqNullSafe(before))
        .withColumn("size", F.count("*").over(Window.partitionBy("topic", "partition", "block")))
        .where("is_start")
    )
    following = F.lead("at").over(order)
    return starts.select(
        "topic",
        "partition",
        "block",
        "key",
        (F.coalesce(following, F.col("size") + 1) - F.col("at")).cast("long").alias("length"),
        (F.col("at") == 1).alias("is_first"),
        following.isNull().alias("is_last"),
    )


def inner_runs(found: DataFrame, top: DataFrame) -> DataFrame:
    """How many runs of each length the heaviest keys have inside of blocks."""
    inner = found.where(~F.col("is_first") & ~F.col("is_last"))
    return (
        inner.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
        .groupBy("topic", "key", "length")
        .agg(F.count("*").alias("runs"))
    )


def outer_runs(found: DataFrame) -> DataFrame:
    """The first and the last run of each block: two rows for 16,384 records."""
    return found.where(F.col("is_first") | F.col("is_last")).drop("size")


def coalesced(
    facts: DataFrame, top: DataFrame, coalesce_ms: Mapping[str, tuple[int, int]]
) -> DataFrame:
    """How many records coalescing would have left of the heaviest keys.

    coalesce_ms: quiet and maximum, by topic.  A busy key came in nearly every second of weeks: its
    seconds are walked through where they are sorted, and one number a key comes out.
    """

    def left(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in zip(*_columns(batch), strict=True))
        for (topic, key), mine in groupby(rows, key=itemgetter(0, 1)):
            quiet_s, max_s = (one / 1000 for one in coalesce_ms.get(topic, COALESCE_MS))
            count = kept((second for _, _, second in mine), quiet_s, max_s)
            arrays = [pa.array([topic]), pa.array([key], pa.binary()), pa.array([count])]
            yield pa.RecordBatch.from_arrays(arrays, names=KEPT.names)

    ordered = seconds(facts, top).repartition("topic", "key")
    return ordered.sortWithinPartitions("topic", "key", "second").mapInArrow(left, KEPT)


def _columns(batch: pa.RecordBatch) -> Iterator[list[object]]:
    return (batch.column(name).to_pylist() for name in ("topic", "key", "second"))


def seconds(facts: DataFrame, top: DataFrame) -> DataFrame:
    """In which seconds the heaviest keys came."""
    second = F.floor(F.col("at_ms") / 1000).cast("long").alias("second")
    chosen = facts.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
    return chosen.select("topic", "key", second).distinct()


def writers(facts: DataFrame, top: DataFrame) -> DataFrame:
    """Who wrote how much of the heaviest keys."""
    chosen = facts.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
    return chosen.groupBy("topic", "key", "producer").agg(F.count("*").alias("records"))


def places(placed: DataFrame, top: DataFrame) -> DataFrame:
    """On which partitions the heaviest keys lie."""
    chosen = placed.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
    return chosen.select("topic", "key", "partition", F.col("records").alias("on_partition"))


def predictions(
    keys: DataFrame, present: Mapping[str, int], counts: Mapping[str, Sequence[int]]
) -> DataFrame:
    """What Kafka's rule makes of the keys on other partition counts, and how many keys move."""

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for topic, batch in _by_topic(batches):
            hashed = _hashes(batch)
            here = partitions_for(hashed, present[topic])
            for count in counts[topic]:
                there = partitions_for(hashed, count)
                yield _sums(topic, PREDICTED, count, there, batch)
                yield _sums(topic, MOVED, count, there * 0, batch, here != there)

    return _summed(keys.select("topic", "key", "records", "bytes").mapInArrow(sums, SUMS))


def misplaced(placed: DataFrame, present: Mapping[str, int]) -> DataFrame:
    """Records that do not lie where Kafka's rule puts them, and which other rule explains them."""

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for topic, batch in _by_topic(batches):
            hashed, at = _hashes(batch), batch.column("partition").to_numpy()
            n = present[topic]
            wrong = partitions_for(hashed, n) != at
            if not wrong.any():
                continue
            yield _sums(topic, WRONG, n, at * 0, batch, wrong)
            keys = batch.column("key").filter(pa.array(wrong)).to_pylist()
            theirs = np.full(len(at), -1)
            theirs[wrong] = crc32_partitions(keys, n)
            yield _sums(topic, CRC32, n, at * 0, batch, theirs == at)
            for count in range(1, n):
                fits = wrong & (partitions_for(hashed, count) == at)
                yield _sums(topic, EARLIER, count, at * 0, batch, fits)

    chosen = placed.select("topic", "partition", "key", "records", "bytes")
    return _summed(chosen.mapInArrow(sums, SUMS))


def _by_topic(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in batches:
        topics = batch.column("topic")
        for topic in topics.unique().to_pylist():
            yield topic, batch.filter(pc.equal(topics, topic))


def _hashes(batch: pa.RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    keys = batch.column("key").cast(pa.large_binary())
    _, offsets, data = keys.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[keys.offset : keys.offset + len(keys) + 1]
    content = np.frombuffer(data or b"", dtype=np.uint8)
    return hashes(content, bounds[:-1], np.diff(bounds))


def _sums(
    topic: str,
    kind: str,
    count: int,
    at: np.ndarray[tuple[int], np.dtype[np.int64]],
    batch: pa.RecordBatch,
    chosen: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
) -> pa.RecordBatch:
    """Sums of the batch's rows (of those chosen) by partition, as rows of `schema.SUMS`."""
    records, size = (batch.column(name).to_numpy() for name in ("records", "bytes"))
    ones = np.ones(len(at), dtype=np.int64)
    if chosen is not None:
        at, records, size, ones = (each[chosen] for each in (at, records, size, ones))
    partitions, inverse = np.unique(at, return_inverse=True)
    columns = [_grouped(inverse, each, len(partitions)) for each in (records, size, ones)]
    head = [pa.array([value] * len(partitions)) for value in (topic, kind)]
    numbers = [pa.array([count] * len(partitions), pa.int32()), pa.array(partitions, pa.int32())]
    arrays = [each.cast(pa.string()) for each in head] + numbers
    arrays += [pa.array(each, pa.int64()) for each in columns]
    return pa.RecordBatch.from_arrays(arrays, names=SUMS.names)


def _grouped(
    inverse: np.ndarray[tuple[int], np.dtype[np.intp]],
    values: np.ndarray[tuple[int], np.dtype[np.int64]],
    count: int,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    # in integers: bincount's floats would lose the last bytes of very large sums
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, inverse, values)
    return found


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("topic", "kind", "count", "partition").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("keys").alias("keys"),
    )
