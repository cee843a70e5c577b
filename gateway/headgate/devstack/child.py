"""One child process in its own session, with its output in a file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headgate.devstack.processes import kill_session

_STILL_S = 10.0  # between two notes that something is waited for
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
        deadline_s: float,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Poll `ready` until it returns true.

        Args:
            ready: Tells whether the child is up.
            deadline_s: How long to wait, in seconds.
            say: Takes a line of progress every 10 s.

        Raises:
            StartError: The child has ended, or the time is over.
        """
        start = time.monotonic()
        noted = start
        while not ready():
            now = time.monotonic()
            if self.exit_code is not None:
                raise StartError(f"{self.name} ended with {self.exit_code}\n{self.log_tail()}")
            if now > start + deadline_s:
                raise StartError(f"{self.name} not ready in {deadline_s} s\n{self.log_tail()}")
            if now > noted + _STILL_S:
                noted = now
                say(f"  waiting for {self.name} ({now - start:.0f} s; log: {self.log})")
            time.sleep(0.02)

    def log_tail(self, lines: int = 30) -> str:
        """Return the log's path and its last lines."""
        text = self.log.read_text(errors="replace").splitlines()
        return "\n".join([f"--- {self.log}", *text[-lines:]])
