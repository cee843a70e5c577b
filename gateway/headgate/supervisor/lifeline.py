"""A worker must not outlive its parent, however the parent ends.

Two ropes: the kernel's parent-death signal (Linux), and standard input, a pipe that only the
parent holds open. Both ask the worker to drain at once, as the next parent waits for the port; if
it has not ended when the time for that is over, it is ended hard.
"""

import os
import signal
import threading
import time

from headgate.offload.helper_main import end_with_parent

HURRY = signal.SIGINT  # asks a worker to drain without `http.shutdown_delay_ms`
_MARGIN_S = 5.0  # on top of a drain's own bound


def hold(drain_s: float) -> None:
    """Called once by a worker's entry, from its main thread. drain_s: a drain's bound."""
    end_with_parent(HURRY)
    # A thread, because it must work when the event loop does not. A daemon: it ends with us.
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
