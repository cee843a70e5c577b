"""The end of a job by a signal: one sentence, and no remaining Java process of Spark."""

import logging
import math
import os
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ONE_END_S = 2.0
_JAVA_ENDS_S = 15.0


class EndedError(BaseException):
    """A signal ended the job; the text is the signal's name.

    It is no Exception, so that no handler takes it for a failure, and no KeyboardInterrupt, for
    which py4j writes a stack trace.
    """


class Signals:
    """A handler that turns the first signal that ends a job into EndedError, anywhere in it.

    From `is_ending` on, signals are ignored. Cleaning up takes seconds at most, and an interrupted
    clean-up would leave data of the run behind.
    """

    def __init__(self, terminate_java: Callable[[], None]) -> None:
        self._terminate_java = terminate_java
        # what is ignored (nohup, a shell's background job) stays so
        self._caught = [
            number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN
        ]
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self._arrived_s = -math.inf
        self.is_ending = False

    @property
    def have_arrived(self) -> bool:
        """Return whether a signal has arrived."""
        return self._arrived_s > -math.inf

    def catch(self) -> None:
        """Begin, or begin again: a Spark context takes SIGINT for itself when it starts."""
        for number in _SIGNALS:
            signal.signal(number, self._end if number in self._caught else signal.SIG_IGN)

    def restore(self) -> None:
        """Restore the former handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _end(self, number: int, _: FrameType | None) -> None:
        # A signal to the process and then to its group is one end. A later signal raises again,
        # because Python swallows an exception in a finalizer.
        is_same = time.monotonic() - self._arrived_s < _ONE_END_S
        if self.is_ending or is_same:
            return
        self._arrived_s = time.monotonic()
        self._terminate_java()
        raise EndedError(signal.Signals(number).name)


def _terminate_java() -> None:
    """End Java: a call that Java works on does not end before it."""
    java = _java()
    if java is not None:
        java.terminate()


@contextmanager
def signals_caught(terminate_java: Callable[[], None] = _terminate_java) -> Iterator[Signals]:
    """End the job of this block by EndedError on a signal.

    Nothing is logged meanwhile. py4j writes a stack trace to the root logger for each call that the
    end of Java has cut off, besides the error that it raises.

    Args:
        terminate_java: Ends the call that the job waits for.
    """
    signals, before = Signals(terminate_java), logging.root.manager.disable
    signals.catch()
    logging.disable()
    try:
        yield signals
    finally:
        logging.disable(before)
        signals.restore()


def end_spark(before: Collection[int], *, by_signal: bool) -> None:
    """End Spark, and the Java process that this process started for it.

    The Java process of spark-submit ends after this one.

    Args:
        before: Children of this process before the start of Spark.
        by_signal: Do not ask Spark itself, which would respond only after its current work.
    """
    from py4j.protocol import Py4JError  # these are slow to import
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    if context is not None and not by_signal:
        with suppress(Py4JError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Java has ended already
            context.stop()
    java = _java()
    if java is not None:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        _end_java(java)
    elif SparkContext._gateway is None:
        _kill(children() - set(before))


def hushed(session: "SparkSession") -> "SparkSession":
    """Return the session, made silent if Java ends first; PySpark would write a stack trace."""
    server: Any = session.sparkContext._accumulatorServer
    server.handle_error = lambda request, address: None
    return session


def _java() -> subprocess.Popen[bytes] | None:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return None if gateway is None else getattr(gateway, "proc", None)


def _end_java(java: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        if java.stdin is not None:
            java.stdin.close()  # it removes its temporary folders, and ends
    try:
        java.wait(_JAVA_ENDS_S)
    except subprocess.TimeoutExpired:
        java.kill()
        java.wait()


def children(pid: int | None = None) -> set[int]:
    """Return the processes that this one, or `pid`, has started, with their descendants."""
    pids = set[int]()
    for listed in Path(f"/proc/{pid or os.getpid()}/task").glob("*/children"):
        with suppress(OSError):  # a thread that has just ended
            pids.update(map(int, listed.read_text().split()))
    return pids.union(*map(children, pids))


def _kill(pids: Collection[int]) -> None:
    """Kill the processes of a Spark that was still starting."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
