"""Counts of facts in DataFrames. Large data stays in Spark; only the report's figures leave it.

A hot key, which the audit looks for, must not slow the audit down. Groups by key are summed before
they are shuffled (Spark's partial aggregation: one row per key and task). The order within a
partition is examined in blocks of offsets, never by key and never for a whole partition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headgate_spark.audit.figures import BUCKET_MS, BUSY_SHARE, FITS
from headgate_spark.audit.predictions import crc32_partitions, hashes, partitions_for
from headgate_spark.session.source import EARLIER, KEPT, MISPLACED, SUMS

# ---- records that coalescing would have left of a key


def kept(seconds: Iterable[int], quiet_s: float, max_s: float) -> int:
    """Return the number of records that coalescing leaves of a key with events in these seconds.

    A window ends after `quiet_s` seconds without events, or after `max_s`; each leaves one record.

    Args:
        seconds: Seconds of the events, in order.
    """
    count, begun, last = 0, 0, 0
    for second in seconds:
        if count == 0 or second - last > quiet_s or second - begun >= max_s:
            count, begun = count + 1, second
        last = second
    return count


# ---- counts of facts, each a DataFrame


TOP_KEYS = 50  # by records, and as many by bytes
TOP_PRODUCERS = 100  # by bytes: a document is small, however many there are
TOP_MISPLACED = 20  # producers of a topic, by records that do not lie where Kafka's rule puts them
MAX_WINDOWS = 8640  # 30 days of 5 minutes: older ones are left out of heat map and bursts
HEAT_COLUMNS, HEAT_ROWS = 72, 48  # more cannot be distinguished
ENOUGH_A_WINDOW = 20  # records without a key, to say on which partition most of them are
BLOCK = 16_384  # offsets whose order one task looks at, at a time
COALESCE_MS = (2000, 10_000)  # quiet, maximum: where the topic does not say
PREDICTED, MOVED = "predicted", "moved"


def by_partition_and_key(facts: DataFrame) -> DataFrame:
    """Return records and bytes of each key on each partition, by producer."""
    keyed = facts.where(F.col("key").isNotNull())
    return keyed.groupBy("topic", "partition", "key", "producer").agg(
        F.count("*").alias("records"),
        F.sum("bytes").alias("bytes"),
    )


def by_key(placed: DataFrame) -> DataFrame:
    """Return records and bytes of each key on all partitions."""
    return placed.groupBy("topic", "key").agg(
        F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def by_time(facts: DataFrame) -> DataFrame:
    """Return the load of each partition in each window of 5 minutes."""
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


def spans(cells: DataFrame) -> DataFrame:
    """Return one row per topic: its load, and the mapping of windows to columns of a heat map.

    Its column `begin` is the first window of heat map and bursts, `stretch` the number of windows
    in a column of the heat map.

    Args:
        cells: The result of `by_time`, as in the functions below.
    """
    topics = cells.groupBy("topic").agg(
        F.min("window").alias("first"),
        F.max("window").alias("last"),
        F.sum("records").alias("all_records"),
        F.sum("bytes").alias("all_bytes"),
    )
    begin = F.greatest("first", F.col("last") - (MAX_WINDOWS - 1))
    topics = topics.select("topic", "last", "all_records", "all_bytes", begin.alias("begin"))
    count = F.col("last") - F.col("begin") + 1
    return topics.withColumn("stretch", F.ceil(count / HEAT_COLUMNS).cast("long"))


def by_partition(cells: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the load of each partition, with its topic's span.

    The columns recent_* cover the windows of heat map and bursts.
    """
    is_recent = F.col("window") >= F.col("begin")
    names = ("records", "bytes", "keyless_records", "keyless_bytes", "tombstones")
    recent = {name: F.when(is_recent, F.col(name)).otherwise(0) for name in ("records", "bytes")}
    return (
        cells.join(F.broadcast(spans), "topic")
        .groupBy("topic", "partition")
        .agg(
            *(F.sum(name).alias(name) for name in names),
            *(F.sum(column).alias(f"recent_{name}") for name, column in recent.items()),
            F.min("first_ms").alias("first_ms"),
            F.max("last_ms").alias("last_ms"),
            *(F.first(name).alias(name) for name in ("begin", "last", "stretch")),
        )
    )


def _recent(cells: DataFrame, spans: DataFrame) -> DataFrame:
    return cells.join(F.broadcast(spans), "topic").where(F.col("window") >= F.col("begin"))


def busy_windows(cells: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the cells of windows that have `BUSY_SHARE` of their topic's records or bytes."""
    loads = cells.groupBy("topic", "window").agg(
        F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )
    is_busy = F.lit(False)
    for name in ("records", "bytes"):
        is_busy = is_busy | (F.col(name) >= BUSY_SHARE * F.col(f"all_{name}"))
    busy = _recent(loads, spans).where(is_busy).select("topic", "window")
    chosen = cells.join(F.broadcast(busy), ["topic", "window"])
    return chosen.select("topic", "partition", "window", "records", "bytes")


def heat(cells: DataFrame, spans: DataFrame, loads: DataFrame) -> DataFrame:
    """Return the bytes of each topic's fullest partitions by column of its heat map."""
    order = Window.partitionBy("topic").orderBy(F.desc("bytes"), "partition")
    ranked = loads.withColumn("rank", F.row_number().over(order))
    chosen = ranked.where(F.col("rank") <= HEAT_ROWS).select("topic", "partition")
    column = F.floor((F.col("window") - F.col("begin")) / F.col("stretch")).cast("int")
    return (
        _recent(cells, spans)
        .join(F.broadcast(chosen), ["topic", "partition"])
        .groupBy("topic", "partition", column.alias("column"))
        .agg(F.sum("bytes").alias("bytes"))
    )


def fullest_without_keys(cells: DataFrame) -> DataFrame:
    """Count the windows in which each partition has the most records without a key.

    Windows with fewer than `ENOUGH_A_WINDOW` records do not count. Of two equally full partitions
    the lower number counts.
    """
    most = F.struct("keyless_records", (-F.col("partition")).alias("before"))
    windows = cells.where(F.col("keyless_records") > 0).groupBy("topic", "window")
    fullest = windows.agg(
        F.sum("keyless_records").alias("keyless_records"),
        F.max_by("partition", most).alias("partition"),
    )
    enough = fullest.where(F.col("keyless_records") >= ENOUGH_A_WINDOW)
    return enough.groupBy("topic", "partition").agg(F.count("*").alias("windows"))


def by_producer(facts: DataFrame) -> DataFrame:
    """Sum up the producers with the most bytes; the name is null if the header is missing.

    The column `of` has the topic's number of producers.
    """
    producers = facts.groupBy("topic", "producer").agg(
        F.count("*").alias("records"), F.sum("bytes").alias("bytes")
    )
    every = Window.partitionBy("topic")
    rank = F.row_number().over(every.orderBy(F.desc("bytes"), "producer"))
    ranked = producers.withColumn("rank", rank).withColumn("of", F.count("*").over(every))
    return ranked.where(F.col("rank") <= TOP_PRODUCERS).drop("rank")


def sizes(facts: DataFrame) -> DataFrame:
    """Return quantiles of record sizes, exact or within 0.01 % of the rank (over 10,000)."""
    quantiles = F.percentile_approx("bytes", [0.5, 0.95, 0.99], 10_000)
    return facts.groupBy("topic").agg(quantiles.alias("quantiles"), F.max("bytes").alias("largest"))


def heaviest(keys: DataFrame, limit: int = TOP_KEYS) -> DataFrame:
    """Return the keys with the most records or bytes (Spark limits before it shuffles)."""
    tops = [_first(keys, weight, limit) for weight in ("records", "bytes")]
    return tops[0].union(tops[1]).distinct()


def _first(keys: DataFrame, weight: str, limit: int) -> DataFrame:
    order = Window.partitionBy("topic").orderBy(F.desc(weight), F.col("key"))
    ranked = keys.withColumn("rank", F.row_number().over(order))
    return ranked.where(F.col("rank") <= limit).select("topic", "key", "records", "bytes")


def distribution(keys: DataFrame) -> DataFrame:
    """Return keys by size, in steps of a quarter of a power of two: the Lorenz curve over keys."""
    step = F.floor(4 * F.log2("records")).cast("int").alias("step")
    return keys.groupBy("topic", step).agg(
        F.count("*").alias("keys"), F.sum("records").alias("records"), F.sum("bytes").alias("bytes")
    )


def runs(facts: DataFrame) -> DataFrame:
    """Return runs of equal keys within blocks of offsets.

    A row has the key, the length, and the end of the block that the run touches. `run_lengths`
    joins runs that continue over the end of a block.
    """
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


def run_lengths(block_runs: DataFrame, top: DataFrame) -> DataFrame:
    """Count the runs of the heaviest keys by length.

    Runs that block ends have cut are joined here. Blocks without records are no gap.

    Args:
        block_runs: The result of `runs`, which is read twice.
        top: The heaviest keys.
    """
    is_outer = F.col("is_first") | F.col("is_last")
    order = Window.partitionBy("topic", "partition").orderBy("block", "is_last")
    goes_on = F.col("is_first") & F.col("key").eqNullSafe(F.lag("key").over(order))
    begins = F.when(goes_on & (F.row_number().over(order) > 1), 0).otherwise(1)
    cut = block_runs.where(is_outer).withColumn("begins", begins)
    numbered = cut.withColumn("run", F.sum("begins").over(order))
    joined = numbered.groupBy("topic", "partition", "run").agg(
        F.first("key").alias("key"), F.sum("length").alias("length")
    )
    inner = block_runs.where(~is_outer).select("topic", "key", "length")
    return (
        inner.union(joined.select("topic", "key", "length"))
        .join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
        .groupBy("topic", "key", "length")
        .agg(F.count("*").alias("runs"))
    )


def run_figures(lengths: DataFrame) -> DataFrame:
    """Return the number of runs of each heaviest key, and the 95th percentile of their lengths.

    The percentile is the least length that at least 95 % of the runs do not exceed.
    """
    every = Window.partitionBy("topic", "key")
    counted = lengths.withColumn("seen", F.sum("runs").over(every.orderBy("length")))
    counted = counted.withColumn("all", F.sum("runs").over(every))
    is_enough = F.col("seen") >= 0.95 * F.col("all")
    return counted.groupBy("topic", "key").agg(
        F.sum("runs").alias("runs"),
        F.min(F.when(is_enough, F.col("length"))).alias("run_p95"),
    )


def coalesced(
    facts: DataFrame, top: DataFrame, coalesce_ms: Mapping[str, tuple[int, int]]
) -> DataFrame:
    """Count the records that coalescing would have left of the heaviest keys.

    A busy key has events in nearly every second of weeks. Its seconds are processed inside Spark,
    and the result is one number per key.

    Args:
        coalesce_ms: Quiet and maximum time, by topic.
    """

    def count_kept(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in zip(*_columns(batch), strict=True))
        for (topic, key), events in groupby(rows, key=itemgetter(0, 1)):
            quiet_s, max_s = (ms / 1000 for ms in coalesce_ms.get(topic, COALESCE_MS))
            count = kept((second for _, _, second in events), quiet_s, max_s)
            arrays = [pa.array([topic]), pa.array([key], pa.binary()), pa.array([count])]
            yield pa.RecordBatch.from_arrays(arrays, names=KEPT.names)

    ordered = seconds(facts, top).repartition("topic", "key")
    return ordered.sortWithinPartitions("topic", "key", "second").mapInArrow(count_kept, KEPT)


def _columns(batch: pa.RecordBatch) -> Iterator[list[object]]:
    return (batch.column(name).to_pylist() for name in ("topic", "key", "second"))


def seconds(facts: DataFrame, top: DataFrame) -> DataFrame:
    """Return the seconds in which the heaviest keys came."""
    second = F.floor(F.col("at_ms") / 1000).cast("long").alias("second")
    chosen = facts.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
    return chosen.select("topic", "key", second).distinct()


def main_places(placed: DataFrame, top: DataFrame) -> DataFrame:
    """Return the main producer and the main partition of each heaviest key.

    Of two equal ones the greater name or number counts, so that a report is reproducible.
    """
    chosen = placed.join(F.broadcast(top.select("topic", "key")), ["topic", "key"])
    main = {}
    for name in ("producer", "partition"):
        sums = chosen.groupBy("topic", "key", name).agg(F.sum("records").alias("records"))
        most = F.struct("records", F.col(name).isNotNull().alias("is_named"), name)
        main[name] = sums.groupBy("topic", "key").agg(F.max(most)[name].alias(name))
    return main["producer"].join(main["partition"], ["topic", "key"])


def predictions(
    keys: DataFrame, present: Mapping[str, int], counts: Mapping[str, Sequence[int]]
) -> DataFrame:
    """Predict loads by Kafka's rule for other partition counts, and the moved keys."""

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for topic, batch in _by_topic(batches):
            hashed = _hashes(batch)
            present_partitions = partitions_for(hashed, present[topic])
            for count in counts[topic]:
                new_partitions = partitions_for(hashed, count)
                yield _sums(topic, PREDICTED, count, new_partitions, batch)
                yield _sums(
                    topic,
                    MOVED,
                    count,
                    new_partitions * 0,
                    batch,
                    present_partitions != new_partitions,
                )

    return _summed(keys.select("topic", "key", "records", "bytes").mapInArrow(sums, SUMS))


def misplaced(placed: DataFrame, present: Mapping[str, int]) -> DataFrame:
    """Sum up, by producer, the records that Kafka's rule puts elsewhere (`MISPLACED`).

    The column `reach` is the highest of the partitions that `FITS` of them are on. With an earlier
    partition count all would be below that count.
    """

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for topic, batch in _by_topic(batches):
            yield _misplaced_by_place(topic, batch, present[topic])

    chosen = placed.select("topic", "partition", "key", "producer", "records")
    columns = ("topic", "producer", "partition")
    counts = [name for name in MISPLACED.names if name not in columns]
    by_place = chosen.mapInArrow(sums, MISPLACED).groupBy(*columns)
    by_writer = by_place.agg(*(F.sum(name).alias(name) for name in counts))
    of_producer = Window.partitionBy("topic", "producer")
    below = F.sum("records").over(of_producer.orderBy("partition"))
    is_enough = below >= FITS * F.sum("records").over(of_producer)
    reach = F.when(is_enough, F.col("partition"))
    return (
        by_writer.withColumn("reach", reach)
        .groupBy("topic", "producer")
        .agg(*(F.sum(name).alias(name) for name in counts), F.min("reach").alias("reach"))
    )


def most_misplaced(producers: DataFrame) -> DataFrame:
    """Return the producers with the most misplaced records, with the sums of all."""
    every = Window.partitionBy("topic")
    rank = F.row_number().over(every.orderBy(F.desc("records"), "producer"))
    ranked = producers.where(F.col("records") > 0).withColumn("rank", rank)
    ranked = ranked.withColumn("all_records", F.sum("records").over(every))
    ranked = ranked.withColumn("of", F.count("*").over(every))
    return ranked.where(F.col("rank") <= TOP_MISPLACED)


def earlier(
    placed: DataFrame, present: Mapping[str, int], reaches: Mapping[tuple[str, str], int]
) -> DataFrame:
    """Count, by partition count, the misplaced records of a producer that the count explains.

    Args:
        reaches: Reach by topic and producer; no lower count can explain their records.
    """

    def sums(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for topic, batch in _by_topic(batches):
            for producer in batch.column("producer").unique().to_pylist():
                reach = reaches.get((topic, producer))
                if reach is None:
                    continue
                own_rows = batch.filter(pc.equal(batch.column("producer"), producer))
                yield _fits(topic, producer, own_rows, reach, present[topic])

    topics = sorted({topic for topic, _ in reaches})
    name = F.coalesce("producer", F.lit("")).alias("producer")
    chosen = placed.where(F.col("topic").isin(topics))
    chosen = chosen.select("topic", "partition", "key", name, "records")
    explained = chosen.mapInArrow(sums, EARLIER).groupBy("topic", "producer", "count")
    return explained.agg(F.sum("records").alias("records"))


def _misplaced_by_place(topic: str, batch: pa.RecordBatch, n: int) -> pa.RecordBatch:
    hashed, at = _hashes(batch), batch.column("partition").to_numpy()
    records = batch.column("records").to_numpy()
    wrong = partitions_for(hashed, n) != at
    is_empty = pc.equal(pc.binary_length(batch.column("key")), 0).to_numpy(zero_copy_only=False)
    is_crc32 = np.zeros(len(at), dtype=bool)
    keys = batch.column("key").filter(pa.array(wrong)).to_pylist()
    is_crc32[wrong] = crc32_partitions(keys, n) == at[wrong]
    names = batch.column("producer").fill_null("").dictionary_encode()
    codes = names.indices.to_numpy().astype(np.int64) * n + at
    places, inverse = np.unique(codes, return_inverse=True)
    counts = {
        "keyed": records,
        "records": records * wrong,
        "keys": wrong.astype(np.int64),
        "crc32": records * (is_crc32 & ~is_empty),
        "empty": records * (wrong & is_empty),
    }
    columns = {
        "topic": pa.array([topic] * len(places), pa.string()),
        "producer": names.dictionary.take(pa.array(places // n)),
        "partition": pa.array(places % n, pa.int32()),
    } | {name: pa.array(_grouped(inverse, each, len(places))) for name, each in counts.items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in MISPLACED.names], MISPLACED.names)


def _fits(
    topic: str, producer: str, batch: pa.RecordBatch, reach: int, present: int
) -> pa.RecordBatch:
    """Yield the records that each partition count above `reach` explains, without empty rows."""
    hashed, at = _hashes(batch), batch.column("partition").to_numpy()
    records = batch.column("records").to_numpy()
    wrong = partitions_for(hashed, present) != at
    hashed, at, records = hashed[wrong], at[wrong], records[wrong]
    sums = {
        n: int(records[partitions_for(hashed, n) == at].sum()) for n in range(reach + 1, present)
    }
    explained = {n: total for n, total in sums.items() if total}
    arrays = [
        pa.array([topic] * len(explained), pa.string()),
        pa.array([producer] * len(explained), pa.string()),
        pa.array(list(explained), pa.int32()),
        pa.array(list(explained.values()), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(arrays, EARLIER.names)


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
    """Sum the batch's rows (or the chosen ones) by partition, as rows of `SUMS`."""
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
    sums = np.zeros(count, dtype=np.int64)
    np.add.at(sums, inverse, values)
    return sums


def _summed(rows: DataFrame) -> DataFrame:
    return rows.groupBy("topic", "kind", "count", "partition").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("keys").alias("keys"),
    )
