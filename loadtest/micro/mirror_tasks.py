"""Is the mirror linear over partitions? What `mirror.py --tasks 1,2,4` measures.

For each count a topic of so many partitions is copied by as many Spark tasks at once, as `mirror`
does it: each task in a Python process of its own. Where cores are missing its time of the wall
says nothing, but processor time does: tasks that disturb each other would need more of it a record.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from headgate.replays.offset_map import Layout, MapAddress
from headgate_spark.copying.reader import Copied, CopyOptions, CopyUnit
from headgate_spark.mirror.copier import copy_all, deal
from headgate_spark.session.session import open_session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from procfs import cpu_seconds, family, machine_busy_seconds

ROUNDS = 5


class Round(NamedTuple):
    """Microseconds of processor time a record, and records a second of all tasks together.

    foreign: cores that other processes of the machine used meanwhile.
    """

    tasks: float
    java: float
    brokers: float
    rate: float
    foreign: float


class Shape(NamedTuple):
    """partitions: of the topic.  tasks: that copy it at once."""

    partitions: int
    tasks: int


def run_tasks(
    spark: SparkSession, dealt: Sequence[Sequence[CopyUnit]], options: CopyOptions
) -> float:
    """Copy; the seconds of processor time of all tasks. As `copy_tasks.run_on_spark`, measured."""

    def copy(units: Iterable[Sequence[CopyUnit]]) -> Iterator[tuple[Sequence[Copied], float]]:
        for some in units:
            begun = time.process_time()
            copied = asyncio.run(copy_all(some, options))
            yield copied, time.process_time() - begun

    rdd = spark.sparkContext.parallelize(list(dealt), len(dealt))
    found = rdd.mapPartitions(copy).collect()
    wrong = [one for copied, _ in found for one in copied if one.trouble is not None or one.foreign]
    assert not wrong, wrong
    return float(sum(used_s for _, used_s in found))


def units_of(topic: str, source_id: str, shape: Shape, number: int, records: int) -> list[CopyUnit]:
    """Every round is a layout of its own, as if the target had been recreated."""
    layout = Layout(shape.partitions, source_id, f"round-{number}", 0)
    return [
        CopyUnit(MapAddress(topic, one, number), layout, records) for one in range(shape.partitions)
    ]


def one_round(
    spark: SparkSession, units: Sequence[CopyUnit], shape: Shape, options: CopyOptions,
    brokers: Sequence[int], java: int, records: int,
) -> Round:  # fmt: skip
    """Copy once."""
    us = 1e6 / (records * shape.partitions)
    before = [cpu_seconds(pid) for pid in (*brokers, java)]
    ours, begun = _family_seconds(), time.perf_counter()
    busy = machine_busy_seconds()
    used_s = run_tasks(spark, deal(units, shape.tasks), options)
    elapsed = time.perf_counter() - begun
    *theirs, java_s = (
        now - then
        for now, then in zip([cpu_seconds(pid) for pid in (*brokers, java)], before, strict=True)
    )
    foreign = machine_busy_seconds() - busy - sum(theirs) - (_family_seconds() - ours)
    return Round(
        used_s * us, java_s * us, sum(theirs) * us, records * shape.partitions / elapsed,
        max(0.0, foreign) / elapsed,
    )  # fmt: skip


def _family_seconds() -> float:
    """Of this process and what Spark started; the brokers are counted apart."""
    pids = [pid for pid in family([os.getpid()]) if pid not in _BROKERS]
    return sum(map(cpu_seconds, pids))


_BROKERS: set[int] = set()


def java_of(spark: SparkSession) -> int:
    """The process of Spark's JVM."""
    process = spark._jvm.java.lang.ProcessHandle.current()
    return int(process.pid())


def table(
    shapes: Sequence[Shape], options: CopyOptions, brokers: Sequence[int], records: int,
    prepared: Callable[[Shape], tuple[str, str]], emptied: Callable[[str, int], None],
) -> None:  # fmt: skip
    """Measure all shapes in turns and print Markdown. prepared: a shape's topic and its id.
    emptied: called before each copy with the topic to empty on the target, and its partitions."""
    _BROKERS.update(brokers)
    spark = open_session("mirror", f"local[{max(one.tasks for one in shapes)}]", {}, _quiet)
    java, found = java_of(spark), {shape: list[Round]() for shape in shapes}
    topics = {count: prepared(Shape(count, count)) for count, _ in shapes}
    sys.stdout.write(f"load average at the start: {os.getloadavg()[0]:.1f}\n\n")
    for number in range(1, ROUNDS + 2):
        for at, shape in enumerate(shapes):
            topic, source_id = topics[shape.partitions]
            layout = (number - 1) * len(shapes) + at + 1
            emptied(topic, shape.partitions)
            units = units_of(topic, source_id, shape, layout, records)
            one = one_round(spark, units, shape, options, brokers, java, records)
            if number > 1:  # the first starts Python, and Java compiles
                found[shape].append(one)
    spark.stop()
    sys.stdout.write(
        "| partitions | tasks | tasks us a record | Spark's JVM us | brokers us | records/s "
        "| foreign cores |\n|---:|---:|---:|---:|---:|---:|---:|\n"
    )
    for shape, rounds in found.items():
        own = sorted(one.tasks for one in rounds)
        middle = [sorted(column)[len(rounds) // 2] for column in zip(*rounds, strict=True)]
        sys.stdout.write(
            f"| {shape.partitions} | {shape.tasks} | {middle[0]:.1f} ({own[0]:.1f}..{own[-1]:.1f}) "
            f"| {middle[1]:.1f} | {middle[2]:.1f} | {middle[3]:,.0f} | {middle[4]:.2f} |\n"
        )


def _quiet(_line: str) -> None:
    return
