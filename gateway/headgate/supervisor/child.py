"""One worker process: start, restart after a crash, and end."""

import asyncio
import logging
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headgate.model.times import Outage
from headgate.supervisor.control import HURRY, WorkerClient, worker_socket

log = logging.getLogger("headgate.supervisor")

BACK_OFF_S = (0.1, 10.0)  # the first pause before a restart, doubled up to the last
_STEADY_S = 30.0  # a worker that ran for so long restarts after the first pause
CONFIGURATION_EXIT = 2  # the command line's code for "will never work like this"


class Launch(NamedTuple):
    """The command that starts a worker.

    Args:
        command: Command line; `--index N` is appended.
        environ: Environment of the process.
        folder: Directory of the worker's socket.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path


class Watchers(NamedTuple):
    """Callbacks for the life of a worker.

    Args:
        died: Takes the id of a process that ended.
        restarted: Called before a restart.
        lost: Takes the index, a description and the exit code of a worker that ended by itself.
    """

    died: Callable[[int], None]
    restarted: Callable[[], None]
    lost: Callable[[int, str, int], None]


class HopelessWorkerError(Exception):
    """A worker that refused its configuration before its first answer: a restart is useless."""


class WorkerProcess:
    """The worker with one index; at most one process at a time.

    Attributes:
        answered: Whether the running process has answered on its socket.
        started: Start of the process, in monotonic seconds.
        last_answer: Time of the last answer, in monotonic seconds.
        outage: Whether the worker fails to answer.
    """

    def __init__(self, index: int, launch: Launch, watchers: Watchers) -> None:
        self.index = index
        self._command = launch.command
        self._environ = launch.environ
        self._path = worker_socket(launch.folder, index)
        self._watchers = watchers
        self._process: Process | None = None
        self._ending = asyncio.Event()
        self._end_signal = int(signal.SIGTERM)  # the latest one of `end` and `kill`
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
                "worker %d %s; it is restarted in %g s", self.index, _how(code), pause,
                extra={"worker": self.index, "exit_code": code},
            )  # fmt: skip
            self._watchers.lost(self.index, _how(code), code)
            await self._pause(pause)
            pause = min(pause * 2, longest)
            if not self._ending.is_set():
                self._watchers.restarted()

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
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, "--index", str(self.index),
            stdin=PIPE, process_group=0, env=self._environ,
        )  # fmt: skip
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
            self._watchers.died(process.pid)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        except TimeoutError:
            return


def _how(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"exited with code {code}"
