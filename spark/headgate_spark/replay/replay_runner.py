"""Carries out the replays of one backfill cluster: the runner, while it has the lease.

It reads the registry, starts a `ReplayCopy` for each replay that has work, and says every few
seconds that it is alive, whatever its replays are waiting for.
"""

import asyncio
import time
from collections.abc import Mapping

from headgate.core.replays.replay import (
    FINISHED,
    Control,
    Replay,
    ReplayState,
    runner_record,
)
from headgate.core.replays.spec import ReplayMode
from headgate.core.terminal.progress import ProgressLine
from headgate_spark.job.connections import Connection
from headgate_spark.job.times import now_ms
from headgate_spark.kafka.cluster_admin import cluster_admin
from headgate_spark.replay.replay_copy import ReplayCopy, RunnerContext, has_work
from headgate_spark.replay.replay_metrics import ReplayMetrics
from headgate_spark.replay.replay_progress import copying_step
from headgate_spark.replay.replay_registry import RegistryReader
from headgate_spark.replay.replay_writer import Pair, ReplayWriter

BEAT_S = 2.0
_ENDING_POLL_S = 0.1


class Runner:
    """name: in the registry.  clusters: how to reach those that specs name.

    Calls raise LeaseError, JobError, KafkaError, OSError or TimeoutError, all of them about the
    backfill cluster: then nothing is known for certain, and the next runner reads it again.
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
        """Begin to say that this is the runner. The writer has the lease."""
        self._heartbeat = asyncio.create_task(self._beats(), name="heartbeat")

    async def turn(self) -> None:
        """Read what has come, and see to every replay."""
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
            if (replay.spec or {}).get("mode") == ReplayMode.TOPIC:
                self._see_to(replay)
        if time.monotonic() - self._reported_at >= BEAT_S:
            self.report()
            self._reported_at = time.monotonic()
        self._show()

    @property
    def is_busy(self) -> bool:
        """Whether any replay is being carried out."""
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
            known = statuses.pop(replay.id, None)
            if known is not None and known["state"] not in FINISHED:
                self._start(replay, only_clean_up=True)

    def _start(self, replay: Replay, *, only_clean_up: bool = False) -> None:
        copy = ReplayCopy(self._context, replay)
        self._copies[replay.id] = copy, copy.start(only_clean_up=only_clean_up)

    def _show(self) -> None:
        """How far it is; the runners of other clusters write to the same line."""
        step = copying_step(self._reader.registry, self._target.name)
        if self._shown is not None and (step is None or step.what != self._shown):
            self._report.end(self._shown)
        if step is not None:
            self._report.show(step)
        self._shown = None if step is None else step.what

    async def sweep(self) -> None:
        """Delete the topics of replays that have ended: a runner may have died in between."""
        over = {one.topic for one in self._reader.registry if one.is_finished}
        async with cluster_admin(self._target) as admin:
            for topic in over & (await admin.metadata()).topics.keys():
                await admin.delete(topic)

    async def end(self) -> None:
        """Stop everything, let what is being written end, and say that this is no runner any
        more."""
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
        await self._writer.tell([self._beat(is_last=True)])

    async def drop(self) -> None:
        """Let go of what is open, at once."""
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
        self._metrics.tell(self._target.name, self._reader.registry, now_ms())

    async def _beats(self) -> None:
        """Say that this is the runner until it ends. Raises LeaseError."""
        is_over = self._context.is_over
        while not is_over.is_set():
            await self._writer.tell([self._beat()])
            try:
                async with asyncio.timeout(BEAT_S):
                    await is_over.wait()
            except TimeoutError:
                continue

    def _beat(self, *, is_last: bool = False) -> Pair:
        return runner_record({"runner": self._name, "at_ms": now_ms(), "stopped": is_last})


def unfinished(reader: RegistryReader) -> bool:
    """Whether any replay could go on now."""
    return any(
        (one.spec or {}).get("mode") == ReplayMode.TOPIC
        and one.state not in {*FINISHED, ReplayState.READY}
        and one.control is not Control.PAUSE
        for one in reader.registry
    )
