"""`headgate-spark replay`: wait for the lease, run replays, and yield to another runner.

The runner reads the registry and starts a `ReplayCopy` for each replay that has work. It writes a
heartbeat every few seconds, whatever its replays wait for.
"""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from headgate.commands.terminal import ProgressLine
from headgate.replays.registry import FINISHED, Control, Replay, ReplayState, runner_record
from headgate_spark.copying.cluster import CLIENT_ERRORS, cluster_admin, pairs
from headgate_spark.job.command_line import OK, USAGE, JobError, in_words, now_ms
from headgate_spark.job.exposition import Textfile
from headgate_spark.job.options import Connection, JobConfig
from headgate_spark.replay.copier import ReplayCopy, RunnerContext, has_work
from headgate_spark.replay.progress import ReplayMetrics, copying_step
from headgate_spark.replay.registry import LeaseError, Pair, RegistryReader, ReplayWriter

BEAT_S = 2.0
_ENDING_POLL_S = 0.1


class Runner:
    """Carries out the replays of one backfill cluster while it has the lease.

    Calls raise LeaseError, JobError, KafkaError, OSError or TimeoutError, all about the backfill
    cluster: then its state is unknown, and the next runner reads it again.

    Args:
        name: Its name in the registry.
        clusters: Connections of the clusters that specs name.
    """

    def __init__(
        self,
        name: str,
        target: Connection,
        clusters: Mapping[str, Connection],
        writer: ReplayWriter,
        reader: RegistryReader,
        metrics: ReplayMetrics,
        report: ProgressLine,
    ) -> None:
        self._name = name
        self._target = target
        self._writer, self._reader = writer, reader
        self._metrics = metrics
        self._report = report
        self._context = RunnerContext(target, clusters, writer, metrics, report)
        self._heartbeat: asyncio.Task[None] | None = None
        self._copies: dict[str, tuple[ReplayCopy, asyncio.Task[None]]] = {}
        self._reported_at = 0.0
        self._shown: str | None = None  # what the report has of this cluster

    def start(self) -> None:
        """Begin the heartbeats. The writer has the lease."""
        self._heartbeat = asyncio.create_task(self._beats(), name="heartbeat")

    async def turn(self) -> None:
        """Read new records, and start or interrupt copies."""
        await self._reader.read_new()
        # From here on nothing is awaited: the reader may have put an older status into a replay.
        if self._heartbeat is not None and self._heartbeat.done():
            self._heartbeat.result()
        for name, (_, task) in list(self._copies.items()):
            if task.done():
                del self._copies[name]
                if not task.cancelled():
                    task.result()
        for replay in list(self._reader.registry):
            if replay.is_copy:
                self._see_to(replay)
        if time.monotonic() - self._reported_at >= BEAT_S:
            self.report()
            self._reported_at = time.monotonic()
        self._show()
        self._context.end_turn()

    @property
    def is_busy(self) -> bool:
        """Return whether a replay is being carried out."""
        return bool(self._copies)

    def _see_to(self, replay: Replay) -> None:
        copy, _ = self._copies.get(replay.id, (None, None))
        statuses = self._context.statuses
        if not replay.is_finished:
            replay.status = statuses.get(replay.id, replay.status)
        if copy is not None:
            if replay.is_finished or copy.control is not replay.control:
                copy.interrupt()
        elif has_work(replay, now_ms()):
            # Known from here on, so that its topic is deleted even if the API cancels it meanwhile.
            statuses[replay.id] = {"state": replay.state, **replay.status}
            self._start(replay)
        elif replay.is_finished:
            status = statuses.pop(replay.id, None)
            if status is not None and status["state"] not in FINISHED:
                self._start(replay, only_clean_up=True)

    def _start(self, replay: Replay, *, only_clean_up: bool = False) -> None:
        copy = ReplayCopy(self._context, replay)
        self._copies[replay.id] = copy, copy.start(only_clean_up=only_clean_up)

    def _show(self) -> None:
        """Show the progress; the runners of other clusters write to the same line."""
        step = copying_step(self._reader.registry, self._target.name)
        if self._shown is not None and (step is None or step.what != self._shown):
            self._report.end(self._shown)
        if step is not None:
            self._report.show(step)
        self._shown = None if step is None else step.what

    async def sweep(self) -> None:
        """Delete the topics of replays that have ended: a runner may have died in between."""
        over = {replay.topic for replay in self._reader.registry if replay.is_finished}
        async with cluster_admin(self._target) as admin:
            for topic in over & (await admin.metadata()).topics.keys():
                await admin.delete(topic)

    async def end(self) -> None:
        """Stop all copies, let writes in progress end, and write the last heartbeat."""
        self._context.is_over.set()
        tasks = {task for _, task in self._copies.values()}
        while pending := {task for task in tasks if not task.done()}:
            for copy, _ in self._copies.values():
                copy.interrupt()
            await asyncio.wait(pending, timeout=_ENDING_POLL_S)
        for task in tasks:
            if not task.cancelled():
                task.result()
        self._copies.clear()
        if self._heartbeat is not None:
            await self._heartbeat
        self.report()
        await self._writer.write_status([self._beat(is_last=True)])

    async def drop(self) -> None:
        """Cancel all tasks at once."""
        if self._shown is not None:
            self._report.end(self._shown)
        tasks = [task for _, task in self._copies.values()]
        if self._heartbeat is not None:
            tasks.append(self._heartbeat)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._copies.clear()

    def report(self) -> None:
        """Write the metrics."""
        self._metrics.update(self._target.name, self._reader.registry, now_ms())

    async def _beats(self) -> None:
        """Write heartbeats until the runner ends. Raises LeaseError."""
        is_over = self._context.is_over
        while not is_over.is_set():
            await self._writer.write_status([self._beat()])
            try:
                async with asyncio.timeout(BEAT_S):
                    await is_over.wait()
            except TimeoutError:
                continue

    def _beat(self, *, is_last: bool = False) -> Pair:
        return runner_record({"runner": self._name, "at_ms": now_ms(), "stopped": is_last})


def unfinished(reader: RegistryReader) -> bool:
    """Return whether any replay could continue now."""
    return any(
        replay.is_copy
        and replay.state not in {*FINISHED, ReplayState.READY}
        and replay.control is not Control.PAUSE
        for replay in reader.registry
    )


# ---- the command: one service for each backfill cluster


_IDLE_S = 0.5
_AGAIN_S = 2.0
_TROUBLE = (LeaseError, JobError, *CLIENT_ERRORS)


class RunRequest(NamedTuple):
    """The options of the command.

    Attributes:
        cluster: The backfill cluster; None: all.
        is_following: Continue when all replays are done.
        patience_s: Longest silence of the current runner before this one takes over.
        metrics: A textfile to keep up to date.
    """

    cluster: str | None
    is_following: bool
    patience_s: float
    metrics: Path | None = None


WriterOf = Callable[[Connection], ReplayWriter]


def run_replays(
    config: JobConfig,
    request: RunRequest,
    report: ProgressLine,
    writer_of: WriterOf = ReplayWriter,
) -> int:
    """Run replays until all are done, or until a signal.

    Args:
        config: The job's configuration.
        request: The options of the command.
        report: Shows progress.
        writer_of: Makes the writer of a backfill cluster.

    Raises:
        JobError: The configuration has no such cluster.
    """
    return asyncio.run(_run(config, request, report, writer_of))


async def _run(
    config: JobConfig, request: RunRequest, report: ProgressLine, writer_of: WriterOf
) -> int:
    targets = _targets(config, request.cluster)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    file = None if request.metrics is None else Textfile(request.metrics, report.say)
    metrics = ReplayMetrics(file)
    connections = {name: cluster.connection for name, cluster in config.clusters.items()}
    async with asyncio.TaskGroup() as group:
        for name in targets:
            post = _Post(connections[name], connections, request, metrics, stop, report, writer_of)
            group.create_task(post.run(), name=name)
    return OK


def _targets(config: JobConfig, wanted: str | None) -> list[str]:
    targets = sorted({target.name for _, target in pairs(config, None)})
    if wanted is not None and wanted not in targets:
        raise JobError(f"--cluster {wanted}: the backfill clusters are {', '.join(targets)}", USAGE)
    return [wanted] if wanted is not None else targets


class _Post:
    """The service of one backfill cluster: active while it has the lease, else on standby."""

    def __init__(
        self,
        target: Connection,
        clusters: Mapping[str, Connection],
        request: RunRequest,
        metrics: ReplayMetrics,
        stop: asyncio.Event,
        report: ProgressLine,
        writer_of: WriterOf,
    ) -> None:
        self._target, self._clusters = target, clusters
        self._request, self._stop = request, stop
        self._metrics = metrics
        self._report, self._say = report, report.say
        self._writer_of = writer_of
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    async def run(self) -> None:
        """Run until stopped, or until nothing is left to do."""
        while not self._stop.is_set():
            try:
                if await self._stand_by() and await self._duty():
                    return
            except _TROUBLE as error:
                self._say(f"cluster {self._target.name}: {in_words(error)}; trying again")
                await self._wait(_AGAIN_S)

    async def _stand_by(self) -> bool:
        """Wait until the current runner is silent; return False if stopped before."""
        reader = RegistryReader(self._target)
        try:
            await reader.start()
            await reader.read_all()
            self._metrics.update(self._target.name, None, 0)
            seen, since = reader.registry.runner, time.monotonic()
            while not self._stop.is_set():
                is_free = not seen or seen.get("stopped") or seen.get("runner") == self._name
                if is_free or time.monotonic() - since >= self._request.patience_s:
                    return True
                await self._wait(_IDLE_S)
                await reader.read_new()
                if reader.registry.runner != seen:
                    seen, since = reader.registry.runner, time.monotonic()
            return False
        finally:
            await reader.drop()

    async def _duty(self) -> bool:
        """Act as the runner; return True if stopped, or if nothing is left to do."""
        writer, reader = self._writer_of(self._target), RegistryReader(self._target)
        runner = Runner(
            self._name, self._target, self._clusters, writer, reader, self._metrics, self._report
        )
        try:
            await writer.start()  # from here on no other runner can commit
            runner.start()
            await reader.start()
            await reader.read_all()
            await runner.sweep()
            self._report.note(f"cluster {self._target.name}: this is the runner now")
            await self._turns(runner, reader)
            await runner.end()
        except LeaseError as error:
            if not error.is_lost:
                raise
            self._say(f"cluster {self._target.name}: another runner has taken over")
            return False
        else:
            return True
        finally:
            await runner.drop()
            await reader.drop()
            await writer.drop()

    async def _turns(self, runner: Runner, reader: RegistryReader) -> None:
        while not self._stop.is_set():
            await runner.turn()
            is_idle = not runner.is_busy and not unfinished(reader)
            if is_idle and not self._request.is_following:
                return
            await self._wait(_IDLE_S)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        except TimeoutError:
            return
