"""The helper process: does what it is told over a socket, one thing after the other.

Started by `helper_process` as `python -m headgate.offload.helper_main FD`. What comes and goes
are pickles: the socket is a pair that nobody else holds.
"""

import pickle
import signal
import socket
import sys
from typing import BinaryIO, cast

from headgate.offload.orphans import end_with_parent


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
