"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a port that nothing listens on now, chosen by the kernel."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
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
    while (other := free_port()) in taken:
        pass
    return other


def accepts(port: int) -> bool:
    """Tell whether something accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
