"""What a job says in this process, kept."""

from __future__ import annotations

import io
import threading
import time

from headgate.commands.terminal import PLAIN, ProgressLine


class Reported:
    """A job's report as a log has it."""

    def __init__(self) -> None:
        self._out = io.StringIO()
        self.report = ProgressLine(self._out, PLAIN, time.monotonic, lambda: 80, threading.Lock())

    @property
    def lines(self) -> list[str]:
        return self._out.getvalue().splitlines()
