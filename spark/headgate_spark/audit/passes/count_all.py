"""The passes over the facts, in order, each a step on the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from headgate_spark.audit.passes import counting
from headgate_spark.audit.passes.assemble import Counted, all_runs, collected
from headgate_spark.job.progress import Progress

STEPS = 6
LOAD, KEYS = "load.parquet", "keys.parquet"


def count_all(
    spark: SparkSession,
    facts: DataFrame,
    out: PurePath,
    present: Mapping[str, int],
    counts: Mapping[str, Sequence[int]],
    progress: Progress,
    coalesce_ms: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> Counted:
    """Count the facts of all topics at once. facts: `schema.FACTS`, cheap to read again (Parquet).

    present: the partitions of each topic.  counts: the ones to predict.  coalesce_ms: quiet and
    maximum, of the topics that say so.  Writes load.parquet (each partition in each window) and
    keys.parquet (each key on each partition) below `out`.
    """
    context, found = spark.sparkContext, Counted()
    with progress.step("counting partitions, windows and producers", context):
        counting.by_time(facts).write.mode("overwrite").parquet(f"{out}/{LOAD}")
        found.cells = collected(spark.read.parquet(f"{out}/{LOAD}"))
        found.producers = collected(counting.by_producer(facts))
        found.sizes = collected(counting.sizes(facts))
    with progress.step("counting keys", context):
        counting.by_partition_and_key(facts).write.mode("overwrite").parquet(f"{out}/{KEYS}")
        placed = spark.read.parquet(f"{out}/{KEYS}")
        keys = counting.by_key(placed).persist()
        found.buckets = collected(counting.distribution(keys))
        top = counting.heaviest(keys).persist()
        found.top = collected(top)
    with progress.step("predicting other partition counts", context):
        found.predictions = collected(counting.predictions(keys, present, counts))
        keys.unpersist()
    with progress.step("looking for misplaced keys", context):
        found.misplaced = collected(counting.misplaced(placed, present))
    with progress.step("measuring runs", context):
        _count_runs(facts, top, found)
    with progress.step("attributing the heaviest keys", context):
        found.writers = collected(counting.writers(facts, top))
        found.places = collected(counting.places(placed, top))
        found.kept = collected(counting.coalesced(facts, top, coalesce_ms))
        top.unpersist()
    return found


def _count_runs(facts: DataFrame, top: DataFrame, found: Counted) -> None:
    runs = counting.runs(facts).persist()
    inner, outer = counting.inner_runs(runs, top).collect(), counting.outer_runs(runs).collect()
    runs.unpersist()
    found.runs = all_runs(inner, outer)
