"""Child processes, each in a session of its own, and the ledger of those that a run has started."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
# Fields of /proc/PID/stat, counted after the command's name.
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _START_TIME = 3, 11, 12, 19
_POLL_S = 0.02
_STILL_S = 10.0  # between two notes that something is waited for
_LOOK_S = 0.5  # between two looks for progress
_SHOWN = 200  # characters of a log's line
IDLE_S = 120.0  # without any progress; a starved process gets some processor time in that
_LAUNCHER = Path(__file__).with_name("launch.py")


def boot_id() -> str:
    """Return the text that names this boot of the machine: pids mean nothing after it."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone."""
    fields = _stat(pid)
    return int(fields[_START_TIME]) if fields else None


def session_members(session: int) -> list[int]:
    """Return the live processes of a session; its leader may be dead already."""
    pids = (int(folder.name) for folder in _PROC.iterdir() if folder.name.isdigit())
    stats = ((pid, _stat(pid)) for pid in pids)
    return [pid for pid, fields in stats if fields and int(fields[_SESSION]) == session]


def session_ticks(session: int) -> int:
    """Return the processor time that the live processes of a session have used, in clock ticks."""
    stats = (_stat(pid) for pid in session_members(session))
    return sum(int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS]) for stat in stats if stat)


def signal_session(session: int, number: signal.Signals) -> None:
    """Send a signal to every member of a session."""
    for pid in session_members(session):
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_for_session(session: int, deadline_s: float) -> bool:
    """Wait until a session has no live member; return whether that happened in time."""
    end = time.monotonic() + deadline_s
    while session_members(session):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def kill_session(session: int, deadline_s: float = 5.0) -> None:
    """Kill all of a session, also processes that its members start meanwhile."""
    end = time.monotonic() + deadline_s
    while session_members(session) and time.monotonic() < end:
        signal_session(session, signal.SIGKILL)
        time.sleep(_POLL_S)


def _stat(pid: int) -> list[str] | None:
    """Return the fields after the command's name; None for a process that is gone or a zombie."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields


class StartError(Exception):
    """A child did not come up; the text ends with the last lines of its log."""


class Child:
    """A started process. Its session id is its pid, so `kill` also reaches its own children.

    Start it from the main thread: the kernel's parent-death signal belongs to the thread that
    forked, not to the process.

    Args:
        name: Name of the process in messages.
        command: Program and arguments.
        log: File that gets both outputs, appended.
        environment: Its environment; None for that of this process.
        signal_on_parent_death: Signal that the kernel sends it when this process ends.
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
        launcher = [sys.executable, "-I", "-S", str(_LAUNCHER)]
        launcher += [str(int(signal_on_parent_death)), str(os.getpid())]
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._log_start = output.tell()  # lines of earlier processes come before it
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
        """Return the process id, which is also the id of its session and process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return None while it runs, the exit code, or minus the number of the signal."""
        return self._process.poll()

    @property
    def end(self) -> str:
        """Return the name, the pid and the exit code or the signal of a process that has ended."""
        code = self.exit_code or 0
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return f"{self.name} ended ({how}, pid {self.pid})"

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process alone; nothing happens if it has ended."""
        self._process.send_signal(number)

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM, then after `grace_s` seconds SIGKILL to all of its session."""
        if self.exit_code is None:
            self.signal(signal.SIGCONT)  # a paused process would not see SIGTERM
            self.signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        self.kill()

    def kill(self) -> None:
        """Kill the whole session, the process first, and reap it."""
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
            ready: Returns whether the child is up.
            deadline_s: Longest wait, in seconds.
            say: Takes a line every 10 s, with the last line of the child's log.
            idle_s: Longest time without progress, in seconds: the child neither uses processor
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
                raise StartError(f"{self.end}\n{self.log_tail()}")
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
        last = next((line.strip() for line in reversed(self._logged()) if line.strip()), "")
        return (
            f"; its log, {self.log}, ends with: {last[:_SHOWN]}" if last else f"; log: {self.log}"
        )

    def log_tail(self, lines: int = 30) -> str:
        """Return the log's path and the last lines that this process wrote."""
        return "\n".join([f"--- {self.log}", *self._logged()[-lines:]])

    def _logged(self) -> list[str]:
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace").splitlines()


class LedgerEntry(NamedTuple):
    """A child that leads a session of its own; pid and start time (clock ticks) name it."""

    name: str
    pid: int
    started: int
    grace_s: float  # time for an exit after SIGTERM; 0 = SIGKILL at once


class Ledger:
    """The file `children.json` of a state folder; valid until the machine is booted again."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._entries: list[LedgerEntry] = []

    def add(self, name: str, pid: int, grace_s: float) -> None:
        """Record a child that has just been started."""
        self._entries.append(LedgerEntry(name, pid, start_time(pid) or 0, grace_s))
        self._write()

    def clear(self) -> None:
        """Record that nothing runs."""
        self._entries.clear()
        self._write()

    def end_leftovers(self) -> list[str]:
        """End the children that an earlier process recorded and did not end; return their names."""
        alive = [entry for entry in self._read() if _is_alive(entry)]
        for entry in alive:
            _end(entry)
        self.clear()
        return [f"{entry.name} (pid {entry.pid})" for entry in alive]

    def _read(self) -> list[LedgerEntry]:
        try:
            stored = json.loads(self._file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return []
        if stored["boot_id"] != boot_id():
            return []
        return [LedgerEntry(*entry) for entry in stored["children"]]

    def _write(self) -> None:
        text = json.dumps({"boot_id": boot_id(), "children": self._entries})
        partial = self._file.with_suffix(".partial")
        partial.write_text(text)
        partial.replace(self._file)


def _is_alive(entry: LedgerEntry) -> bool:
    # The kernel gives no new process the number of a session that still has members, so a leader
    # with another start time means that the session is gone and another process has the number.
    started = start_time(entry.pid)
    is_stranger = started is not None and started != entry.started
    return not is_stranger and bool(session_members(entry.pid))


def _end(entry: LedgerEntry) -> None:
    signal_session(entry.pid, signal.SIGCONT)
    if entry.grace_s:
        signal_session(entry.pid, signal.SIGTERM)
        wait_for_session(entry.pid, entry.grace_s)
    kill_session(entry.pid)
