"""From counted DataFrames to `TopicFigures`: what is left is small, and comes to the driver."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row

from headgate_spark.audit.judgement.figures import (
    BUCKET_MS,
    KeyBucket,
    KeyFigures,
    Keyless,
    Misplaced,
    Prediction,
    ProducerFigures,
    Sizes,
    TopicFigures,
)
from headgate_spark.audit.judgement.measures import Load
from headgate_spark.audit.judgement.what_if import with_keyless
from headgate_spark.audit.passes import counting
from headgate_spark.audit.passes.runs import Lengths, OuterRun, merged, quantile

MAX_WINDOWS = 8640  # 30 days of 5 minutes: older ones are left out of the heat map
ENOUGH_A_WINDOW = 20  # records without a key, to say on which partition most of them are
Rows = list[Row]


@dataclass
class Counted:
    """What was counted, by topic."""

    cells: dict[str, Rows] = field(default_factory=dict)
    producers: dict[str, Rows] = field(default_factory=dict)
    sizes: dict[str, Rows] = field(default_factory=dict)
    top: dict[str, Rows] = field(default_factory=dict)
    writers: dict[str, Rows] = field(default_factory=dict)
    places: dict[str, Rows] = field(default_factory=dict)
    kept: dict[str, Rows] = field(default_factory=dict)
    buckets: dict[str, Rows] = field(default_factory=dict)
    predictions: dict[str, Rows] = field(default_factory=dict)
    misplaced: dict[str, Rows] = field(default_factory=dict)
    runs: Mapping[tuple[str, bytes], Lengths] = field(default_factory=dict)


def collected(frame: DataFrame) -> dict[str, Rows]:
    """The rows of a small frame, by topic."""
    found: dict[str, Rows] = defaultdict(list)
    for row in frame.collect():
        found[row["topic"]].append(row)
    return found


def all_runs(inner: Sequence[Row], outer: Sequence[Row]) -> Mapping[tuple[str, bytes], Lengths]:
    """Run lengths by topic and key, those inside of blocks and those over their ends."""
    names = OuterRun._fields
    found = merged(_outer(row, names) for row in outer)
    for row in inner:
        lengths = found.setdefault((row["topic"], bytes(row["key"])), Counter())
        lengths[row["length"]] += row["runs"]
    return found


def _outer(row: Row, names: Sequence[str]) -> OuterRun:
    values: dict[str, Any] = {name: row[name] for name in names}
    values["key"] = None if values["key"] is None else bytes(values["key"])
    return OuterRun(**values)


def figures_of(
    topic: str,
    partitions: int,
    counted: Counted,
    window: tuple[int | None, int | None],
    numbers: tuple[int, ...] = (),
) -> TopicFigures:
    """One topic's figures. window: what was asked for; None = what the records say.

    partitions: of the topic.  numbers: the only ones that were asked for; empty = all.
    """
    cells = counted.cells.get(topic, [])
    records, size = (_total(cells, name) for name in ("records", "bytes"))
    keyless = tuple(_total(cells, name) for name in ("keyless_records", "keyless_bytes"))
    first, heat_records, heat_bytes = _heat(cells, partitions)
    # of those that nobody asked for it is not known that they are empty, or which keys they have
    rows = list(numbers or range(partitions))
    predictions = [] if numbers else counted.predictions.get(topic, [])
    return TopicFigures(
        topic=topic,
        from_ms=_or(window[0], min((row["first_ms"] for row in cells), default=0)),
        to_ms=_or(window[1], max((row["last_ms"] for row in cells), default=-1) + 1),
        records=records,
        bytes=size,
        keyless_records=keyless[0],
        keyless_bytes=keyless[1],
        tombstones=_total(cells, "tombstones"),
        distinct_keys=sum(row["keys"] for row in counted.buckets.get(topic, [])),
        load_records=_load(cells, partitions, "records")[rows],
        load_bytes=_load(cells, partitions, "bytes")[rows],
        heat_from_ms=first * BUCKET_MS,
        heat_records=heat_records[rows],
        heat_bytes=heat_bytes[rows],
        sizes=_sizes(counted.sizes.get(topic, [])),
        top_keys=_top_keys(topic, counted),
        predictions=_predictions(predictions, keyless),
        misplaced=_misplaced(counted.misplaced.get(topic, [])),
        producers=_producers(counted.producers.get(topic, [])),
        key_buckets=_key_buckets(counted.buckets.get(topic, [])),
        numbers=numbers,
        whole=partitions if numbers else 0,
        keyless=keyless_of((row.asDict() for row in cells), rows),
    )


def _or(wanted: int | None, found: int) -> int:
    return found if wanted is None else wanted


def _total(rows: Rows, name: str) -> int:
    return sum(row[name] for row in rows)


def _load(cells: Rows, partitions: int, name: str) -> Load:
    found = np.zeros(partitions)
    for row in cells:
        found[row["partition"]] += row[name]
    return found


def _heat(cells: Rows, partitions: int) -> tuple[int, Load, Load]:
    last = max((row["window"] for row in cells), default=0)
    first = max(min((row["window"] for row in cells), default=0), last - MAX_WINDOWS + 1)
    shape = (partitions, last - first + 1)
    found = np.zeros(shape), np.zeros(shape)
    for row in cells:
        if row["window"] >= first:
            for heat, name in zip(found, ("records", "bytes"), strict=True):
                heat[row["partition"], row["window"] - first] += row[name]
    return first, found[0], found[1]


def keyless_of(cells: Iterable[Mapping[str, int]], numbers: Sequence[int]) -> Keyless:
    """Of the load of each partition in each window. numbers: the partitions that were read."""
    at = {number: row for row, number in enumerate(numbers)}
    windows: dict[int, Load] = defaultdict(lambda: np.zeros(len(at)))
    for cell in cells:
        if not cell["keyless_records"]:
            continue  # no load for it: most topics have windows by the thousand, and only keys
        windows[cell["window"]][at[cell["partition"]]] += cell["keyless_records"]
    total = sum(windows.values(), np.zeros(len(at)))
    enough = [window for window in windows.values() if window.sum() >= ENOUGH_A_WINDOW]
    same = sum(int(one.argmax()) == int(total.argmax()) for one in enough)
    return Keyless(total, len(enough), same)


def _sizes(rows: Rows) -> Sizes:
    if not rows:
        return Sizes(0, 0, 0, 0)
    p50, p95, p99 = (int(row) for row in rows[0]["quantiles"])
    return Sizes(p50, p95, p99, int(rows[0]["largest"]))


def _top_keys(topic: str, counted: Counted) -> tuple[KeyFigures, ...]:
    writers = _largest(counted.writers.get(topic, []), "records", "producer")
    places = _largest(counted.places.get(topic, []), "on_partition", "partition")
    left = {bytes(row["key"]): row["kept"] for row in counted.kept.get(topic, [])}
    found = []
    for row in counted.top.get(topic, []):
        key = bytes(row["key"])
        lengths = counted.runs.get((topic, key), Counter())
        found.append(
            KeyFigures(
                key, row["records"], row["bytes"], writers.get(key), sum(lengths.values()),
                quantile(lengths, 0.95), places[key], left[key],
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-one.records, one.key)))


def _largest(rows: Rows, weight: str, name: str) -> dict[bytes, Any]:
    # of two that are as large the greater name, so that a report can be made again
    ordered = sorted(rows, key=lambda row: (row[weight], row[name] is not None, row[name]))
    return {bytes(row["key"]): row[name] for row in ordered}


def _predictions(rows: Rows, keyless: tuple[int, ...]) -> tuple[Prediction, ...]:
    loads: dict[int, tuple[Load, Load]] = {}
    moved: Counter[int] = Counter()
    for row in rows:
        n = row["count"]
        if row["kind"] == counting.MOVED:
            moved[n] += row["keys"]
            continue
        records, sizes = loads.setdefault(n, (np.zeros(n), np.zeros(n)))
        records[row["partition"]] += row["records"]
        sizes[row["partition"]] += row["bytes"]
    found = [Prediction(n, *loads[n], moved[n]) for n in sorted(loads)]
    return tuple(with_keyless(one, keyless[0], keyless[1]) for one in found)


def _misplaced(rows: Rows) -> Misplaced:
    by_kind: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    earlier: dict[int, int] = {}
    for row in rows:
        by_kind[row["kind"]] += row["records"]
        keys[row["kind"]] += row["keys"]
        if row["kind"] == counting.EARLIER:
            earlier[row["count"]] = row["records"]
    return Misplaced(
        by_kind[counting.WRONG], by_kind[counting.CRC32], earlier, keys[counting.WRONG]
    )


def _producers(rows: Rows) -> tuple[ProducerFigures, ...]:
    found = [ProducerFigures(row["producer"] or "", row["records"], row["bytes"]) for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.bytes, one.producer)))


def _key_buckets(rows: Rows) -> tuple[KeyBucket, ...]:
    ordered = sorted(rows, key=lambda row: row["step"])
    return tuple(KeyBucket(row["keys"], row["records"], row["bytes"]) for row in ordered)
