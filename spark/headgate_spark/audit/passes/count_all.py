"""The passes over the facts, in order, each a step on the terminal."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

from pyspark.sql import DataFrame, SparkSession

from headgate_spark.audit.passes import counting
from headgate_spark.audit.passes.assemble import Counted, collected, unexplained
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
    keys.parquet (each key on each partition, by producer) below `out`.
    """
    context, found = spark.sparkContext, Counted()
    with progress.step("counting partitions, windows and producers", context):
        counting.by_time(facts).write.mode("overwrite").parquet(f"{out}/{LOAD}")
        _roll_up(spark.read.parquet(f"{out}/{LOAD}"), found)
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
        misplaced = counting.most_misplaced(counting.misplaced(placed, present))
        found.misplaced = collected(misplaced)
        reaches = unexplained(found.misplaced)
        if reaches:
            found.earlier = collected(counting.earlier(placed, present, reaches))
    with progress.step("measuring runs", context):
        runs = counting.runs(facts).persist()
        found.runs = collected(counting.run_figures(counting.run_lengths(runs, top)))
        runs.unpersist()
    with progress.step("attributing the heaviest keys", context):
        found.main = collected(counting.main_places(placed, top))
        found.kept = collected(counting.coalesced(facts, top, coalesce_ms))
        top.unpersist()
    return found


def _roll_up(cells: DataFrame, found: Counted) -> None:
    """Partitions by 5 minutes are millions of cells: they are summed where they are."""
    spans = counting.spans(cells).persist()
    loads = counting.by_partition(cells, spans).persist()
    found.loads = collected(loads)
    found.busy = collected(counting.busy_windows(cells, spans))
    found.heat = collected(counting.heat(cells, spans, loads))
    found.fullest = collected(counting.fullest_without_keys(cells))
    loads.unpersist()
    spans.unpersist()
