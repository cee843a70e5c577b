"""One child process in its own session, with its output in a file."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.devstack.processes import kill_session, session_ticks

_STILL_S = 10.0  # between two notes that something is waited for
_LOOK_S = 0.5  # between two looks for progress
_SHOWN = 200  # characters of a log's line
IDLE_S = 120.0  # without any progress; a starved process gets some processor time in that
_LAUNCHER = Path(__file__).with_name("launch.py")


class StartError(Exception):
    """A child did not come up; the text ends with the last lines of its log."""


class Child:
    """A started process. Its session id is its pid: `kill` also reaches what it started.

    Start it from the main thread: the kernel's parent-death signal belongs to the thread that
    forked, not to the process.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        signal_on_parent_death: signal.Signals = signal.SIGKILL,
    ) -> None:
        """Start `command` with both outputs appended to `log`."""
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
        launcher += [str(int(signal_on_parent_death)), str(os.getpid())]
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launcher, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if environment is None else dict(environment),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its session and process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number when a signal ended it."""
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone; nothing happens if it has ended."""
        self._process.send_signal(number)

    def stop(self, grace_s: float) -> None:
        """SIGTERM, then after `grace_s` seconds SIGKILL to all of its session."""
        if self.exit_code is None:
            self.signal(signal.SIGCONT)  # a paused process would not see SIGTERM
            self.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """SIGKILL the whole session, the process first, and reap it."""
        if self.exit_code is None:
            self.signal(signal.SIGKILL)
            self._process.wait()
        kill_session(self.pid)

    def wait_until(
        self,
        ready: Callable[[], bool],
        deadline_s: float = math.inf,
        say: Callable[[str], None] = lambda line: None,
        idle_s: float = math.inf,
    ) -> None:
        """Poll `ready` until it returns true.

        Args:
            ready: Tells whether the child is up.
            deadline_s: How long to wait, in seconds.
            say: Takes a line every 10 s, with the last line of the child's log.
            idle_s: How long the child may make no progress, in seconds: it neither uses processor
                time nor writes to its log.

        Raises:
            StartError: The child has ended, has made no progress, or the time is over.
        """
        start = time.monotonic()
        noted = moved = looked = start
        work = self._work()
        while not ready():
            now = time.monotonic()
            if self.exit_code is not None:
                raise StartError(f"{self.name} ended with {self.exit_code}\n{self.log_tail()}")
            if now > start + deadline_s:
                raise StartError(f"{self.name} not ready in {deadline_s} s\n{self.log_tail()}")
            if now > looked + _LOOK_S:
                looked, before, work = now, work, self._work()
                moved = now if work != before else moved
            if now > moved + idle_s:
                text = f"{self.name} is not ready, and has done nothing for {idle_s:g} s"
                raise StartError(f"{text}\n{self.log_tail()}")
            if now > noted + _STILL_S:
                noted = now
                say(f"  waiting for {self.name} ({now - start:.0f} s){self._last_words()}")
            time.sleep(0.02)

    def _work(self) -> tuple[int, int]:
        """Return figures that grow while the child makes progress."""
        return session_ticks(self.pid), self.log.stat().st_size

    def _last_words(self) -> str:
        lines = self.log.read_text(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return (
            f"; its log, {self.log}, ends with: {last[:_SHOWN]}" if last else f"; log: {self.log}"
        )

    def log_tail(self, lines: int = 30) -> str:
        """Return the log's path and its last lines."""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.log}", *text[-lines:]])
