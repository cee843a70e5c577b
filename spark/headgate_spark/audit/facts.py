"""A reader of the gateways' facts of a window: parsed, weighted and summed in the JVM."""

from collections.abc import Mapping
from contextlib import ExitStack

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from headgate.audits import facts as names
from headgate.kafka.groups import Partition
from headgate_spark.audit.collect import Row, Tables, collected, rows_of
from headgate_spark.audit.figures import Unpublished, UnpublishedKey, UnpublishedRow
from headgate_spark.job.command_line import JobError, reason_of
from headgate_spark.job.options import Cluster, JobConfig
from headgate_spark.job.progress import Progress
from headgate_spark.session.kafka_view import KafkaView, Range, since
from headgate_spark.session.source import read

TOP_KEYS = 20
TOP_PRODUCERS = 100  # by events
ROWS_A_TASK, MAX_TASKS = 500, 1000
_ALWAYS_MS = (0, 2**62)

# [from, to) in ms since 1970; None = without bound.
Bounds = tuple[int | None, int | None]


def read_unpublished(
    spark: SparkSession, config: JobConfig, windows: Mapping[str, Bounds], progress: Progress
) -> dict[str, Unpublished]:
    """Return the events of each topic that Kafka never received. `windows` are by topic.

    If the facts cannot be read, the audit continues and the result has the reason.
    """
    asking = {topic: window for topic, window in windows.items() if _asks(config, topic)}
    unpublished = {
        topic: Unpublished("the topic writes no facts: set facts = true")
        for topic in windows.keys() - asking.keys()
    }
    cluster = _cluster(config)
    with progress.step(f"reading {names.FACTS_TOPIC}", spark.sparkContext):
        if not asking or cluster is None:
            return unpublished
        try:
            return unpublished | _read(spark, cluster, asking)
        except (PySparkException, Py4JJavaError, JobError) as error:
            why = f"{names.FACTS_TOPIC} could not be read: {reason_of(error)}"
            return unpublished | {topic: Unpublished(why) for topic in asking}


def _asks(config: JobConfig, topic: str) -> bool:
    policy = config.policies.match(topic)
    return policy is not None and policy.facts


def _cluster(config: JobConfig) -> Cluster | None:
    name = names.facts_cluster({name: cluster.tier for name, cluster in config.clusters.items()})
    return None if name is None else config.clusters[name]


def _read(
    spark: SparkSession, cluster: Cluster, windows: Mapping[str, Bounds]
) -> dict[str, Unpublished]:
    with ExitStack() as ending:
        view = ending.enter_context(KafkaView(spark, cluster))
        partitions = view.topics().get(names.FACTS_TOPIC)
        if partitions is None:
            why = f"cluster {cluster.name} has no topic {names.FACTS_TOPIC}: run `headgate init`"
            return {topic: Unpublished(why) for topic in windows}
        ranges = _ranges(view, partitions, windows)
        if not any(offsets.end > offsets.start for offsets in ranges):
            return {topic: _none_found() for topic in windows}
        records = read(spark, cluster, ranges, headers=False, rows_a_task=_rows_a_task(ranges))
        sums = summed(fact_rows(records, windows)).persist()
        ending.callback(sums.unpersist)
        return _results(sums, windows)


def _none_found() -> Unpublished:
    return Unpublished("no facts in this window: all was published, or facts were off then")


def _ranges(view: KafkaView, partitions: int, windows: Mapping[str, Bounds]) -> list[Range]:
    """Return the offsets that may have facts of the windows; records are later than facts."""
    tps = [Partition(names.FACTS_TOPIC, number) for number in range(partitions)]
    starts = [start for start, _ in windows.values() if start is not None]
    is_bounded = len(starts) == len(windows)
    return since(view, tps, min(starts) if is_bounded else None)


def _rows_a_task(ranges: list[Range]) -> int:
    """Return the records per task: a record has from one fact to some thousands."""
    return max(ROWS_A_TASK, sum(offsets.end - offsets.start for offsets in ranges) // MAX_TASKS)


def fact_rows(records: DataFrame, windows: Mapping[str, Bounds]) -> DataFrame:
    """Return one row per fact of these topics and windows.

    A record whose value cannot be read as facts of the topic in its key becomes one row without
    outcome.

    Args:
        records: Records of the topic of facts, as the connector returns them.
    """
    columns = ", ".join(f"{name} array<{kind}>" for name, kind in names.COLUMNS.items())
    schema = f"{names.TOPIC} string, {names.ONE_IN} bigint, {columns}"
    topic = F.col("key").cast("string").alias("of")
    parsed = F.from_json(F.col("value").cast("string"), schema).alias("record")
    chosen = records.where(F.col("key").cast("string").isin(*windows)).select(topic, parsed)
    zipped = [_column(name) for name in names.COLUMNS]
    rows = chosen.select(
        "of",
        (F.col(f"record.{names.TOPIC}") == F.col("of")).alias("fits"),
        F.col(f"record.{names.ONE_IN}").alias("one_in"),
        F.explode_outer(F.arrays_zip(*zipped)).alias("fact"),
    )
    key = F.coalesce(F.col("fact.key").cast("binary"), F.unbase64(F.col("fact.key_base64")))
    is_sound = F.col("fits") & F.col("fact.outcome").isNotNull() & (F.col("one_in") >= 1)
    return rows.select(
        F.col("of").alias("topic"),
        F.when(is_sound, F.col("fact.outcome")).alias("outcome"),
        F.nullif(F.col("fact.producer"), F.lit("")).alias("producer"),
        key.alias("key"),
        F.col("fact.at_ms").alias("at_ms"),
        F.col("one_in"),
        F.coalesce(F.col("fact.events"), F.lit(1)).alias("events"),
        F.coalesce(F.col("fact.bytes"), F.lit(0)).alias("bytes"),
    ).where(F.col("outcome").isNull() | _is_within(windows))


def _column(name: str) -> Column:
    """Return a column; a missing column must not make the others missing."""
    column = F.col(f"record.{name}")
    return F.coalesce(column, F.array().cast(f"array<{names.COLUMNS[name]}>")).alias(name)


def _is_within(windows: Mapping[str, Bounds]) -> Column:
    condition = F.lit(False)
    for topic, (start, end) in windows.items():
        first = _ALWAYS_MS[0] if start is None else start
        last = _ALWAYS_MS[1] if end is None else end
        is_within = (F.col("at_ms") >= first) & (F.col("at_ms") < last)
        condition = condition | ((F.col("topic") == topic) & is_within)
    return condition


def summed(facts: DataFrame) -> DataFrame:
    """Sum up by topic, producer, outcome and key; a fact counts for all of its events."""
    return facts.groupBy("topic", "producer", "outcome", "key").agg(
        F.sum(F.col("events") * F.col("one_in")).alias("events"),
        F.sum(F.col("bytes") * F.col("one_in")).alias("bytes"),
        F.sum("events").alias("seen"),
        F.max("one_in").alias("one_in"),
        F.min("at_ms").alias("first_ms"),
        F.count("*").alias("rows"),
    )


def _results(sums: DataFrame, windows: Mapping[str, Bounds]) -> dict[str, Unpublished]:
    sound = F.col("outcome").isNotNull()
    by_producer = sums.groupBy("topic", "producer", "outcome").agg(
        F.sum("events").alias("events"),
        F.sum("bytes").alias("bytes"),
        F.sum("seen").alias("seen"),
        F.max("one_in").alias("one_in"),
        F.min("first_ms").alias("first_ms"),
        F.sum("rows").alias("rows"),
    )
    by_topic = by_producer.groupBy("topic").agg(
        *(F.sum(F.when(sound, F.col(name))).alias(name) for name in ("events", "bytes")),
        F.max(F.when(sound, F.col("one_in"))).alias("one_in"),
        F.min(F.when(sound, F.col("first_ms"))).alias("first_ms"),
        F.sum(F.when(~sound, F.col("rows")).otherwise(0)).alias("unreadable"),
    )
    heaviest = Window.partitionBy("topic").orderBy(F.desc("all_events"), "producer")
    all_events = F.sum("events").over(Window.partitionBy("topic", "producer"))
    producers = by_producer.where(sound).withColumn("all_events", all_events)
    producers = producers.withColumn("rank", F.dense_rank().over(heaviest))
    order = Window.partitionBy("topic").orderBy(F.desc("events"), "key", "producer", "outcome")
    ranked = sums.where(sound).withColumn("rank", F.row_number().over(order))
    totals = collected(by_topic)
    rows = collected(producers.where(F.col("rank") <= TOP_PRODUCERS))
    keys = collected(ranked.where(F.col("rank") <= TOP_KEYS))
    return {topic: _result(topic, totals, rows, keys) for topic in windows}


def _result(topic: str, totals: Tables, rows: Tables, keys: Tables) -> Unpublished:
    (total,) = [*rows_of(totals.get(topic))] or [{"events": None}]
    if total["events"] is None:
        return _none_found()
    top_rows = sorted(_unpublished_row(row) for row in rows_of(rows.get(topic)))
    ranked = sorted(rows_of(keys.get(topic)), key=lambda row: row["rank"])
    return Unpublished(
        why_unknown=None,
        rows=tuple(top_rows),
        keys=tuple(_unpublished_key(row) for row in ranked),
        since_ms=total["first_ms"],
        is_sampled=total["one_in"] > 1,
        unreadable=total["unreadable"],
        other_events=total["events"] - sum(row.events for row in top_rows),
        other_bytes=total["bytes"] - sum(row.bytes for row in top_rows),
    )


def _unpublished_row(row: Row) -> UnpublishedRow:
    producer, outcome = row["producer"] or "", row["outcome"]
    return UnpublishedRow(producer, outcome, row["events"], row["bytes"], row["seen"])


def _unpublished_key(row: Row) -> UnpublishedKey:
    key = None if row["key"] is None else bytes(row["key"])
    return UnpublishedKey(key, row["producer"] or "", row["outcome"], row["events"], row["bytes"])
