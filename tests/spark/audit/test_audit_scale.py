"""The audit's own load: linear in records, and the hot key that it looks for does not skew it."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headgate_spark.audit import counting
from headgate_spark.audit.collect import STEPS, count_all, figures_of
from headgate_spark.audit.diagnosis import diagnose
from headgate_spark.job.command_line import report_to_people
from headgate_spark.job.progress import Progress
from headgate_spark.session.source import FACTS, ROWS_A_TASK

PARTITIONS = 24
KEYS = 200_000
READINGS = 3


class Cost(NamedTuple):
    """Processor time of a job.

    stages: the seconds of each of its tasks, from the event log.  processes: the seconds of Spark's
    Java and of its Python workers; the tasks' are without those of Python, of the garbage
    collector and of the compiler.
    """

    stages: list[list[float]]
    processes: float

    @property
    def tasks(self) -> float:
        """Of all of them together."""
        return on_cores(1, self.stages)


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
    counted = count_all(
        spark, facts, folder, present, {"scale": (12, 24, 48)}, Progress(STEPS, report_to_people())
    )
    took = time.monotonic() - begun
    figures = figures_of("scale", PARTITIONS, counted, (None, None))
    assert figures.records == records
    assert figures.top_keys[0].key == b"hot"
    assert figures.top_record_share == pytest.approx(0.5, abs=0.01)
    assert {"popular", "foreign_partitioner"} == {one.diagnosis for one in diagnose(figures)}
    return took


def read_alone(facts: DataFrame) -> int:
    """Read every column of all facts and count them.

    A row needs a value of each column, or Spark would not even decode those that nobody asks for.
    """
    seen = F.bit_xor(F.xxhash64(*facts.columns))
    found = facts.agg(F.count("*"), seen).collect()[0]
    return int(found[0])


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


def measured(log: Path, work: Callable[[], float]) -> tuple[float, Cost]:
    """What it returns, and what it cost."""
    before, begun = set(cpu_times(log)), processor_seconds()
    result = work()
    used = processor_seconds() - begun
    return result, Cost([one for at, one in cpu_times(log).items() if at not in before], used)


def processor_seconds() -> float:
    """What the processes that Spark has started used until now, with those that have ended."""
    found = 0.0
    for one in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # its parent counts it from then on
            found += sum(one.cpu_times()[:4])
    return found


def reading_alone(spark: SparkSession, log: Path, records: int, folder: Path) -> Cost:
    """The least of a few readings: the first ones are slower, as Java is not warm yet."""
    found = []
    for _ in range(READINGS):
        facts = spark.read.parquet(str(folder / "facts"))
        seen, cost = measured(log, partial(read_alone, facts))
        assert seen == records
        found.append(cost)
    return min(found, key=lambda cost: cost.tasks)


def beside_its_limit(records: int, audit: Cost, limit: Cost) -> str:
    """A line of what a million records cost."""
    millions = records / 1e6
    parts = [
        f"{name} {ours / millions:.2f}, reading alone {least / millions:.2f}, "
        f"ratio {ours / least:.1f}"
        for name, ours, least in (
            ("tasks", audit.tasks, limit.tasks),
            ("all processes", audit.processes, limit.processes),
        )
    ]
    return "processor seconds per million records: " + "; ".join(parts)


@pytest.mark.full
def test_time_and_memory_grow_linearly(
    spark: SparkSession, event_log: Path, tmp_path: Path
) -> None:
    spent, peak = {}, {}
    for records in (1_000_000, 5_000_000, 20_000_000):
        folder = tmp_path / str(records)
        generate(spark, records, folder / "facts")
        took, audit = measured(event_log, partial(count, spark, records, folder))
        peak[records] = java_bytes()
        ideal = {cores: round(on_cores(cores, audit.stages), 1) for cores in (1, 2, 4, 8)}
        spent[records] = audit.tasks
        limit = reading_alone(spark, event_log, records, folder)
        print(  # noqa: T201
            f"{records:,}: {took:.1f} s, {peak[records] / 2**20:.0f} MiB; "
            f"least seconds on so many cores: {ideal}; {beside_its_limit(records, audit, limit)}"
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
