"""What the parent knows of all workers: figures, rates, readiness; read from them every second."""

import asyncio
import itertools
import logging
import signal
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headgate.admin.instance import Monitored
from headgate.audits.latest import LatestAudits
from headgate.config import Settings
from headgate.core.installation import Happening, Kind
from headgate.core.outcome import Failure, Reason
from headgate.core.suppression import TopicSuppression, worst
from headgate.core.topics.policy import PolicyTable
from headgate.core.topics.topic import TopicState
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.fleet import Fleet, Rates
from headgate.metrics.health import Dependency
from headgate.metrics.history import Recorder
from headgate.supervisor.child import WorkerProcess
from headgate.supervisor.control import WorkerState
from headgate.supervisor.installation_log import InstallationLog
from headgate.supervisor.monitor_client import MonitorClient
from headgate.supervisor.observing import Observer, poll_of
from headgate.supervisor.worker_client import WorkerUnreachableError

_log = logging.getLogger("headgate.overview")

_POLL_S = 1.0
_HUNG_S = 60.0
_DETAILS_EVERY = 5  # polls: sketches are some 20 KiB a producer and topic


class InstanceHealth(NamedTuple):
    """The whole instance's readiness, as /ready shows it."""

    is_ready: bool
    status: str
    dependencies: dict[str, dict[str, object]]
    workers: dict[str, int]


class Overview:
    """Implements `admin.instance.Instance`."""

    def __init__(self, settings: Settings, log: InstallationLog) -> None:
        self.settings = settings
        self.log = log
        self._observer = Observer()
        self.workers: Sequence[WorkerProcess] = ()
        self.figures = Fleet()
        self._audits = LatestAudits(settings.clusters.values())
        self._monitor = MonitorClient(lambda: self.settings)
        self.rates = Rates()
        self.history = Recorder()
        self.since: dict[str, float] = {}
        self.is_draining = False
        self.reloaded = 0.0  # monotonic seconds of the last reload
        self._states: dict[int, WorkerState] = {}
        self._reading = asyncio.Lock()
        self._details_read = 0.0
        for name, rows in BUILD_GAUGES.items():
            for labels, value in rows.items():
                self.figures.set(name, labels, value)
        for name, limit in _limits(settings).items():
            self.figures.set(name, (), limit)
        # From 0 on: a counter that appears with its first count shows no increase.
        self.figures.count("headgate_worker_restarts_total", by=0)
        for result in ("applied", "refused"):
            self.figures.count("headgate_config_reloads_total", (result,), by=0)
            self.figures.count("headgate_tls_reloads_total", (result,), by=0)

    async def poll(self) -> None:
        """Read all workers again and again, until cancelled."""
        for number in itertools.count():
            try:
                await self._read(with_details=number % _DETAILS_EVERY == 0)
            except Exception:
                _log.exception("polling the workers failed")
            await asyncio.sleep(_POLL_S)

    async def refresh(self, at_once: bool = False) -> None:
        """Have figures that are not older than a second, details included, or new ones."""
        if at_once or time.monotonic() - self._details_read > _POLL_S:
            await self._read(with_details=True)

    def keys_fetched(self, result: str) -> None:
        """This process has fetched the issuer's keys, or has not."""
        self.figures.count("headgate_issuer_keys_fetches_total", (result,))

    def worker_died(self, pid: int) -> None:
        """A worker's process has ended: keep its last figures."""
        self.figures.retire(pid)
        self._states.pop(pid, None)

    def worker_restarted(self) -> None:
        """Another process took its place."""
        self.figures.count("headgate_worker_restarts_total")

    def worker_lost(self, index: int, how: str, code: int) -> None:
        """A worker ended by itself."""
        details = {"worker": index, "exit_code": code}
        self.log.note(
            Happening(Kind.WORKER_DIED, f"worker {index}", f"worker {index} {how}", details)
        )

    def topics(self) -> dict[str, TopicState]:
        """The topics that the workers see, by name."""
        return {topic.name: topic for state in self._states.values() for topic in state.topics}

    def suppression(self) -> dict[str, TopicSuppression]:
        """Of each topic that suppresses the worst that any worker sees."""
        return worst(state.suppression for state in self._states.values())

    def health(self) -> InstanceHealth:
        """Ready when every worker that runs is; a worker that starts takes no requests yet."""
        states = list(self._states.values())
        up, wanted = len(states), len(self.workers)
        ready = bool(states) and all(state.readiness.is_ready for state in states)
        draining = self.is_draining or any(state.readiness.draining for state in states)
        seen: dict[str, Dependency] = {}
        for state in states:
            for dependency in state.readiness.dependencies:  # the worst that any worker sees
                seen[dependency.name] = max(
                    dependency, seen.get(dependency.name, dependency), key=_badness
                )
        dependencies: dict[str, dict[str, object]] = {
            name: {"ok": one.ok, "required": one.required, "detail": one.detail}
            for name, one in seen.items()
        }
        well = up == wanted and all(each.ok for each in seen.values())
        status = "ready" if well else "degraded"
        if draining or not ready:
            status = "draining" if draining else "not ready"
        is_ready = ready and not draining
        return InstanceHealth(is_ready, status, dependencies, {"up": up, "wanted": wanted})

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Have one worker drop the suppression state: it is in Redis, shared by all."""
        for worker in self.workers:
            client = worker.client
            if client is None:
                continue
            try:
                return await client.forget(topic, key)
            except WorkerUnreachableError:
                continue  # forgetting twice does no harm: ask the next one
        return Failure(Reason.OVERLOADED, "no worker answers", retry_after_s=1)

    async def audits(self) -> Mapping[str, bytes] | Failure:
        """The newest skew audit of each topic."""
        return await self._audits.by_topic()

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        """What `headgate monitor` answers there."""
        return await self._monitor.ask(path, authorization)

    async def _read(self, with_details: bool) -> None:
        async with self._reading:
            await asyncio.gather(*(self._read_one(each, with_details) for each in self.workers))
            now = time.monotonic()
            if with_details:
                self._details_read = now
            self.rates.note(now, self.figures.volumes())
            self.history.note(time.time(), self.figures)
            self.figures.set("headgate_workers", ("up",), len(self._states))
            self.figures.set("headgate_workers", ("wanted",), len(self.workers))
            self._show(self.health())

    def _show(self, health: InstanceHealth) -> None:
        if self._states and not self.is_draining:
            is_complete = len(self._states) == len(self.workers)
            states, known = self._states.values(), health.dependencies
            seen = poll_of(
                states, known, self.figures, is_complete, PolicyTable(self.settings.topics)
            )
            for happening in self._observer.see(time.time_ns() // 1_000_000, seen):
                self.log.note(happening)
        self.figures.set("headgate_ready", (), float(health.is_ready))
        for name, one in health.dependencies.items():
            is_up = float(bool(one["ok"]))
            if self.figures.own("headgate_dependency_up", (name,)) != is_up:
                self.since[name] = time.time()
            self.figures.set("headgate_dependency_up", (name,), is_up)

    async def _read_one(self, worker: WorkerProcess, with_details: bool) -> None:
        pid, client = worker.pid, worker.client
        if pid is None or client is None:
            return
        try:
            figures = await client.snapshot(with_details)
            state = await client.state()
        except WorkerUnreachableError as error:
            if worker.pid == pid and worker.answered and not self.is_draining:
                self._states.pop(pid, None)
                worker.outage.begins()
                _log.warning("worker %d does not answer: %s", worker.index, error)
                self._end_if_hung(worker)
            return
        if worker.pid != pid:
            return  # it died meanwhile and is retired: its figures must not come back to life
        self.figures.update(pid, figures, with_details)
        self._states[pid] = state
        worker.last_answer = time.monotonic()
        away_s = worker.outage.ends()
        if away_s is not None and worker.answered:
            known = {"worker": worker.index, "away_s": away_s}
            _log.info("worker %d answers again", worker.index, extra=known)
        if not worker.answered:
            worker.answered = True
            _log.info("worker %d is up", worker.index, extra={"worker": worker.index, "pid": pid})
            if worker.started < self.reloaded:  # it may have read the file of before
                worker.signal(signal.SIGHUP)

    def _end_if_hung(self, worker: WorkerProcess) -> None:
        silent_s = time.monotonic() - worker.last_answer
        if silent_s > _HUNG_S:
            # The kernel goes on giving it its share of new connections.
            _log.error("worker %d did not answer for %.0f s and is killed", worker.index, silent_s)
            worker.signal(signal.SIGKILL)
            subject, text = (
                f"worker {worker.index}",
                f"no answer for {silent_s:.0f} s: it is killed",
            )
            self.log.note(Happening(Kind.WORKER_SILENT, subject, text))


def _limits(settings: Settings) -> dict[str, float]:
    """What the instance's load is a share of. A reload changes none of it."""
    limits: dict[str, float] = {
        "headgate_in_flight_limit_events": settings.admission.in_flight_max_events,
        "headgate_in_flight_limit_bytes": settings.admission.in_flight_max_bytes,
    }
    if settings.spool.path is not None:
        limits["headgate_spool_limit_bytes"] = settings.spool.max_bytes
    return limits


def _badness(one: Dependency) -> tuple[bool, float]:
    return not one.ok, one.limited_s
