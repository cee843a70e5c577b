"""The Spark passes count what dictionaries and numpy count, on every generated data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headgate_spark.audit import counting
from headgate_spark.audit.collect import STEPS, Counted, count_all, figures_of
from headgate_spark.audit.diagnosis import earlier_count
from headgate_spark.audit.figures import TopicFigures
from headgate_spark.job.command_line import report_to_people
from headgate_spark.job.progress import Progress
from support.scenarios import skew_world

WORLDS: list[Callable[[], skew_world.Dataset]] = [
    skew_world.uniform,
    skew_world.zipf,
    skew_world.data_bomb,
    skew_world.clumped,
    skew_world.large_values,
    skew_world.burst,
    skew_world.foreign,
    skew_world.changed_count,
    skew_world.empty_keys,
]
COUNTS = (3, 12, 13, 20, 24)


def write_facts(folder: Path, worlds: list[skew_world.Dataset]) -> str:
    """The data sets as facts, shuffled: files promise no order."""
    for number, world in enumerate(worlds):
        table = pa.table(
            {
                "topic": [world.topic] * len(world),
                "partition": pa.array(world.partition, pa.int32()),
                "offset": pa.array(world.offsets(), pa.int64()),
                "key": pa.array(world.keys, pa.binary()),
                "bytes": pa.array(world.sizes, pa.int64()),
                "at_ms": pa.array(world.times_ms, pa.int64()),
                "producer": world.producers,
                "is_tombstone": [False] * len(world),
            }
        )
        order = np.random.default_rng(number).permutation(len(world))
        pq.write_table(table.take(order), folder / f"{number}.parquet")
    return str(folder)


def test_every_figure_equals_the_plain_count(spark: SparkSession, tmp_path: Path) -> None:
    # one test for all: with two workers, two would count everything twice
    facts, out = tmp_path / "facts", tmp_path / "out"
    facts.mkdir()
    worlds = [make() for make in WORLDS]
    frame = spark.read.parquet(write_facts(facts, worlds))
    present = {world.topic: world.partitions for world in worlds}
    counts = dict.fromkeys(present, COUNTS)
    counted = count_all(spark, frame, out, present, counts, Progress(STEPS, report_to_people()))
    for world in worlds:
        check_world(counted, world)


def check_world(counted: Counted, world: skew_world.Dataset) -> None:
    """The job's figures of one data set are those of the plain count."""
    expected = skew_world.figures_of(world)
    found = figures_of(world.topic, world.partitions, counted, (None, None))
    for name in ("records", "bytes", "distinct_keys", "producers", "keyless_records", "sizes"):
        assert getattr(found, name) == getattr(expected, name), name
    assert found.distinct_producers == expected.distinct_producers
    for name in ("load_records", "load_bytes"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for name, one, other in zip(found.busy._fields, found.busy, expected.busy, strict=True):
        assert np.array_equal(one, other), name
    assert found.heat[:3] == expected.heat[:3]
    assert np.array_equal(found.heat.bytes, expected.heat.bytes)
    assert_same_keys(found, expected)
    for one, other in zip(found.predictions, expected.predictions, strict=True):
        assert (one.partitions, one.moved_keys) == (other.partitions, other.moved_keys)
        assert np.array_equal(one.records, other.records)
        assert np.array_equal(one.bytes, other.bytes)
    assert found.misplaced_records == expected.misplaced_records
    for mine, theirs in zip(found.misplaced, expected.misplaced, strict=True):
        assert mine[:-1] == theirs[:-1]
        assert earlier_count(mine) == earlier_count(theirs)
        assert all(fits == theirs.earlier[count] for count, fits in mine.earlier.items())


def assert_same_keys(found: TopicFigures, expected: TopicFigures) -> None:
    """The heaviest keys are the same; of those as heavy as the last one, any may be there."""
    theirs = {one.key: one for one in expected.top_keys}
    common = [one for one in found.top_keys if one.key in theirs]
    assert len(common) >= 10
    for one in common:
        assert one == theirs[one.key]
    assert found.top_record_share == expected.top_record_share
    assert found.top_byte_share == expected.top_byte_share


def test_runs_over_the_ends_of_blocks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "BLOCK", 8)  # 125 blocks instead of one
    world = skew_world.made("cut", 1, [b"a"] * 100 + [b"b", b"a"] * 50 + [b"c"] * 800, 10)
    facts = spark.read.parquet(write_facts(tmp_path, [world]))
    runs = counting.runs(facts).persist()
    top = facts.select("topic", "key").distinct()
    lengths = counting.run_lengths(runs, top).persist()
    found = {(bytes(row["key"]), row["length"]): row["runs"] for row in lengths.collect()}
    assert found == {(b"a", 100): 1, (b"a", 1): 50, (b"b", 1): 50, (b"c", 800): 1}
    figures = counting.run_figures(lengths).collect()
    assert {(bytes(row["key"]), row["runs"], row["run_p95"]) for row in figures} == {
        (b"a", 51, 1), (b"b", 50, 1), (b"c", 1, 800),
    }  # fmt: skip


def test_a_key_of_every_second_is_one_row_on_the_driver(spark: SparkSession) -> None:
    """Weeks of a busy key are millions of seconds: they are summed where they are sorted."""
    at_ms = F.pmod(F.col("id") * 7919, F.lit(30_000)) * 1000  # 30,000 seconds in no order
    key = F.lit("busy").cast("binary").alias("key")
    facts = spark.range(30_000).select(F.lit("busy").alias("topic"), key, at_ms.alias("at_ms"))
    top = facts.select("topic", "key").distinct()
    rows = {
        name: counting.coalesced(facts, top, windows).collect()
        for name, windows in {"usual": {}, "long": {"busy": (5000, 300_000)}}.items()
    }
    assert {name: [row["kept"] for row in found] for name, found in rows.items()} == {
        "usual": [3000],
        "long": [100],
    }


def test_producers_and_windows_do_not_all_come_to_the_driver(spark: SparkSession) -> None:
    """A producer for each record, and a year of windows."""
    year_ms = 365 * 86_400_000
    facts = spark.range(500).select(
        F.lit("many").alias("topic"),
        F.lit(0).alias("partition"),
        F.lit(b"key").alias("key"),
        F.lit(10).cast("long").alias("bytes"),
        (F.col("id") * year_ms / 500).cast("long").alias("at_ms"),
        F.concat(F.lit("p-"), F.col("id").cast("string")).alias("producer"),
        F.lit(False).alias("is_tombstone"),
    )
    listed = counting.by_producer(facts).collect()
    assert (len(listed), {row["of"] for row in listed}) == (counting.TOP_PRODUCERS, {500})
    assert skew_world.place(b"key", 2) == 1  # so that all of them are misplaced
    wrong = counting.misplaced(counting.by_partition_and_key(facts), {"many": 2})
    most = counting.most_misplaced(wrong).collect()
    assert (len(most), {row["all_records"] for row in most}) == (counting.TOP_MISPLACED, {500})
    cells = counting.by_time(facts).persist()
    spans = counting.spans(cells)
    loads = counting.by_partition(cells, spans)
    assert counting.heat(cells, spans, loads).count() <= counting.HEAT_COLUMNS
    assert counting.busy_windows(cells, spans).count() == 0
