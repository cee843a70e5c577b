"""The audit's own load: linear in records, and the hot key that it looks for does not skew it."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate_spark.audit.judgement.diagnosis import diagnose
from headgate_spark.audit.passes import counting
from headgate_spark.audit.passes.assemble import figures_of
from headgate_spark.audit.passes.count_all import STEPS, count_all
from headgate_spark.job.progress import Progress
from headgate_spark.session.schema import FACTS
from headgate_spark.session.source import ROWS_A_TASK

PARTITIONS = 24
KEYS = 200_000


def generate(spark: SparkSession, records: int, folder: Path) -> None:
    """Facts of a topic of which one key has half the records, all of them on partition 5."""
    number = F.xxhash64("id")
    is_hot = F.pmod(number, F.lit(2)) == 0
    other = F.concat(F.lit("key-"), F.pmod(F.shiftright(number, 8), F.lit(KEYS)).cast("string"))
    key = F.when(is_hot, F.lit("hot")).otherwise(other).cast("binary")
    # the audit's partitions need not be the keys': what counts here is the amount
    partition = F.when(is_hot, F.lit(5)).otherwise(F.pmod(F.xxhash64(key), F.lit(PARTITIONS)))
    files = max(2, records // ROWS_A_TASK)  # as many as reading from Kafka makes
    spark.range(0, records, 1, files).select(
        F.lit("scale").alias("topic"),
        partition.cast("int").alias("partition"),
        F.col("id").alias("offset"),
        key.alias("key"),
        (F.lit(100) + F.pmod(number, F.lit(900))).alias("bytes"),
        (F.lit(1_750_000_200_000) + F.col("id") * 3_600_000 / records).cast("long").alias("at_ms"),
        F.lit("web").alias("producer"),
        F.lit(False).alias("is_tombstone"),
    ).write.parquet(str(folder))


def count(spark: SparkSession, records: int, folder: Path) -> float:
    """Count so many facts, see that the truth is found, and return the seconds it took."""
    facts = spark.read.parquet(str(folder / "facts"))
    # tasks for eight cores, so that their times say what more cores would do
    spark.conf.set("spark.sql.shuffle.partitions", "16")
    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "16")
    begun = time.monotonic()
    present = {"scale": PARTITIONS}
    counted = count_all(spark, facts, folder, present, {"scale": (12, 24, 48)}, Progress(STEPS))
    took = time.monotonic() - begun
    figures = figures_of("scale", PARTITIONS, counted, (None, None))
    assert figures.records == records
    assert figures.top_keys[0].key == b"hot"
    assert figures.top_record_share == pytest.approx(0.5, abs=0.01)
    assert {"popular", "foreign_partitioner"} == {one.diagnosis for one in diagnose(figures)}
    return took


def tasks(log: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each task that has ended, from Spark's event log: its stage and its measures.

    The log is written behind the jobs, and whole lines of it when all events are there.
    """
    context = SparkContext._active_spark_context
    assert context is not None
    context._jsc.sc().listenerBus().waitUntilEmpty()
    for file in log.iterdir():
        for line in file.read_text().splitlines():
            if '"SparkListenerTaskEnd"' in line:
                event: dict[str, Any] = json.loads(line)
                yield event["Stage ID"], event["Task Metrics"]


def shuffled(log: Path) -> dict[int, list[int]]:
    """By stage, how many records each of its tasks took from a shuffle."""
    found: dict[int, list[int]] = defaultdict(list)
    for stage, measures in tasks(log):
        found[stage].append(measures["Shuffle Read Metrics"]["Total Records Read"])
    return found


def cpu_times(log: Path) -> dict[int, list[float]]:
    """By stage, the seconds of processor time of each of its tasks."""
    found: dict[int, list[float]] = defaultdict(list)
    for stage, measures in tasks(log):
        found[stage].append(measures["Executor CPU Time"] / 1e9)
    return found


def on_cores(cores: int, stages: Iterable[list[float]]) -> float:
    """The least seconds that these tasks take: each stage waits for the one before it."""
    return sum(max(max(stage), sum(stage) / cores) for stage in stages)


def test_the_hot_key_does_not_skew_the_job(
    spark: SparkSession, event_log: Path, tmp_path: Path
) -> None:
    generate(spark, 300_000, tmp_path / "facts")
    facts = spark.read.schema(FACTS).parquet(str(tmp_path / "facts"))
    spark.conf.set("spark.sql.shuffle.partitions", "8")
    before = set(shuffled(event_log))
    # the two passes whose groups are keys and partitions; the others group by less
    placed = counting.by_partition_and_key(facts).collect()
    assert sum(row["records"] for row in placed) == 300_000
    assert max(row["records"] for row in placed) == pytest.approx(150_000, rel=0.02)
    assert counting.runs(facts).agg(F.sum("length")).collect()[0][0] == 300_000
    stages = {one: loads for one, loads in shuffled(event_log).items() if one not in before}
    large = [loads for loads in stages.values() if sum(loads) >= 30_000 and len(loads) > 1]
    assert large
    for loads in large:
        assert max(loads) <= 2 * sum(loads) / len(loads), loads


@pytest.mark.full
def test_time_and_memory_grow_linearly(
    spark: SparkSession, event_log: Path, tmp_path: Path
) -> None:
    spent, peak = {}, {}
    for records in (1_000_000, 5_000_000, 20_000_000):
        facts = tmp_path / str(records)
        generate(spark, records, facts / "facts")
        before = set(cpu_times(event_log))
        took = count(spark, records, facts)
        peak[records] = java_bytes()
        stages = [times for one, times in cpu_times(event_log).items() if one not in before]
        ideal = {cores: round(on_cores(cores, stages), 1) for cores in (1, 2, 4, 8)}
        spent[records] = ideal[1]
        print(  # noqa: T201
            f"{records:,}: {took:.1f} s, {peak[records] / 2**20:.0f} MiB; "
            f"least seconds on so many cores: {ideal}"
        )
    # of the processors, not of the clock: others may use them, too
    assert spent[20_000_000] <= 1.3 * 4 * spent[5_000_000]
    assert peak[20_000_000] <= 2 * 2**30


def java_bytes() -> int:
    """What Spark's Java has in memory."""
    found = [0]
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a Python worker of Spark's that has just ended
            if one.name() == "java":
                found.append(int(one.memory_info().rss))
    return max(found)
