"""Runs units on Spark: what a task does, and how units are dealt out to tasks."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from aiokafka.structs import TopicPartition
from pyspark import SparkContext

from headgate_spark.copying.copy_plan import Copied, CopyOptions, Unit
from headgate_spark.copying.source_reader import SourceConsumer
from headgate_spark.copying.throttle import BrokerBuckets
from headgate_spark.copying.transactions import Connections
from headgate_spark.job.task_log import format_task_log
from headgate_spark.mirror.copier import Copier
from headgate_spark.mirror.waiters import Waiter, watch


def run_on_spark(
    context: SparkContext, group: str, tasks: Sequence[Sequence[Unit]], options: CopyOptions
) -> list[Copied]:
    """One Spark task each; they start in this order. Blocks. A task whose worker dies is run again,
    as often as spark.task.maxFailures says: it goes on where the map ends."""
    # For this thread: cancelling the group ends the workers, too.
    context.setJobGroup(group, "headgate mirror", interruptOnCancel=True)
    dealt = context.parallelize(list(tasks), max(1, len(tasks)))

    def copy(units: Iterable[Sequence[Unit]]) -> Iterator[Copied]:
        format_task_log()
        for some in units:
            yield from asyncio.run(copy_all(some, options))

    return dealt.mapPartitions(copy).collect()


async def copy_all(units: Sequence[Unit], options: CopyOptions) -> list[Copied]:
    """Copy units beside each other, with one budget for each source broker, one consumer of the
    source, and the same connections to the target."""
    buckets, connections = BrokerBuckets(options.bytes_per_s), Connections()
    tps = [TopicPartition(*unit.place[:2]) for unit in units]
    source = SourceConsumer(options.source, buckets, tps)
    waiters = {unit.place[:2]: Waiter() for unit in units if unit.end is None}
    watching = asyncio.create_task(watch(options.target, waiters)) if waiters else None
    copiers = (
        Copier(
            unit,
            options,
            buckets,
            waiter=waiters.get(unit.place[:2]),
            connections=connections,
            source=source,
        )
        for unit in units
    )
    try:
        return await asyncio.gather(*(copier.run() for copier in copiers))
    finally:
        if watching is not None:
            watching.cancel()
            await asyncio.wait([watching])
        connections.close()
        await source.drop()


def deal(units: Sequence[Unit], count: int) -> list[list[Unit]]:
    """Units for so many tasks, each with about as many. units: the largest first."""
    tasks = min(count, len(units))
    return [list(units[number::tasks]) for number in range(tasks)]


def rate_of_task(
    limit: float | None,
    tasks: Sequence[Sequence[Unit]],
    leaders: Mapping[TopicPartition, int],
    parallel: int,
) -> float | None:
    """What one task may read from one broker a second, so that no broker gives more than `limit`.

    Tasks know nothing of each other, so each gets the share of the busiest broker's.
    """
    if limit is None or not tasks:
        return None
    readers = Counter[int]()
    for units in tasks:
        readers.update({leaders[TopicPartition(*unit.place[:2])] for unit in units})
    return limit / min(parallel, max(readers.values()))


def cause_of(error: BaseException) -> str:
    """The line of Spark's that says it."""
    lines = str(error).splitlines()
    return next((line for line in lines if "Exception" in line), lines[0] if lines else "")
