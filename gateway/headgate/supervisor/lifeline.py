"""The end of a worker when its parent ends.

Two mechanisms detect the parent's end: the kernel's parent-death signal (Linux), and standard
input, a pipe that only the parent holds open. Both make the worker drain at once, because the next
parent waits for the port. A worker that exceeds the drain's time limit is killed.
"""

import os
import signal
import threading
import time

from headgate.offload.helper_main import end_with_parent

HURRY = signal.SIGINT  # asks a worker to drain without `http.shutdown_delay_ms`
_MARGIN_S = 5.0  # added to a drain's time limit


def hold(drain_s: float) -> None:
    """Drain this worker when its parent ends; called once, from its main thread.

    Args:
        drain_s: Time limit of a drain, in seconds.
    """
    end_with_parent(HURRY)
    # A thread works even if the event loop is blocked. A daemon ends with the process.
    watching = threading.Thread(
        target=_watch, args=(drain_s + _MARGIN_S,), name="lifeline", daemon=True
    )
    watching.start()


def _watch(bound_s: float) -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), HURRY)
    time.sleep(bound_s)
    os._exit(1)
