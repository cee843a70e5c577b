"""Facts read from Kafka: one compact row per record, without its value, read once."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from headgate.model.record import PRODUCER
from headgate_spark.job.options import Cluster
from headgate_spark.session.kafka_view import Range

ROWS_A_TASK = 250_000  # a hot partition is read by several tasks


def facts_of(spark: SparkSession, cluster: Cluster, ranges: Sequence[Range]) -> DataFrame:
    """Return the facts of these offsets, lazily, as rows of `FACTS`."""
    total = sum(offsets.end - offsets.start for offsets in ranges)
    # The connector makes at least one task of each partition; small ones share a task here.
    tasks = max(spark.sparkContext.defaultParallelism, total // ROWS_A_TASK)
    return (
        read(spark, cluster, ranges, headers=True)
        .coalesce(tasks)
        .select(
            "topic",
            "partition",
            "offset",
            "key",
            _size().alias("bytes"),
            F.unix_millis("timestamp").alias("at_ms"),
            _producer().alias("producer"),
            F.col("value").isNull().alias("is_tombstone"),
        )
    )


def within(facts: DataFrame, window: tuple[int | None, int | None]) -> DataFrame:
    """Return the facts whose records' own times are in a window, in ms; None for no bound."""
    first, end = window
    if first is not None:
        facts = facts.where(F.col("at_ms") >= first)
    return facts if end is None else facts.where(F.col("at_ms") < end)


def read(
    spark: SparkSession,
    cluster: Cluster,
    ranges: Sequence[Range],
    *,
    headers: bool,
    rows_a_task: int = ROWS_A_TASK,
) -> DataFrame:
    """Return the records of these offsets as the connector returns them, lazily."""
    wanted = [offsets for offsets in ranges if offsets.end > offsets.start]
    total = sum(offsets.end - offsets.start for offsets in wanted)
    options = {
        "assign": json.dumps(_nested(dict.fromkeys(wanted, 0), values=False)),
        "startingOffsets": json.dumps(_nested({offsets: offsets.start for offsets in wanted})),
        "endingOffsets": json.dumps(_nested({offsets: offsets.end for offsets in wanted})),
        "includeHeaders": str(headers).lower(),
        # An offset that is gone ends the job: a hole would make every figure wrong.
        "failOnDataLoss": "true",
        "minPartitions": str(max(len(wanted), total // rows_a_task)),
        "kafka.isolation.level": "read_committed",
        # Spark's defaults are 2 minutes for each poll, and 3 or more for the first request.
        "kafkaConsumer.pollTimeoutMs": str(cluster.patience_ms),
        "fetchOffset.numRetries": "1",
        **{f"kafka.{name}": value for name, value in {**cluster.client, **cluster.waiting}.items()},
    }
    return spark.read.format("kafka").options(**options).load()


def _nested(numbers: Mapping[Range, int], *, values: bool = True) -> Mapping[str, object]:
    """Return Spark's JSON: {"topic": {"0": 5}}, or {"topic": [0]}."""
    nested: dict[str, dict[str, int]] = defaultdict(dict)
    for offsets, number in numbers.items():
        nested[offsets.tp.topic][str(offsets.tp.partition)] = number
    if values:
        return nested
    return {
        topic: [int(partition) for partition in partitions] for topic, partitions in nested.items()
    }


def _size() -> Column:
    """Return the bytes of key, value and headers."""
    headers = F.aggregate(
        F.col("headers"),
        F.lit(0).cast("long"),
        lambda total, header: (
            total
            + F.octet_length(header["key"]).cast("long")
            + F.coalesce(F.length(header["value"]), F.lit(0)).cast("long")
        ),
    )
    parts = [F.coalesce(F.length(name), F.lit(0)).cast("long") for name in ("key", "value")]
    return parts[0] + parts[1] + F.coalesce(headers, F.lit(0).cast("long"))


def _producer() -> Column:
    """Return the producer; null for a foreign writer without such a header or with an empty one."""
    ours = F.filter("headers", lambda header: header["key"] == PRODUCER)
    return F.nullif(F.try_element_at(ours, F.lit(-1))["value"].cast("string"), F.lit(""))


# ---- columns of the jobs' Parquet files


# One row a record in Kafka. key: null = none.  bytes: of key, value and headers.  at_ms: the
# record's timestamp.  producer: null = no `hg-producer` header, or an
# empty one.
FACTS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("offset", LongType(), nullable=False),
        StructField("key", BinaryType()),
        StructField("bytes", LongType(), nullable=False),
        StructField("at_ms", LongType(), nullable=False),
        StructField("producer", StringType()),
        StructField("is_tombstone", BooleanType(), nullable=False),
    ]
)

# One row a key: how many records coalescing would have left of it.
KEPT = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("key", BinaryType(), nullable=False),
        StructField("kept", LongType(), nullable=False),
    ]
)

# One row of a sum over hashed keys. kind: see `counting.py`.
SUMS = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("count", IntegerType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("records", LongType(), nullable=False),
        StructField("bytes", LongType(), nullable=False),
        StructField("keys", LongType(), nullable=False),
    ]
)

# One row of a sum over the keys that a producer wrote to one partition. producer: empty = none.
# keyed: records with a key.  records: of them, those that do not lie where Kafka's rule puts
# their key.  keys: of these.  crc32: of these, how many records lie where librdkafka's default
# puts them.  empty: of these, how many have the empty key.
MISPLACED = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("producer", StringType(), nullable=False),
        StructField("partition", IntegerType(), nullable=False),
        StructField("keyed", LongType(), nullable=False),
        StructField("records", LongType(), nullable=False),
        StructField("keys", LongType(), nullable=False),
        StructField("crc32", LongType(), nullable=False),
        StructField("empty", LongType(), nullable=False),
    ]
)

# One row of a sum: the misplaced records of a producer that lie right under a partition count.
EARLIER = StructType(
    [
        StructField("topic", StringType(), nullable=False),
        StructField("producer", StringType(), nullable=False),
        StructField("count", IntegerType(), nullable=False),
        StructField("records", LongType(), nullable=False),
    ]
)
