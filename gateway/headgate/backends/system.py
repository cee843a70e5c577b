"""Calls of the operating system that Python has not: memory, synced folders, orphaned processes."""

import os
import signal
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


@cache
def _trim_function() -> Callable[[int], int]:
    """Return glibc's malloc_trim(3), or a no-op if the C library has none."""
    import ctypes  # as below: few processes call these functions

    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return lambda pad: 0
    return trim


def give_back() -> None:
    """Return freed memory to the system, after megabytes were freed: glibc keeps it by thread.

    It takes a few milliseconds at most, without the interpreter's lock.
    """
    _trim_function()(0)


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder, because a power failure could lose new ones otherwise."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to signal this process when its parent ends. No-op except on Linux.

    The signal is tied to the thread that started this process: start children from the main thread.

    Args:
        number: Signal that the kernel sends.
    """
    if sys.platform != "linux":
        return
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # the parent ended before the call
        os.kill(os.getpid(), number)
