"""The progress of a job: its steps, and the state of Spark's tasks."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext

from headgate.commands.terminal import ProgressLine, Step

_TERMINAL_S, _LOG_S = 0.5, 2.0  # between two looks


@contextmanager
def watched(report: ProgressLine, look: Callable[[], Step | None]) -> Iterator[None]:
    """Show the progress while the block runs. `look` is called in a thread; None means unknown."""
    over = threading.Event()
    every_s = _TERMINAL_S if report.is_terminal else _LOG_S

    def watch() -> None:
        while not over.wait(every_s):
            with suppress(Py4JError):  # Java has ended: the block says so itself
                if (step := look()) is not None:
                    report.show(step)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        report.end()


class Progress:
    """The steps of a job. `steps`: the number of calls of `step`, for `[2/9]`."""

    def __init__(self, steps: int, report: ProgressLine) -> None:
        self._steps, self._number, self._report = steps, 0, report

    @contextmanager
    def step(self, what: str, context: SparkContext | None = None) -> Iterator[None]:
        """Name a step, and show the progress of its tasks and, at the end, its duration."""
        self._number += 1
        head = f"[{self._number}/{self._steps}] {what}"
        begun = time.monotonic()
        with watched(self._report, lambda: None if context is None else _tasks(head, context)):
            yield
        self._report.note(f"{head}: {time.monotonic() - begun:.1f} s")


def _tasks(what: str, context: SparkContext) -> Step | None:
    """Return the progress of the stages that run now."""
    tracker = context.statusTracker()
    stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
    running = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in running)
    total = sum(stage.numTasks for stage in running)
    return Step(what, done, total, "tasks") if total else None
