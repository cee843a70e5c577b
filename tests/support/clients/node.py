"""Programs for Node that use clients/js."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any

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


# Without the mark `kafka`: what has it is never skipped in .ci/run, and Node may be missing there.
needs_node = pytest.mark.skipif(
    node_version() < OLDEST, reason=f"Node {OLDEST} or newer is not on this machine"
)


class NodeProgram:
    """A program of `support/clients/js`: it is told something, and writes lines of JSON."""

    def __init__(
        self, name: str, options: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(
            [str(NODE), str(PROGRAMS / name), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self._lines: list[bytes] = []
        self._errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=_read, args=(pipe, into), daemon=True)
            for pipe, into in (
                (self._process.stdout, self._lines),
                (self._process.stderr, self._errors),
            )
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

    def newest(self) -> Any:
        """Return the last line that it has written, or its first one."""
        end = time.monotonic() + DEADLINE_S
        while not self._lines:
            assert time.monotonic() < end, "it writes nothing"
            self._check()
            time.sleep(0.02)
        self._check()
        return json.loads(self._lines[-1])

    def stop(self) -> None:
        """Tell it to come to its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"stop\n")
        self._process.stdin.flush()

    def end(self, deadline_s: float = DEADLINE_S) -> list[Any]:
        """Wait for its end, and return all that it has written."""
        self._process.wait(deadline_s)
        for thread in self._threads:
            thread.join()
        self._check()
        return [json.loads(line) for line in self._lines]

    def _check(self) -> None:
        assert self._process.poll() in (None, 0), b"".join(self._errors).decode()


def _read(pipe: IO[bytes], into: list[bytes]) -> None:
    into.extend(pipe)


def run_program(
    name: str, options: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> list[Any]:
    """Run a program to its end; return its lines."""
    with NodeProgram(name, options, environment) as program:
        return program.end()
