"""`headgate-spark verify`: are the records of the backfill tier those of the ingest tier?"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.structs import TopicPartition
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.core.terminal import ProgressLine, Step, counted, escaped, short
from headgate_spark.copying.copy_plan import CopyOptions
from headgate_spark.copying.tiers import pairs
from headgate_spark.job.errors import FAILED, OK, USAGE, JobError
from headgate_spark.job.options import Cluster, JobConfig, chosen_topics, must_exist
from headgate_spark.job.progress import watched
from headgate_spark.job.task_log import format_task_log
from headgate_spark.kafka.cluster_admin import cluster_admin
from headgate_spark.mirror.comparer import Verified, compare
from headgate_spark.mirror.copy_tasks import cause_of


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """What was asked for. out: a file for the result as JSON."""

    cluster: str | None = None
    topics: str | None = None
    bytes_per_s: float | None = None
    out: Path | None = None


def verify(
    spark: SparkSession, config: JobConfig, request: VerifyRequest, report: ProgressLine
) -> int:
    """Compare everything that is mapped; the exit code. Raises JobError."""
    found: list[Verified] = []
    for source, target in pairs(config, request.cluster):
        tps = asyncio.run(_partitions(config, source, target, request))
        report.note(f"{source.name}: comparing {counted(len(tps), 'partition')}")
        found += _compare(spark, source, target, tps, request, report)
    for one in found:
        (report.note if one.is_good else report.say)(sentence(one))
    if request.out is not None:
        _write(request.out, json.dumps([as_json(one) for one in found], indent=1) + "\n")
    return OK if all(one.is_good for one in found) else FAILED


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(escaped(text), encoding="utf-8")
    except OSError as error:
        raise JobError(f"--out {file}: {error.strerror}") from error


async def _partitions(
    config: JobConfig, source: Cluster, target: Cluster, request: VerifyRequest
) -> list[TopicPartition]:
    async with cluster_admin(source.connection) as there, cluster_admin(target.connection) as here:
        theirs, ours = (await there.metadata()).topics, (await here.metadata()).topics
    must_exist(request.topics, source, theirs)
    names = chosen_topics(request.topics, config, source, set(theirs))
    found = [name for name in names if name in ours]
    if not found or (request.topics is not None and len(found) < len(names)):
        lacking = ", ".join(name for name in names if name not in ours) or "nothing to compare"
        raise JobError(f"cluster {target.name} has no mirror of: {lacking}", USAGE)
    return [TopicPartition(name, one) for name in found for one in range(len(theirs[name].leaders))]


def _compare(
    spark: SparkSession,
    source: Cluster,
    target: Cluster,
    tps: Sequence[TopicPartition],
    request: VerifyRequest,
    report: ProgressLine,
) -> list[Verified]:
    context = spark.sparkContext
    rate = request.bytes_per_s
    if rate is not None:  # all of them may read from one broker
        rate /= min(context.defaultParallelism, max(1, len(tps)))
    options = CopyOptions(source.connection, target.connection, rate)

    records, partitions = context.accumulator(0), context.accumulator(0)

    def run(some: Iterable[TopicPartition]) -> Iterator[Verified]:
        format_task_log()
        for tp in some:
            verified = asyncio.run(compare(tp, options))
            records.add(verified.compared)
            partitions.add(1)
            yield verified

    def look() -> Step:
        """Tasks report when they end: each of them is a partition."""
        more = f"{short(records.value)} records"
        return Step(f"{source.name}: comparing", partitions.value, len(tps), "partitions", more)

    try:
        with watched(report, look):
            return context.parallelize(list(tps), max(1, len(tps))).mapPartitions(run).collect()
    except Py4JError as error:
        raise JobError(f"comparing failed: {cause_of(error)}") from error


def sentence(one: Verified) -> str:
    """The result of a partition for people."""
    head = f"{one.topic} partition {one.partition}: {counted(one.compared, 'record')} compared"
    counts = {
        "differ": one.differing,
        "only in the source": one.source_only,
        "in the mirror's topic and not in the map (something else wrote them)": one.unmapped,
        "only in the mirror (expired or compacted in the source)": one.target_only,
        "offsets lost to gaps": one.lost,
    }
    found = [f"{count} {text}" for text, count in counts.items() if count]
    return "; ".join([f"{head}, all identical" if one.is_good else head, *found, *one.first])


def as_json(one: Verified) -> dict[str, Any]:
    """The result of a partition for machines."""
    return {**one._asdict(), "good": one.is_good}
