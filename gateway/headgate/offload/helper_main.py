"""The helper process: runs pickled calls from a socket, one at a time.

`helper_process` starts it as `python -m headgate.offload.helper_main FD`. Calls and results are
pickles: only these two processes hold the socket pair.
"""

import pickle
import signal
import socket
import sys
from typing import BinaryIO, cast

from headgate.backends.system import end_with_parent


def main() -> None:
    """Run calls until the parent closes its end of the socket."""
    # A drain may signal the whole group; the parent needs this process until it ends.
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
