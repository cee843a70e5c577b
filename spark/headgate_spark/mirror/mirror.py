"""The job `headgate-spark mirror`: it copies a cluster's topics to its backfill tier.

It runs once or continuously. The driver plans and watches; the state of the mirror is only ever
read from the map. Spark restarts tasks that die, and a driver that dies leaves only data that the
next one reads.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka.structs import TopicPartition
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headgate.commands.terminal import Amount, ProgressLine, Step
from headgate.kafka.wire import Metadata
from headgate.model.text import counted
from headgate.replays.offset_map import PartitionMap
from headgate.replays.packed import NO_TIMESTAMP, MapError
from headgate_spark.copying.cluster import CLIENT_ERRORS, ClusterAdmin, cluster_admin, pairs
from headgate_spark.copying.reader import Copied, CopyOptions, CopyUnit
from headgate_spark.job.command_line import FAILED, OK, USAGE, JobError, in_words, now_ms
from headgate_spark.job.exposition import Textfile
from headgate_spark.job.options import Cluster, JobConfig, chosen_topics, must_exist
from headgate_spark.mirror.copier import cause_of, deal, foreign_line, rate_of_task, run_on_spark
from headgate_spark.mirror.lag import Lag, LagWatch, Missing, Totals, first_timestamps, textfile
from headgate_spark.mirror.plan import (
    MapView,
    Plan,
    Seen,
    Skips,
    maps,
    plan,
    prepare_map,
    prepare_topics,
    shape_of,
    trim,
)
from headgate_spark.mirror.writer import HiddenError

# ---- progress since the tasks began, in words (pure)


class CopyProgress:
    """The progress of the units. It counts offsets, because the map has those of every copier.

    `seen` are the records that were copied to a partition, from any start on.
    """

    def __init__(
        self, units: Iterable[CopyUnit] = (), seen: Callable[[str, int], Seen] = lambda *_: Seen()
    ) -> None:
        self._begun = {TopicPartition(*unit.address[:2]): unit.map_state.position for unit in units}
        self._seen, self._before = seen, {tp: seen(*tp) for tp in self._begun}

    def step(
        self, what: str, lags: Mapping[TopicPartition, Lag],
        maps: Mapping[TopicPartition, PartitionMap], *, has_end: bool,
    ) -> Step:  # fmt: skip
        """Run a step. `has_end`: the remaining records are all that will be copied."""
        done = sum(self._done(tp, maps[tp]) for tp in self._begun if tp in maps)
        remaining = sum(lag.records for lag in lags.values())
        even = sum(not lag.records for lag in lags.values())
        ages_s = [lag.seconds for lag in lags.values() if lag.seconds is not None]
        said = [f"{even} of {counted(len(lags), 'partition')} up to date"]
        if not has_end:
            said.append(f"{counted(remaining, 'offset')} left")
        unknown = len(lags) - len(ages_s)
        if any(ages_s) or not unknown:  # partitions that are up to date do not tell for others
            said.append(f"{max(ages_s, default=0.0):.0f} s behind")
        if unknown:
            said.append(f"{counted(unknown, 'partition')} behind for an unknown time")
        if lost := sum(lag.lost for lag in lags.values()):
            said.append(f"{counted(lost, 'offset')} lost to retention")
        total = done + remaining if has_end else None
        return Step(what, done, total, "offsets", ", ".join(said), self._copied())

    def _copied(self) -> tuple[Amount, Amount]:
        grown = [(self._seen(*tp), before) for tp, before in self._before.items()]
        records = sum(now.records - before.records for now, before in grown)
        return Amount(records, "records"), Amount(sum(a.bytes - b.bytes for a, b in grown), "B")

    def _done(self, tp: TopicPartition, partition_map: PartitionMap) -> int:
        begun, table = self._begun[tp], partition_map.table
        if table.position is None:
            return 0
        return max(0, table.position - (table.source_start if begun is None else begun))


# ---- the request


FOLLOW_LEASE_S = 300.0  # then what is followed is planned again
_AGAIN_S = 30.0


@dataclass(frozen=True, slots=True)
class MirrorRequest:
    """A request of a mirror.

    Attributes:
        topics: Names and globs; None for all topics of the configuration.
        bytes_per_s: Limit for each source broker.
        retention_ms: Retention of new topics.
        metrics: A Prometheus textfile.
        again_s: Interval between checks of skipped topics.
    """

    cluster: str | None = None
    topics: str | None = None
    is_following: bool = False
    interval_s: float = 60.0
    lease_s: float = FOLLOW_LEASE_S
    bytes_per_s: float | None = None
    retention_ms: int = -1
    metrics: Path | None = None
    again_s: float = _AGAIN_S


# ---- the driver of one ingest cluster's mirror


_EVERY_S, _ON_TERMINAL_S = 5.0, 1.0  # progress
_ROUNDS = 5  # of copying once, when the source changes meanwhile


class Mirror:
    """One ingest cluster and its backfill cluster."""

    def __init__(
        self, spark: SparkSession, config: JobConfig, pair: tuple[Cluster, Cluster],
        request: MirrorRequest, report: ProgressLine,
    ) -> None:  # fmt: skip
        self._context, self._config, self._request = spark.sparkContext, config, request
        self._source, self._target = pair
        self._report, self._say = report, report.say
        self._every_s = _ON_TERMINAL_S if report.is_terminal else _EVERY_S
        self._totals, self._lags, self._pace = Totals(), LagWatch(), CopyProgress()
        self._skips = Skips(report.say)
        self._file = None if request.metrics is None else Textfile(request.metrics, report.say)
        self._view = MapView(self._target.connection)
        self._stopped = asyncio.Event()
        self._rounds = 0

    async def run(self) -> int:
        """Mirror; return the exit code. Raises JobError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopped.set)
        if not self._request.is_following:
            return await self._once()
        while not self._stopped.is_set():
            try:
                await self._round()
            except JobError as error:
                # After a first round a usage error may pass, such as a topic that is recreated.
                if error.exit_code == USAGE and not self._rounds:
                    raise
                self._say(str(error))  # an outage: a later round mirrors the rest
                self._publish_unseen()
                await self._pause(self._request.interval_s)
        return OK

    async def _once(self) -> int:
        for _ in range(_ROUNDS):
            results = await self._round()
            if results is None:
                return self._end_of_once()
            wrong = [result for result in results if result.trouble is not None]
            if not any(result.is_stale for result in wrong) or self._stopped.is_set():
                break  # a fenced job must not retry: the other job would do the same
        return FAILED if wrong or self._stopped.is_set() else self._end_of_once()

    def _end_of_once(self) -> int:
        return USAGE if self._skips.now else OK

    async def _round(self) -> list[Copied] | None:
        """Plan and copy; return the result of each unit, or None if there was nothing to do."""
        source, target = self._source.connection, self._target.connection
        async with cluster_admin(source) as source_admin, cluster_admin(target) as target_admin:
            planned = await self._plan(source_admin, target_admin)
            if planned.units:
                return await self._copy(planned, source_admin, target_admin)
            await self._show(source_admin, planned, await source_admin.metadata())
        if self._request.is_following:  # all of them are skipped
            await self._pause(self._request.interval_s)
        else:
            count = counted(len(planned.fit), "partition")
            self._report.note(f"{self._source.name}: up to date ({count})")
        return None

    async def _plan(self, source: ClusterAdmin, target: ClusterAdmin) -> Plan:
        request, metadata = self._request, await source.metadata()
        topics = self._topics(set(metadata.topics))
        if not topics:
            existing = ", ".join(sorted(metadata.topics)) or "none"
            raise JobError(
                f"no topic to mirror on cluster {self._source.name}: --topics "
                f"{request.topics or '(all of the configuration)'} matches none of {existing}",
                USAGE,
            )
        if not request.is_following:  # a topic may go or come while others are followed
            must_exist(request.topics, self._source, metadata.topics)
        await prepare_map(target)
        await self._refresh()
        planned = await self._planned(source, target, topics, checks_tail=not self._rounds)
        self._skips.report(planned.skipped, topics, time.monotonic())
        await trim(target, self._view, planned.fit)
        return planned

    async def _planned(
        self, source: ClusterAdmin, target: ClusterAdmin, topics: Sequence[str],
        *, checks_tail: bool = False,
    ) -> Plan:  # fmt: skip
        request = self._request
        skipped = await prepare_topics(source, target, topics, request.retention_ms)
        return await plan(
            source, target, self._view, topics, now_ms(),
            is_bounded=not request.is_following, checks_tail=checks_tail, skipped=skipped,
        )  # fmt: skip

    def _topics(self, existing: set[str]) -> list[str]:
        chosen = chosen_topics(self._request.topics, self._config, self._source, existing)
        # A name that is another cluster's topic would be two topics in one mirror.
        owners = {name: self._config.cluster_of(name) for name in chosen}
        return [name for name in chosen if owners[name] in (None, self._source)]

    async def _copy(
        self, planned: Plan, source: ClusterAdmin, target: ClusterAdmin
    ) -> list[Copied]:
        parallel = self._context.defaultParallelism
        # Followed partitions share tasks, all of which run at once; else each has its own.
        count = parallel if self._request.is_following else len(planned.units)
        tasks = deal(planned.units, count)
        options = CopyOptions(
            self._source.connection,
            self._target.connection,
            rate_of_task(self._request.bytes_per_s, tasks, planned.leaders, parallel),
            self._request.interval_s,
            self._request.lease_s,
        )
        self._rounds += 1
        self._pace = CopyProgress(planned.units, self._view.seen)
        group = f"headgate-mirror-{self._source.name}-{self._rounds}"
        what, among = counted(len(planned.units), "partition"), counted(len(tasks), "task")
        self._report.note(f"{self._source.name}: {what} in {among}")
        job = asyncio.ensure_future(
            asyncio.to_thread(run_on_spark, self._context, group, tasks, options)
        )
        try:
            await self._watch(job, planned, source, target)
        finally:
            is_over = job.done()
            if not is_over:
                self._context.cancelJobGroup(group)
        copied = await self._ended(job, is_over=is_over)
        self._totals.add(copied)
        for result in copied:
            if result.trouble is not None:
                self._say(f"{result.topic} partition {result.partition}: {result.trouble}")
            if result.foreign:
                self._say(foreign_line(result))
        await self._has_changed(planned, source)  # it shows and publishes the final progress
        return copied

    async def _watch(
        self, job: asyncio.Future[Any], planned: Plan, source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        """Return when the job has ended or must end.

        It must end if it is stopped, if the source's topics changed, or if a skipped topic can be
        mirrored again.
        """
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self._stopped.wait())
        polled_s = time.monotonic()
        try:
            while True:
                await asyncio.wait(
                    {job, stopped}, timeout=self._every_s, return_when=asyncio.FIRST_COMPLETED
                )
                if job.done() or stopped.done():
                    return
                if await self._has_changed(planned, source):
                    self._report.note("topics have changed: planning again")
                    return
                if planned.skipped and time.monotonic() - polled_s >= self._request.again_s:
                    if await self._is_fit_again(planned, source, target):
                        return
                    polled_s = time.monotonic()
        finally:
            stopped.cancel()

    async def _is_fit_again(
        self, planned: Plan, source: ClusterAdmin, target: ClusterAdmin
    ) -> bool:
        """Return whether a skipped topic can be mirrored again; report the topics still skipped."""
        try:
            now = await self._planned(source, target, list(planned.skipped))
        except (JobError, *CLIENT_ERRORS) as error:
            self._say(f"cannot read the list of skipped topics: {in_words(error)}")
            return False
        self._skips.report(now.skipped, list(planned.skipped), time.monotonic())
        return bool(planned.skipped.keys() - now.skipped.keys())

    async def _has_changed(self, planned: Plan, source: ClusterAdmin) -> bool:
        try:
            metadata = await source.metadata()
            shape = shape_of(metadata, self._topics(set(metadata.topics)))
            await self._refresh()
            await self._show(source, planned, metadata)
        except (JobError, *CLIENT_ERRORS) as error:
            self._say(f"progress is not known: {in_words(error)}")
            self._publish_unseen()
            return False
        return shape != planned.shape

    async def _show(self, source: ClusterAdmin, planned: Plan, metadata: Metadata) -> None:
        """Show and publish the progress."""
        tps = [tp for tp in planned.ends if metadata.leader(*tp) >= 0]
        partition_maps = maps(self._view, tps)
        ends = {tp: planned.ends[tp] for tp in tps}
        if self._request.is_following:
            ends = {tp: end for tp, (_, end) in (await source.bounds(tps)).items()}
        missing = self._lags.backlog(ends, partition_maps, time.monotonic())
        ages_s = await self._ages(missing)
        lags = self._lags.lags(ends, partition_maps, time.monotonic(), ages_s)
        self._publish(lags)
        what, has_end = self._source.name, not self._request.is_following
        self._report.show(self._pace.step(what, lags, partition_maps, has_end=has_end))

    async def _ages(self, missing: Mapping[TopicPartition, Missing]) -> dict[TopicPartition, float]:
        """Return the age of the first record of each stretch, in seconds; 0 if it is not known."""
        timestamps = await first_timestamps(self._source.connection, missing)
        at_ms = now_ms()
        return {
            tp: 0.0 if ms == NO_TIMESTAMP else max(0.0, (at_ms - ms) / 1000)
            for tp, ms in timestamps.items()
        }

    def _publish(self, lags: Mapping[TopicPartition, Lag]) -> None:
        if self._file is not None:
            more = (self._totals, self._skips.now, self._source.name, time.time())
            self._file.write(textfile(lags, maps(self._view, list(lags)), *more))

    def _publish_unseen(self) -> None:
        """Publish the lag while the source cannot be read: an old lag would look like success."""
        if self._lags.has_measured:
            self._publish(self._lags.unseen(time.monotonic()))

    async def _ended(self, job: asyncio.Future[list[Copied]], *, is_over: bool) -> list[Copied]:
        try:
            return await job
        except Py4JError as error:
            if not is_over:
                return []  # it was cancelled
            raise JobError(f"Spark gave up: {cause_of(error)}") from error

    async def _refresh(self) -> None:
        try:
            await self._view.refresh()
        except (HiddenError, MapError, *CLIENT_ERRORS) as error:
            raise JobError(f"cluster {self._target.name}: {in_words(error)}") from error

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopped.wait()


def mirror(
    spark: SparkSession, config: JobConfig, request: MirrorRequest, report: ProgressLine
) -> int:
    """Run the job; return the exit code. Raises JobError."""
    cluster_pairs = pairs(config, request.cluster)
    if request.is_following and len(cluster_pairs) > 1:
        names = ", ".join(source.name for source, _ in cluster_pairs)
        raise JobError(
            f"--follow takes one cluster per process: give --cluster, one of {names}", USAGE
        )
    return max(_run(spark, config, pair, request, report) for pair in cluster_pairs)


def _run(
    spark: SparkSession, config: JobConfig, pair: tuple[Cluster, Cluster], request: MirrorRequest,
    report: ProgressLine,
) -> int:  # fmt: skip
    async def run() -> int:
        return await Mirror(spark, config, pair, request, report).run()

    return asyncio.run(run())
