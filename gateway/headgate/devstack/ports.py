"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import random
import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"


# Below the range that kernels take the ports of outgoing connections from: one that the kernel
# chooses may be taken again before a server listens on it, or be given to two servers.
_FIRST, _LAST = 15_000, 31_999


def free_port(taken: Collection[int] = ()) -> int:
    """Return a port that nothing listens on now and that is not in `taken`, chosen at random."""
    while True:
        port = random.randint(_FIRST, _LAST)
        if port not in taken and is_free(port):
            return port


def is_free(port: int) -> bool:
    """Tell whether a server could listen on `port`, as servers do: with SO_REUSEADDR."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def prefer(port: int, taken: Collection[int] = ()) -> int:
    """Return `port` if it is free and not in `taken`, else some other free port."""
    if port not in taken and is_free(port):
        return port
    return free_port(taken)


def accepts(port: int) -> bool:
    """Tell whether something accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
