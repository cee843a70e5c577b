"""What the operating system says of this process."""

import asyncio
import os
import resource
from collections.abc import Callable
from pathlib import Path

_TASKS_EVERY_S = 15.0  # counting 10,000 of them holds the event loop for some milliseconds
_STATM = Path("/proc/self/statm")


def cpu_seconds() -> dict[tuple[str, ...], float]:
    """CPU seconds used so far, by mode."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {("user",): used.ru_utime, ("system",): used.ru_stime}


def memory_bytes() -> float:
    """Resident memory now; 0 where /proc is not there."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except FileNotFoundError:
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


class Tasks:
    """How many tasks this thread's event loop has, counted now and then. clock: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._counted = 0.0
        self._count = 0.0

    def count(self) -> float:
        """As of at most 15 s ago; 0 without a loop."""
        now = self._clock()
        if abs(now - self._counted) >= _TASKS_EVERY_S:  # the clock may have gone back
            self._counted = now
            try:
                self._count = float(len(asyncio.all_tasks()))
            except RuntimeError:
                self._count = 0.0
        return self._count
