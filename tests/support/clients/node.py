"""Programs for Node that use clients/js."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.root import ROOT

PACKAGE = ROOT / "clients" / "js"
PROGRAMS = Path(__file__).parent / "js"
NODE = shutil.which("node")
OLDEST = 20
DEADLINE_S = 90.0


@cache
def node_version() -> int:
    """The major version of the Node that is there; 0 = none."""
    if NODE is None:
        return 0
    said = subprocess.run([NODE, "--version"], capture_output=True, check=True, text=True).stdout
    return int(said.removeprefix("v").partition(".")[0])


needs_node = pytest.mark.skipif(
    node_version() < OLDEST, reason=f"Node {OLDEST} or newer is not on this machine"
)


class NodeProgram:
    """A program of `support/clients/js`: it is told something, and writes lines of JSON."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        command = [str(NODE), str(PROGRAMS / name), json.dumps(options)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._lines = queue.Queue[bytes | None]()
        self._errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> NodeProgram:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            pipe.close()

    def line(self) -> Any:
        """Return the next line that it writes."""
        line = self._lines.get(timeout=DEADLINE_S)
        assert line is not None, b"".join(self._errors).decode()
        return json.loads(line)

    def stop(self) -> None:
        """Tell it to come to its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()

    def end(self) -> list[Any]:
        """Wait for its end, and return what it has written meanwhile."""
        assert self._process.wait(DEADLINE_S) == 0, b"".join(self._errors).decode()
        lines = []
        while (line := self._lines.get(timeout=DEADLINE_S)) is not None:
            lines.append(json.loads(line))
        return lines

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)


def run_program(name: str, options: dict[str, Any]) -> list[Any]:
    """Run a program to its end; return its lines."""
    with NodeProgram(name, options) as program:
        return program.end()
