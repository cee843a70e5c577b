"""The workers: one process each, kept running, and the parent's view of all of them.

The parent polls metrics, rates and readiness every second.
"""

import asyncio
import itertools
import logging
import signal
import socket
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.admin.instance import InstanceHealth, Monitored
from headgate.audits.latest import LatestAudits
from headgate.config import Settings
from headgate.metrics.build import BUILD_GAUGES
from headgate.metrics.fleet import Fleet, Rates, Recorder
from headgate.metrics.health import Dependency
from headgate.model.installation import Kind, NewEntry
from headgate.model.outcome import Failure, Reason
from headgate.model.policy import PolicyTable
from headgate.model.suppression_states import TopicSuppression, worst
from headgate.model.times import Outage
from headgate.model.topics import TopicState
from headgate.supervisor.control import (
    HURRY,
    WorkerClient,
    WorkerState,
    WorkerUnreachableError,
    worker_socket,
)
from headgate.supervisor.installation_log import InstallationLog, Observer, poll_of, span
from headgate.supervisor.upstreams import MonitorClient

log = logging.getLogger("headgate.supervisor")

BACK_OFF_S = (0.1, 10.0)  # the first pause before a restart, doubled up to the last
_STEADY_S = 30.0  # a worker that ran for so long restarts after the first pause
CONFIGURATION_EXIT = 2  # the command line's code for "will never work like this"


class Launch(NamedTuple):
    """The command that starts a worker.

    Attributes:
        command: Command line; `--index N` is appended.
        environ: Environment of the process.
        folder: Directory of the worker's socket.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


class HopelessWorkerError(Exception):
    """A worker that refused its configuration before its first answer: a restart is useless."""


class WorkerProcess:
    """The worker with one index; at most one process at a time.

    Attributes:
        sockets: Bound sockets that each process inherits. This process keeps them open, so that
            connections wait for the successor of a process that died.
        answered: Whether the running process has answered on its socket.
        started: Start of the process, in monotonic seconds.
        last_answer: Time of the last answer, in monotonic seconds.
        outage: Whether the worker fails to answer.
    """

    def __init__(self, index: int, launch: Launch, overview: "Overview") -> None:
        self.index = index
        self._command = launch.command
        self._environ = launch.environ
        self._path = worker_socket(launch.folder, index)
        self._overview = overview
        self._process: Process | None = None
        self._ending = asyncio.Event()
        self._end_signal = int(signal.SIGTERM)  # the latest one of `end` and `kill`
        self.sockets: Sequence[socket.socket] = ()
        self.client: WorkerClient | None = None
        self.answered = False
        self.started = 0.0
        self.last_answer = 0.0
        self.outage = Outage(time.monotonic)

    @property
    def pid(self) -> int | None:
        """Return the id of the running process; None between two processes."""
        process = self._process
        return None if process is None or process.returncode is not None else process.pid

    async def run(self) -> None:
        """Keep a worker running until `end`.

        Raises:
            HopelessWorkerError: The worker refused its configuration.
        """
        pause, longest = BACK_OFF_S
        while not self._ending.is_set():
            started = time.monotonic()
            code = await self._run_once()
            if self._ending.is_set():
                return
            if code == CONFIGURATION_EXIT and not self.answered:
                raise HopelessWorkerError(f"worker {self.index} refused to start")
            if time.monotonic() - started > _STEADY_S:
                pause = BACK_OFF_S[0]
            log.error(
                "worker %d %s; it is restarted in %g s",
                self.index,
                _end_in_words(code),
                pause,
                extra={"worker": self.index, "exit_code": code},
            )
            self._overview.worker_lost(self.index, _end_in_words(code), code)
            await self._pause(pause)
            pause = min(pause * 2, longest)
            if not self._ending.is_set():
                self._overview.worker_restarted()

    def signal(self, number: int) -> None:
        """Send a signal to the running process, if any."""
        process = self._process
        if process is not None and process.returncode is None:
            process.send_signal(number)

    def end(self, is_hurried: bool = False) -> None:
        """Ask the worker to drain and do not restart it; `run` returns after its end.

        Args:
            is_hurried: Skip `http.shutdown_delay_ms`.
        """
        self._end_with(HURRY if is_hurried else signal.SIGTERM)

    def kill(self) -> None:
        """Kill the worker at once."""
        self._end_with(signal.SIGKILL)

    def _end_with(self, number: int) -> None:
        self._end_signal = number
        self._ending.set()
        self.signal(number)

    async def _run_once(self) -> int:
        self._path.unlink(missing_ok=True)  # no client may connect to a dead worker's socket
        # Its own process group: Ctrl-C in a terminal reaches only the parent, which then drains.
        # stdin is the lifeline (`control.hold_lifeline`): the pipe closes when this process ends.
        descriptors = [each.fileno() for each in self.sockets]
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            f"--index={self.index}",
            *(f"--socket={descriptor}" for descriptor in descriptors),
            stdin=PIPE,
            pass_fds=descriptors,
            process_group=0,
            env=self._environ,
        )
        self.started = time.monotonic()
        self.answered = False
        if self._ending.is_set():  # `end` or `kill` was called during the start
            self.signal(self._end_signal)
        self.client = client = WorkerClient(self._path)
        try:
            return await process.wait()
        finally:
            self.client = None
            await client.close()
            self._overview.worker_died(process.pid)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return


def _end_in_words(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"


# ---- all workers

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
        self._audits = LatestAudits(settings.clusters)
        self._monitor = MonitorClient(lambda: self.settings)
        self.rates = Rates()
        self.history = Recorder()
        self.since: dict[str, float] = {}
        self.is_draining = False
        self.reloaded = 0.0  # monotonic seconds of the last reload
        self._states: dict[int, WorkerState] = {}
        self._lost: dict[int, float] = {}  # monotonic seconds of an exit, by the worker's index
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
                log.exception("polling the workers failed")
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
        self._lost[index] = time.monotonic()
        details = {"worker": index, "exit_code": code}
        self.log.note(
            NewEntry(Kind.WORKER_DIED, f"worker {index}", f"worker {index} {how}", details)
        )

    def _worker_up(self, worker: WorkerProcess, pid: int) -> None:
        """Log a worker's first answer; the installation log gets only successors."""
        log.info("worker %d is up", worker.index, extra={"worker": worker.index, "pid": pid})
        lost = self._lost.pop(worker.index, None)
        if lost is not None:
            seconds = round(time.monotonic() - lost, 3)
            details = {"worker": worker.index, "pid": pid, "seconds": seconds}
            text = f"worker {worker.index} is up again after {span(int(seconds * 1000))}"
            self.log.note(NewEntry(Kind.WORKER_STARTED, f"worker {worker.index}", text, details))

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
            for entry in self._observer.see(time.time_ns() // 1_000_000, seen):
                self.log.note(entry)
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
                extra = {"worker": worker.index}
                log.warning("worker %d does not answer: %s", worker.index, error, extra=extra)
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
            log.info("worker %d answers again", worker.index, extra=fields)
        if not worker.answered:
            worker.answered = True
            self._worker_up(worker, pid)
            if worker.started < self.reloaded:  # it may have read the previous file
                worker.signal(signal.SIGHUP)

    def _end_if_hung(self, worker: WorkerProcess) -> None:
        silent_s = time.monotonic() - worker.last_answer
        if silent_s > _HUNG_S:
            # The kernel still gives it its share of new connections.
            log.error("worker %d did not answer for %.0f s and is killed", worker.index, silent_s)
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
