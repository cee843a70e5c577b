"""The job `headgate-spark verify`: it compares the records of both tiers."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.structs import TopicPartition
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.commands.terminal import ProgressLine, Step, short
from headgate.model.text import counted, escaped
from headgate.replays.offset_map import MapEntry, PartitionMap, map_partition
from headgate.replays.segments import Result
from headgate_spark.copying.batches import SourceRecord
from headgate_spark.copying.cluster import cluster_admin, pairs
from headgate_spark.copying.reader import BrokerBuckets, CopyOptions, RecreatedError, SourceReader
from headgate_spark.job.command_line import FAILED, OK, USAGE, JobError, format_task_log
from headgate_spark.job.options import Cluster, JobConfig, chosen_topics, must_exist
from headgate_spark.job.progress import watched
from headgate_spark.mirror.copier import cause_of
from headgate_spark.mirror.writer import read_map

# ---- comparison of one partition of both tiers, record by record, along the offset map
#
# Both sides are read once, in order and beside each other; compared records are not kept.


_FIRST = 5  # findings that are reported one by one
_STILL_S = 60.0  # without a record for so long, the comparison ends


class Verified(NamedTuple):
    """The result of one partition.

    Attributes:
        compared: Records on both sides.
        differing: Records that differ.
        source_only: Records that the target lacks and should have.
        target_only: Records that the source no longer has; they were compacted or expired,
            which is normal.
        unmapped: Records of the target that the map does not have.
        lost: Offsets in gaps of the map.
        first: Some of the faults, in words.
        is_stale: The map belongs to deleted topics, so that nothing was compared.
    """

    topic: str
    partition: int
    source_range: tuple[int, int]
    target_range: tuple[int, int]
    compared: int
    differing: int
    source_only: int
    target_only: int
    unmapped: int
    lost: int
    first: tuple[str, ...]
    is_stale: bool = False

    @property
    def is_good(self) -> bool:
        """Return whether the mirror has no fault."""
        return not (self.differing or self.source_only or self.unmapped or self.is_stale)


async def compare(tp: TopicPartition, options: CopyOptions) -> Verified:
    """Compare the mapped records of both logs, and look for unmapped records on the target.

    Raises as `SourceReader` and `read_map`.
    """
    partition_map = PartitionMap()

    def see(entry: MapEntry) -> None:
        if entry.address[:2] == tuple(tp):
            partition_map.apply(entry)

    on_target = replace(options, source=options.target)
    async with _reader(tp, options) as source, _reader(tp, on_target) as target:
        # Read before the map, which then has all of the mirror's records within these bounds.
        target_bounds = await target.bounds()
        await read_map(options.target, {map_partition(tp.topic, tp.partition): 0}, see)
        source_bounds = await source.bounds()
        if partition_map.newest:
            try:
                await source.check(partition_map.ids[0])
                await target.check(partition_map.ids[1])
            except RecreatedError as error:
                return _stale(tp, error)
        comparison = _Comparison(tp, partition_map, source_bounds[0], target_bounds)
        await comparison.run(source, target)
    return comparison.result()


def _stale(tp: TopicPartition, error: RecreatedError) -> Verified:
    why = f"the map is of a topic that was deleted and recreated ({error}): run the mirror"
    return Verified(tp.topic, tp.partition, (0, 0), (0, 0), 0, 0, 0, 0, 0, 0, (why,), is_stale=True)


@asynccontextmanager
async def _reader(tp: TopicPartition, options: CopyOptions) -> AsyncIterator[SourceReader]:
    reader = SourceReader(tp, options, BrokerBuckets(options.bytes_per_s))
    try:
        await reader.start()
        yield reader
    finally:
        await reader.drop()


class _Comparison:
    """The progress of the comparison of one partition.

    Args:
        tp: The partition.
        partition_map: Its part of the offset map.
        source_begin: First offset of the source.
        bounds: Bounds of the target before the map was read.
    """

    def __init__(
        self,
        tp: TopicPartition,
        partition_map: PartitionMap,
        source_begin: int,
        bounds: tuple[int, int],
    ) -> None:
        table = partition_map.table
        self._tp, self._table, self._map = tp, table, partition_map
        # Records that one side has removed cannot be compared.
        source, target = max(source_begin, table.source_start), max(bounds[0], table.target_start)
        source = max(source, table.to_source(target).offset or 0)
        target = max(target, table.to_target(source).offset or 0)
        if target == table.target_start and partition_map.is_alone:
            target = bounds[0]  # before the first mapped record, nothing may be
        self._source = (source, max(source, table.source_end))
        self._target = (target, max(target, table.target_end, bounds[1]))
        self._compared = self._differing = self._source_only = 0
        self._target_only = self._unmapped = 0
        self._first: list[str] = []

    async def run(self, source: SourceReader, target: SourceReader) -> None:
        theirs = _records(source, *self._source)
        source_record = await anext(theirs, None)
        async for target_record in _records(target, *self._target):
            translated = self._table.to_source(target_record.offset)
            if translated.result is not Result.EXACT or translated.offset is None:
                self._unmapped += 1
                self._add_fault(
                    f"target offset {target_record.offset} is not in the map: not the mirror's"
                )
                continue
            while source_record is not None and source_record.offset < translated.offset:
                self._lacks(source_record)
                source_record = await anext(theirs, None)
            if source_record is None or source_record.offset > translated.offset:
                self._target_only += 1
                continue
            self._compare(source_record, target_record)
            source_record = await anext(theirs, None)
        while source_record is not None:
            self._lacks(source_record)
            source_record = await anext(theirs, None)

    def result(self) -> Verified:
        return Verified(
            self._tp.topic, self._tp.partition, self._source, self._target, self._compared,
            self._differing, self._source_only, self._target_only, self._unmapped,
            self._map.lost_offsets, tuple(self._first),
        )  # fmt: skip

    def _lacks(self, record: SourceRecord) -> None:
        self._source_only += 1
        self._add_fault(f"source offset {record.offset} is not on the target")

    def _compare(self, source_record: SourceRecord, target_record: SourceRecord) -> None:
        self._compared += 1
        wrong = [
            name
            for name in ("key", "value", "headers", "timestamp")
            if getattr(source_record, name) != getattr(target_record, name)
        ]
        if wrong:
            self._differing += 1
            self._add_fault(
                f"source offset {source_record.offset}, target {target_record.offset}: "
                f"{', '.join(wrong)}"
            )

    def _add_fault(self, text: str) -> None:
        if len(self._first) < _FIRST:
            self._first.append(text)


async def _records(reader: SourceReader, start: int, end: int) -> AsyncIterator[SourceRecord]:
    """Yield the visible records from `start` to `end`, exclusive."""
    if start >= end:
        return
    reader.seek(start)
    clock, position = asyncio.get_running_loop().time, start
    moved_s = clock()
    while position < end:
        chunk = await reader.read(end)
        for record in chunk.records:
            yield record
        if chunk.end != position:
            position, moved_s = chunk.end, clock()
        elif clock() - moved_s > _STILL_S:
            raise TimeoutError(f"nothing comes from offset {position} on, {end} is its end")


# ---- the job


@dataclass(frozen=True, slots=True)
class VerifyRequest:
    """A request of a verification. `out`: a file for the result as JSON."""

    cluster: str | None = None
    topics: str | None = None
    bytes_per_s: float | None = None
    out: Path | None = None


def verify(
    spark: SparkSession, config: JobConfig, request: VerifyRequest, report: ProgressLine
) -> int:
    """Compare all mapped records; return the exit code. Raises JobError."""
    results: list[Verified] = []
    for source, target in pairs(config, request.cluster):
        tps = asyncio.run(_partitions(config, source, target, request))
        report.note(f"{source.name}: comparing {counted(len(tps), 'partition')}")
        results += _compare(spark, source, target, tps, request, report)
    for result in results:
        (report.note if result.is_good else report.say)(sentence(result))
    if request.out is not None:
        _write(request.out, json.dumps([as_json(result) for result in results], indent=1) + "\n")
    return OK if all(result.is_good for result in results) else FAILED


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(escaped(text), encoding="utf-8")
    except OSError as error:
        raise JobError(f"--out {file}: {error.strerror}") from error


async def _partitions(
    config: JobConfig, source: Cluster, target: Cluster, request: VerifyRequest
) -> list[TopicPartition]:
    async with (
        cluster_admin(source.connection) as source_admin,
        cluster_admin(target.connection) as target_admin,
    ):
        theirs, ours = (
            (await source_admin.metadata()).topics,
            (await target_admin.metadata()).topics,
        )
    must_exist(request.topics, source, theirs)
    names = chosen_topics(request.topics, config, source, set(theirs))
    mirrored = [name for name in names if name in ours]
    if not mirrored or (request.topics is not None and len(mirrored) < len(names)):
        lacking = ", ".join(name for name in names if name not in ours) or "nothing to compare"
        raise JobError(f"cluster {target.name} has no mirror of: {lacking}", USAGE)
    return [
        TopicPartition(name, number)
        for name in mirrored
        for number in range(len(theirs[name].leaders))
    ]


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

    def run(task_tps: Iterable[TopicPartition]) -> Iterator[Verified]:
        format_task_log()
        for tp in task_tps:
            verified = asyncio.run(compare(tp, options))
            records.add(verified.compared)
            partitions.add(1)
            yield verified

    def look() -> Step:
        """Return the progress; a task, one for each partition, reports when it ends."""
        more = f"{short(records.value)} records"
        return Step(f"{source.name}: comparing", partitions.value, len(tps), "partitions", more)

    try:
        with watched(report, look):
            return context.parallelize(list(tps), max(1, len(tps))).mapPartitions(run).collect()
    except Py4JError as error:
        raise JobError(f"comparing failed: {cause_of(error)}") from error


def sentence(verified: Verified) -> str:
    """Return the result of a partition for people."""
    compared = f"{counted(verified.compared, 'record')} compared"
    head = f"{verified.topic} partition {verified.partition}: {compared}"
    counts = {
        "differ": verified.differing,
        "only in the source": verified.source_only,
        "in the mirror's topic and not in the map (something else wrote them)": verified.unmapped,
        "only in the mirror (expired or compacted in the source)": verified.target_only,
        "offsets lost to gaps": verified.lost,
    }
    faults = [f"{count} {text}" for text, count in counts.items() if count]
    return "; ".join(
        [f"{head}, all identical" if verified.is_good else head, *faults, *verified.first]
    )


def as_json(verified: Verified) -> dict[str, Any]:
    """Return the result of a partition for machines."""
    return {**verified._asdict(), "good": verified.is_good}
