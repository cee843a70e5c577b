"""Progress on the terminal: one line a step, with its tasks while it runs."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

_EVERY_S = 2.0


class Progress:
    """Says what is going on. steps: how many `step` calls there will be, for `[2/9]`."""

    def __init__(self, steps: int) -> None:
        self._steps, self._number = steps, 0

    def say(self, line: str) -> None:
        """Write one line at once."""
        sys.stderr.write(f"headgate-spark: {line}\n")
        sys.stderr.flush()

    @contextmanager
    def step(self, what: str, context: SparkContext | None = None) -> Iterator[None]:
        """Name a step, show its tasks every 2 s while it runs, and how long it took."""
        self._number += 1
        head = f"[{self._number}/{self._steps}] {what}"
        begun, over = time.monotonic(), threading.Event()
        watch = threading.Thread(target=self._watch, args=(head, context, over), daemon=True)
        watch.start()
        try:
            yield
        finally:
            over.set()
            watch.join()
        self.say(f"{head}: {time.monotonic() - begun:.1f} s")

    def _watch(self, head: str, context: SparkContext | None, over: threading.Event) -> None:
        while not over.wait(_EVERY_S):
            with suppress(Py4JError):  # Java has ended: the step says so itself
                if context is not None and (tasks := _tasks(context)):
                    self.say(f"{head}: {tasks}")


def _tasks(context: SparkContext) -> str:
    tracker = context.statusTracker()
    stages = [
        tracker.getStageInfo(getActiveStageId) for getActiveStageId in tracker.getActiveStageIds()
    ]
    running = [
        f"{stage.numCompletedTasks} of {stage.numTasks} tasks"
        for stage in stages
        if stage is not None
    ]
    return ", ".join(running)
