"""The command `headgate-spark` as a process tree that a test may kill anywhere."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from headgate.devstack.child import Child
from support.process import spark_start
from support.root import ROOT
from support.scenarios.mirror_world import Two

QUICK = ("--conf", f"spark.driver.extraJavaOptions={spark_start.QUICK}",
         "--conf", "spark.driver.memory=512m")  # fmt: skip


def config_text(two: Two, patterns: Sequence[str]) -> str:
    topics = "".join(
        f'[topics."{one}"]\ncluster = "main"\nkeyless = "spread"\n' for one in patterns
    )
    return f"""
[clusters.main]
bootstrap_servers = ["{two.source.bootstrap}"]
backfill = "main-backfill"
[clusters.main-backfill]
bootstrap_servers = ["{two.target.bootstrap}"]
tier = "backfill"
{topics}"""


class Job:
    """`headgate-spark ...` running. Its log has what it said."""

    def __init__(
        self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.log = folder / "job.log"
        code = os.pathsep.join(str(ROOT / one) for one in ("gateway", "spark"))
        command = [sys.executable, "-m", "headgate_spark", *arguments, *QUICK]
        own = {"PYTHONPATH": code, "SPARK_LOCAL_DIRS": str(folder)}
        own = {**os.environ, **own, **(environment or {})}
        self.child = Child("headgate-spark", command, self.log, environment=own)

    @property
    def exit_code(self) -> int | None:
        return self.child.exit_code

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def workers(self) -> list[psutil.Process]:
        """Spark's Python workers, without the daemon that forks them."""
        daemons = [one for one in self._tree() if _is_daemon(one)]
        return [one for one in daemons if _parent(one) in daemons]

    def remains(self) -> list[psutil.Process]:
        """What is left of it, whoever started it: its session is its own."""
        return [one for one in psutil.process_iter() if _is_of_session(one, self.child.pid)]

    def kill(self) -> None:
        """SIGKILL to the driver alone: what it started must end by itself."""
        os.kill(self.child.pid, signal.SIGKILL)

    def wait(self, deadline_s: float = 480.0) -> int:
        """Wait for its end; the exit code."""
        end = time.monotonic() + deadline_s
        while (code := self.exit_code) is None:
            assert time.monotonic() < end, self.text()
            time.sleep(0.05)
        return code

    def end(self) -> None:
        """SIGKILL to all of it."""
        self.child.kill()

    def _tree(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.child.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


def _is_daemon(process: psutil.Process) -> bool:
    try:
        return "pyspark.daemon" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> psutil.Process | None:
    try:
        return process.parent()
    except psutil.Error:  # it has just ended
        return None


def _is_of_session(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False
