"""The passes over the facts, in order, and their results as `TopicFigures`.

The data that reaches the driver is bounded by partitions and constants, never by records, keys,
producers or windows. It arrives as Arrow, in which a number takes 8 bytes; a Python row takes 600.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headgate_spark.audit import counting
from headgate_spark.audit.figures import (
    BUCKET_MS,
    FITS,
    BusyWindows,
    HeatMap,
    KeyBucket,
    KeyFigures,
    Keyless,
    Misplaced,
    Prediction,
    ProducerFigures,
    Sizes,
    TopicFigures,
)
from headgate_spark.audit.measures import Load
from headgate_spark.audit.predictions import with_keyless
from headgate_spark.job.progress import Progress

Tables = Mapping[str, pa.Table]  # by topic
Row = dict[str, Any]


@dataclass
class Counted:
    """Results by topic; each field is the result of the pass with the same name in `counting`."""

    loads: Tables = field(default_factory=dict)
    busy: Tables = field(default_factory=dict)
    heat: Tables = field(default_factory=dict)
    fullest: Tables = field(default_factory=dict)
    producers: Tables = field(default_factory=dict)
    sizes: Tables = field(default_factory=dict)
    top: Tables = field(default_factory=dict)
    main: Tables = field(default_factory=dict)
    kept: Tables = field(default_factory=dict)
    runs: Tables = field(default_factory=dict)
    buckets: Tables = field(default_factory=dict)
    predictions: Tables = field(default_factory=dict)
    misplaced: Tables = field(default_factory=dict)
    earlier: Tables = field(default_factory=dict)


def collected(frame: DataFrame) -> Tables:
    """Return the rows of a small frame by topic."""
    table = frame.toArrow().sort_by("topic").combine_chunks()
    tables, start = {}, 0
    for count in pc.value_counts(table.column("topic")).to_pylist():
        tables[count["values"]] = table.slice(start, count["counts"])
        start += count["counts"]
    return tables


def figures_of(
    topic: str,
    partitions: int,
    counted: Counted,
    window: tuple[int | None, int | None],
    numbers: tuple[int, ...] = (),
) -> TopicFigures:
    """Return one topic's figures.

    Args:
        window: The requested window; None for the range of the records.
        partitions: Number of the topic's partitions.
        numbers: The requested partitions; empty for all.
    """
    loads = counted.loads.get(topic)
    names = ("records", "bytes", "keyless_records", "keyless_bytes", "tombstones")
    total = {name: 0 if loads is None else _sum(loads, name) for name in names}
    # other partitions may have records: only the requested ones are listed
    rows = list(numbers or range(partitions))
    keyless = total["keyless_records"], total["keyless_bytes"]
    predictions = None if numbers else counted.predictions.get(topic)
    first_ms = 0 if loads is None else pc.min(loads.column("first_ms")).as_py()
    last_ms = -1 if loads is None else pc.max(loads.column("last_ms")).as_py()
    producers = counted.producers.get(topic)
    misplaced_rows = list(rows_of(counted.misplaced.get(topic)))
    misplaced = _misplaced(misplaced_rows, counted.earlier.get(topic))
    all_misplaced = misplaced_rows[0]["all_records"] if misplaced_rows else 0
    return TopicFigures(
        topic=topic,
        from_ms=first_ms if window[0] is None else window[0],
        to_ms=last_ms + 1 if window[1] is None else window[1],
        records=total["records"],
        bytes=total["bytes"],
        keyless_records=keyless[0],
        keyless_bytes=keyless[1],
        tombstones=total["tombstones"],
        distinct_keys=sum(row["keys"] for row in rows_of(counted.buckets.get(topic))),
        load_records=_load(loads, partitions, "records")[rows],
        load_bytes=_load(loads, partitions, "bytes")[rows],
        busy=_busy(topic, counted, partitions, rows),
        heat=_heat(topic, counted),
        sizes=_sizes(counted.sizes.get(topic)),
        top_keys=_top_keys(topic, counted),
        predictions=_predictions(predictions, keyless),
        misplaced=misplaced,
        producers=_producers(producers),
        key_buckets=_key_buckets(counted.buckets.get(topic)),
        numbers=numbers,
        topic_partitions=partitions if numbers else 0,
        keyless=keyless_of(
            _load(loads, partitions, "keyless_records")[rows],
            {row["partition"]: row["windows"] for row in rows_of(counted.fullest.get(topic))},
            rows,
        ),
        distinct_producers=0 if producers is None else producers.column("of")[0].as_py(),
        misplaced_by_others=all_misplaced - sum(each.records for each in misplaced),
    )


def rows_of(table: pa.Table | None) -> Iterator[Row]:
    """Return rows one by one, for few rows or for rows that become objects anyway."""
    for batch in () if table is None else table.to_batches(max_chunksize=1000):
        yield from batch.to_pylist()


def _numbers(table: pa.Table, name: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(table.column(name).to_numpy())


def _sum(table: pa.Table, name: str) -> int:
    return int(_numbers(table, name).sum())


def _load(loads: pa.Table | None, partitions: int, name: str) -> Load:
    load = np.zeros(partitions)
    if loads is not None:
        load[_numbers(loads, "partition")] = _numbers(loads, name)
    return load


def _busy(topic: str, counted: Counted, partitions: int, rows: Sequence[int]) -> BusyWindows:
    loads, cells = counted.loads.get(topic), counted.busy.get(topic)
    span = {"begin": 0, "last": -1} if loads is None else loads.slice(0, 1).to_pylist()[0]
    windows = np.unique([] if cells is None else _numbers(cells, "window"))
    busy = {name: np.zeros((partitions, len(windows))) for name in ("records", "bytes")}
    for name, load in busy.items():
        if cells is not None:
            column = np.searchsorted(windows, _numbers(cells, "window"))
            load[_numbers(cells, "partition"), column] = _numbers(cells, name)
    return BusyWindows(
        span["last"] - span["begin"] + 1,
        _load(loads, partitions, "recent_records")[rows],
        _load(loads, partitions, "recent_bytes")[rows],
        busy["records"][rows],
        busy["bytes"][rows],
    )


def _heat(topic: str, counted: Counted) -> HeatMap:
    cells = counted.heat.get(topic)
    if cells is None:
        return HeatMap((), 0, BUCKET_MS, np.zeros((0, 0)))
    span = counted.loads[topic].slice(0, 1).to_pylist()[0]
    numbers, row = np.unique(_numbers(cells, "partition"), return_inverse=True)
    columns = -(-(span["last"] - span["begin"] + 1) // span["stretch"])
    heat_bytes = np.zeros((len(numbers), columns))
    heat_bytes[row, _numbers(cells, "column")] = _numbers(cells, "bytes")
    begins_ms, stretch_ms = span["begin"] * BUCKET_MS, span["stretch"] * BUCKET_MS
    return HeatMap(tuple(numbers.tolist()), begins_ms, stretch_ms, heat_bytes)


def keyless_of(total: Load, fullest: Mapping[int, int], numbers: Sequence[int]) -> Keyless:
    """Return the figures of the records without a key.

    Args:
        total: Their load, by partition.
        fullest: Number of windows in which each partition has most of them.
        numbers: The partition of each row of `total`.
    """
    most = numbers[int(total.argmax())] if total.any() else -1
    return Keyless(total, sum(fullest.values()), fullest.get(most, 0))


def _sizes(table: pa.Table | None) -> Sizes:
    for row in rows_of(table):
        p50, p95, p99 = (int(quantile) for quantile in row["quantiles"])
        return Sizes(p50, p95, p99, int(row["largest"]))
    return Sizes(0, 0, 0, 0)


def _top_keys(topic: str, counted: Counted) -> tuple[KeyFigures, ...]:
    main, runs, kept = (
        {row["key"]: row for row in rows_of(tables.get(topic))}
        for tables in (counted.main, counted.runs, counted.kept)
    )
    keys = []
    for row in rows_of(counted.top.get(topic)):
        key = row["key"]
        keys.append(
            KeyFigures(
                bytes(key), row["records"], row["bytes"], main[key]["producer"],
                runs[key]["runs"], runs[key]["run_p95"], main[key]["partition"],
                kept[key]["kept"],
            )
        )  # fmt: skip
    return tuple(sorted(keys, key=lambda figures: (-figures.records, figures.key)))


def _predictions(table: pa.Table | None, keyless: tuple[int, int]) -> tuple[Prediction, ...]:
    if table is None:
        return ()
    is_moved = pc.equal(table.column("kind"), counting.MOVED)
    moved = {row["count"]: row["keys"] for row in rows_of(table.filter(is_moved))}
    loads = table.filter(pc.invert(is_moved))
    counts, predicted = _numbers(loads, "count"), []
    for n in np.unique(counts).tolist():
        count_loads = loads.filter(pa.array(counts == n))
        records, sizes = (_load(count_loads, n, name) for name in ("records", "bytes"))
        predicted.append(Prediction(n, records, sizes, moved.get(n, 0)))
    return tuple(with_keyless(prediction, *keyless) for prediction in predicted)


def _misplaced(rows: Sequence[Row], earlier: pa.Table | None) -> tuple[Misplaced, ...]:
    counts: dict[str, dict[int, int]] = {}
    for row in rows_of(earlier):
        counts.setdefault(row["producer"], {})[row["count"]] = row["records"]
    return tuple(
        Misplaced(
            row["producer"], row["keyed"], row["records"], row["crc32"], row["empty"],
            row["keys"], counts.get(row["producer"], {}),
        )
        for row in sorted(rows, key=lambda row: row["rank"])
    )  # fmt: skip


def _producers(table: pa.Table | None) -> tuple[ProducerFigures, ...]:
    producers = [
        ProducerFigures(row["producer"] or "", row["records"], row["bytes"])
        for row in rows_of(table)
    ]
    return tuple(sorted(producers, key=lambda producer: (-producer.bytes, producer.producer)))


def _key_buckets(table: pa.Table | None) -> tuple[KeyBucket, ...]:
    ordered = sorted(rows_of(table), key=lambda row: row["step"])
    return tuple(KeyBucket(row["keys"], row["records"], row["bytes"]) for row in ordered)


def unexplained(misplaced: Tables) -> dict[tuple[str, str], int]:
    """Return producers whose misplaced records librdkafka's default does not explain.

    The value is the `reach` of each, for `earlier`. `misplaced` is the result of
    `counting.most_misplaced`.
    """
    rows = (row for table in misplaced.values() for row in rows_of(table))
    return {
        (row["topic"], row["producer"]): row["reach"]
        for row in rows
        if row["crc32"] + row["empty"] < FITS * row["records"]
    }


# ---- the passes in order, each a step on the terminal


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
    """Count the facts of all topics at once.

    Writes load.parquet (each partition in each window) and keys.parquet (each key on each
    partition, by producer) below `out`.

    Args:
        facts: Rows of `session.source.FACTS`, cheap to read again (Parquet).
        present: The partitions of each topic.
        counts: The partition counts to predict.
        coalesce_ms: Quiet and maximum time of the topics that coalesce.
    """
    context, counted = spark.sparkContext, Counted()
    with progress.step("counting partitions, windows and producers", context):
        counting.by_time(facts).write.mode("overwrite").parquet(f"{out}/{LOAD}")
        _roll_up(spark.read.parquet(f"{out}/{LOAD}"), counted)
        counted.producers = collected(counting.by_producer(facts))
        counted.sizes = collected(counting.sizes(facts))
    with progress.step("counting keys", context):
        counting.by_partition_and_key(facts).write.mode("overwrite").parquet(f"{out}/{KEYS}")
        placed = spark.read.parquet(f"{out}/{KEYS}")
        keys = counting.by_key(placed).persist()
        counted.buckets = collected(counting.distribution(keys))
        top = counting.heaviest(keys).persist()
        counted.top = collected(top)
    with progress.step("predicting other partition counts", context):
        counted.predictions = collected(counting.predictions(keys, present, counts))
        keys.unpersist()
    with progress.step("looking for misplaced keys", context):
        misplaced = counting.most_misplaced(counting.misplaced(placed, present))
        counted.misplaced = collected(misplaced)
        reaches = unexplained(counted.misplaced)
        if reaches:
            counted.earlier = collected(counting.earlier(placed, present, reaches))
    with progress.step("measuring runs", context):
        runs = counting.runs(facts).persist()
        counted.runs = collected(counting.run_figures(counting.run_lengths(runs, top)))
        runs.unpersist()
    with progress.step("attributing the heaviest keys", context):
        counted.main = collected(counting.main_places(placed, top))
        counted.kept = collected(counting.coalesced(facts, top, coalesce_ms))
        top.unpersist()
    return counted


def _roll_up(cells: DataFrame, counted: Counted) -> None:
    """Sum partitions by 5 minutes, which are millions of cells, inside Spark."""
    spans = counting.spans(cells).persist()
    loads = counting.by_partition(cells, spans).persist()
    counted.loads = collected(loads)
    counted.busy = collected(counting.busy_windows(cells, spans))
    counted.heat = collected(counting.heat(cells, spans, loads))
    counted.fullest = collected(counting.fullest_without_keys(cells))
    loads.unpersist()
    spans.unpersist()
