"""A running `headgate dev`, as tests see it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


class Dev:
    """A running `headgate dev --json`."""

    def __init__(self, state: Path, *options: str) -> None:
        self.progress = state.with_name(f"{state.name}.err")
        command = [sys.executable, "-m", "headgate", "dev", "--json", "--state", str(state)]
        with self.progress.open("ab") as errors:
            self.process = subprocess.Popen(
                [*command, *options], stdout=subprocess.PIPE, stderr=errors, cwd=state.parent
            )

    def ready(self) -> dict[str, Any]:
        """Wait for the one line of JSON."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.progress.read_text()
        parsed: dict[str, Any] = json.loads(line)
        return parsed

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait for the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(120)
        assert self.process.stdout is not None
        assert self.process.stdout.read() == b""
        return code

    def force_end(self) -> None:
        """End it however it is."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self.process.stdout is not None:
            self.process.stdout.close()
