"""Ends a process with its parent, so that nothing is left when the parent is killed."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this signal to us when our parent ends. Linux; elsewhere nothing.

    The signal is tied to the thread that started us: start children from the main thread.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number))
    if os.getppid() != parent:  # it ended while we asked
        os.kill(os.getpid(), number)
