"""The helper process: does what it is told over a socket, one thing after the other.

Started by `helper_process` as `python -m headgate.offload.helper_main FD`. What comes and goes
are pickles: the socket is a pair that nobody else holds.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
from typing import BinaryIO, cast

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


def main() -> None:
    """Until the other end is closed."""
    # A drain may be told to the whole group; this process is needed until its parent ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    end_with_parent()
    with (
        socket.socket(fileno=int(sys.argv[1])) as connection,
        cast(BinaryIO, connection.makefile("rwb")) as stream,
    ):
        while True:
            try:
                work = pickle.load(stream)
            except EOFError:
                return
            pickle.dump(_done(work), stream, pickle.HIGHEST_PROTOCOL)
            stream.flush()


def _done(work: object) -> tuple[object, Exception | None]:
    try:
        return work(), None  # type: ignore[operator]
    except Exception as error:
        return None, error


if __name__ == "__main__":
    main()
