"""`headgate-spark replay`: waits for the lease, is the runner, and gives way to another one."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from headgate.core.terminal.progress import ProgressLine
from headgate_spark.copying.tiers import pairs
from headgate_spark.job.connections import Connection
from headgate_spark.job.errors import OK, USAGE, JobError, in_words
from headgate_spark.job.exposition import Textfile
from headgate_spark.job.options import JobConfig
from headgate_spark.kafka.kafka_clients import CLIENT_ERRORS
from headgate_spark.replay.replay_metrics import ReplayMetrics
from headgate_spark.replay.replay_registry import RegistryReader
from headgate_spark.replay.replay_runner import Runner, unfinished
from headgate_spark.replay.replay_writer import LeaseError, ReplayWriter

_IDLE_S = 0.5
_AGAIN_S = 2.0
_TROUBLE = (LeaseError, JobError, *CLIENT_ERRORS)


class RunRequest(NamedTuple):
    """cluster: the backfill cluster, None = all.  patience_s: how long the runner that there is may
    be silent before this one takes its place.  metrics: a textfile to keep up to date."""

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
    """Until all is done, or for good. writer_of: what writes to a backfill cluster. Raises
    JobError."""
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
    connections = {name: one.connection for name, one in config.clusters.items()}
    async with asyncio.TaskGroup() as group:
        for name in targets:
            post = _Post(connections[name], connections, request, metrics, stop, report, writer_of)
            group.create_task(post.run(), name=name)
    return OK


def _targets(config: JobConfig, wanted: str | None) -> list[str]:
    there = sorted({target.name for _, target in pairs(config, None)})
    if wanted is not None and wanted not in there:
        raise JobError(f"--cluster {wanted}: the backfill clusters are {', '.join(there)}", USAGE)
    return [wanted] if wanted is not None else there


class _Post:
    """One backfill cluster: on duty while it has the lease, else on standby."""

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
        """Until it is told to stop, or nothing is left to do."""
        while not self._stop.is_set():
            try:
                if await self._stand_by() and await self._duty():
                    return
            except _TROUBLE as error:
                self._say(f"cluster {self._target.name}: {in_words(error)}; trying again")
                await self._wait(_AGAIN_S)

    async def _stand_by(self) -> bool:
        """Wait until the runner that there is has been silent; False: told to stop before."""
        reader = RegistryReader(self._target)
        try:
            await reader.start()
            await reader.read_all()
            self._metrics.tell(self._target.name, None, 0)
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
        """Be the runner; True: there is nothing left to do, or it was told to stop."""
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
