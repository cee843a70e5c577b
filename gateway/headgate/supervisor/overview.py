"""The parent's view of all workers: metrics, rates and readiness, polled every second."""

import asyncio
import itertools
import logging
import signal
import time
from collections.abc import Mapping, Sequence

from headgate.admin.instance import InstanceHealth, Monitored
from headgate.audits.latest import LatestAudits
from headgate.config import Settings
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.fleet import Fleet, Rates
from headgate.metrics.health import Dependency
from headgate.metrics.history import Recorder
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import TopicSuppression, worst
from headgate.model.topics import TopicState
from headgate.supervisor.child import WorkerProcess
from headgate.supervisor.control import WorkerState, WorkerUnreachableError
from headgate.supervisor.installation_log import InstallationLog, Observer, poll_of
from headgate.supervisor.upstreams import MonitorClient

_log = logging.getLogger("headgate.supervisor")

_POLL_S = 1.0
_HUNG_S = 60.0
_DETAILS_EVERY = 5  # polls: sketches take some 20 KiB per producer and topic


class Overview:
    """Implementation of `admin.instance.Instance`."""

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
        # Counters begin at 0: one that appears with its first count shows no increase.
        self.figures.count("headgate_worker_restarts_total", by=0)
        for result in ("applied", "refused"):
            self.figures.count("headgate_config_reloads_total", (result,), by=0)
            self.figures.count("headgate_tls_reloads_total", (result,), by=0)

    async def poll(self) -> None:
        """Poll all workers until cancelled."""
        for number in itertools.count():
            try:
                await self._read(with_details=number % _DETAILS_EVERY == 0)
            except Exception:
                _log.exception("polling the workers failed")
            await asyncio.sleep(_POLL_S)

    async def refresh(self, at_once: bool = False) -> None:
        """Poll the workers if the figures with details are older than a second, or `at_once`."""
        if at_once or time.monotonic() - self._details_read > _POLL_S:
            await self._read(with_details=True)

    def keys_fetched(self, result: str) -> None:
        """Count a fetch of the issuer's keys by this process."""
        self.figures.count("headgate_issuer_keys_fetches_total", (result,))

    def worker_died(self, pid: int) -> None:
        """Keep the last figures of a worker's process that has ended."""
        self.figures.retire(pid)
        self._states.pop(pid, None)

    def worker_restarted(self) -> None:
        """Count a restart of a worker."""
        self.figures.count("headgate_worker_restarts_total")

    def worker_lost(self, index: int, how: str, code: int) -> None:
        """Log the end of a worker that ended by itself."""
        details = {"worker": index, "exit_code": code}
        self.log.note(
            NewEntry(Kind.WORKER_DIED, f"worker {index}", f"worker {index} {how}", details)
        )

    def topics(self) -> dict[str, TopicState]:
        """Return the topics that the workers see, by name."""
        return {topic.name: topic for state in self._states.values() for topic in state.topics}

    def suppression(self) -> dict[str, TopicSuppression]:
        """Return the worst state that any worker sees, for each topic that suppresses."""
        return worst(state.suppression for state in self._states.values())

    def health(self) -> InstanceHealth:
        """Return the readiness of the instance: ready if every running worker is.

        A worker that is still starting takes no requests, so it does not count.
        """
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
            name: {
                "ok": reported.ok,
                "required": reported.required,
                "detail": reported.detail,
            }
            for name, reported in seen.items()
        }
        well = up == wanted and all(each.ok for each in seen.values())
        status = "ready" if well else "degraded"
        if draining or not ready:
            status = "draining" if draining else "not ready"
        is_ready = ready and not draining
        return InstanceHealth(is_ready, status, dependencies, {"up": up, "wanted": wanted})

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Drop suppression state through any one worker: the state is in Redis, shared by all."""
        for worker in self.workers:
            client = worker.client
            if client is None:
                continue
            try:
                return await client.forget(topic, key)
            except WorkerUnreachableError:
                continue  # a repeated drop is harmless: try the next worker
        return Failure(Reason.OVERLOADED, "no worker answers", retry_after_s=1)

    async def audits(self) -> Mapping[str, bytes] | Failure:
        """Return the newest skew audit of each topic."""
        return await self._audits.by_topic()

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        """Return the response of `headgate monitor` to this path."""
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
            states, dependencies = self._states.values(), health.dependencies
            seen = poll_of(
                states, dependencies, self.figures, is_complete, PolicyTable(self.settings.topics)
            )
            for happening in self._observer.see(time.time_ns() // 1_000_000, seen):
                self.log.note(happening)
        self.figures.set("headgate_ready", (), float(health.is_ready))
        for name, dependency in health.dependencies.items():
            is_up = float(bool(dependency["ok"]))
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
            return  # it died meanwhile: its retired figures must not return
        self.figures.update(pid, figures, with_details)
        self._states[pid] = state
        worker.last_answer = time.monotonic()
        away_s = worker.outage.ends()
        if away_s is not None and worker.answered:
            fields = {"worker": worker.index, "away_s": away_s}
            _log.info("worker %d answers again", worker.index, extra=fields)
        if not worker.answered:
            worker.answered = True
            _log.info("worker %d is up", worker.index, extra={"worker": worker.index, "pid": pid})
            if worker.started < self.reloaded:  # it may have read the previous file
                worker.signal(signal.SIGHUP)

    def _end_if_hung(self, worker: WorkerProcess) -> None:
        silent_s = time.monotonic() - worker.last_answer
        if silent_s > _HUNG_S:
            # The kernel still gives it its share of new connections.
            _log.error("worker %d did not answer for %.0f s and is killed", worker.index, silent_s)
            worker.signal(signal.SIGKILL)
            subject, text = (
                f"worker {worker.index}",
                f"no answer for {silent_s:.0f} s: it is killed",
            )
            self.log.note(NewEntry(Kind.WORKER_SILENT, subject, text))


def _limits(settings: Settings) -> dict[str, float]:
    """Return the limits of the instance's load; a reload changes none of them."""
    limits: dict[str, float] = {
        "headgate_in_flight_limit_events": settings.admission.in_flight_max_events,
        "headgate_in_flight_limit_bytes": settings.admission.in_flight_max_bytes,
    }
    if settings.spool.path is not None:
        limits["headgate_spool_limit_bytes"] = settings.spool.max_bytes
    return limits


def _badness(dependency: Dependency) -> tuple[bool, float]:
    return not dependency.ok, dependency.limited_s
