"""The real parent of `headgate serve` with stand-in workers (fake_worker.py), for tests."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import psutil

from headgate.devstack.ports import LOOPBACK
from support.process.stack import PATIENCE, free_port

SCRIPT = Path(__file__).parent / "fake_worker.py"
CONFIG = """
[http]
port = {port}
management_port = {management_port}
workers = {workers}
shutdown_delay_ms = {delay_ms}
drain_timeout_ms = {drain_ms}
[clusters.main]
bootstrap_servers = ["127.0.0.1:1"]
[redis]
url = "redis://127.0.0.1:1/0"
[producers.shop]
[topics.orders]
kind = "state"
key = ["/id"]
suppress = "raw"
"""


class Running:
    """A parent with its workers. It lets them end for delay_ms, drain_ms and 5 s more."""

    def __init__(
        self,
        folder: Path,
        workers: int,
        environ: Mapping[str, str],
        drain_ms: int,
        delay_ms: int = 0,
        management_port: int | None = None,
    ) -> None:
        self.port, self.management_port = free_port(), management_port or free_port()
        self.config = folder / "headgate.toml"
        self.text = CONFIG.format(
            port=self.port,
            management_port=self.management_port,
            workers=workers,
            drain_ms=drain_ms,
            delay_ms=delay_ms,
        )
        self.config.write_text(self.text)
        # Short: it holds unix sockets, whose paths are bounded, and `folder` may be deep.
        self.folder = Path(tempfile.mkdtemp(prefix="headgate-test-"))
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(SCRIPT), "parent", str(self.config)],
                stderr=log,
                env={**os.environ, "TMPDIR": str(self.folder), **environ},
            )
        self._seen: dict[int, psutil.Process] = {}

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = HTTPConnection(LOOPBACK, self.management_port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def json(self, path: str) -> Any:
        return json.loads(self.get(path)[1])

    def until(self, is_done: Callable[[], Any], deadline_s: float = 20.0) -> Any:
        """Ask until the answer is true. `deadline_s` is for an idle machine."""
        end = time.monotonic() + deadline_s * PATIENCE
        while True:
            try:
                found = is_done()
            except OSError:
                found = None
            if found:
                return found
            assert time.monotonic() < end, self.log
            time.sleep(0.05)

    def ready(self) -> bool:
        return bool(self.json("/ready")["status"] == "ready")

    def workers(self) -> dict[int, psutil.Process]:
        """The workers that run, by process id."""
        found = psutil.Process(self.process.pid).children()
        alive = {one.pid: one for one in found if _alive(one)}  # one may end right now
        self._seen |= alive
        return alive

    def events(self) -> float:
        _, text = self.get("/metrics")
        found = re.search(r'^headgate_events_total\{outcome="published".*\} (\S+)$', text, re.M)
        return float(found.group(1)) if found else 0.0

    @property
    def log(self) -> str:
        return self._log.read_text()

    def orphans(self) -> list[psutil.Process]:
        return [one for one in self._seen.values() if one.is_running() and _alive(one)]

    def kill(self) -> None:
        if self.process.poll() is None:
            self.workers()
            self.process.kill()
        self.process.wait()
        for one in self.orphans():
            one.kill()
        shutil.rmtree(self.folder)


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
