"""Free TCP ports on the loopback interface."""

import random
import socket
from collections.abc import Collection

LOOPBACK = "127.0.0.1"
# Below the kernel's range for outgoing connections: a port that the kernel chooses may be in use
# again before a server listens on it, or go to two servers.
_FIRST, _LAST = 15_000, 31_999
_claimed: set[int] = set()


def free_port(taken: Collection[int] = ()) -> int:
    """Return a port that nothing listens on now and that is not in `taken`, chosen at random."""
    while True:
        port = random.randint(_FIRST, _LAST)
        if port not in taken and is_free(port):
            return port


def claim(port: int) -> socket.socket | None:
    """Claim a port among all processes that use this function, until the result is closed.

    Its server listens only some seconds later, and until then the port looks free to all others.

    Returns:
        The claim, or None if another process has it.
    """
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0headgate-port-{port}")  # abstract (unix(7)): gone with its process
    except OSError:
        mark.close()
        return None
    return mark


def is_free(port: int) -> bool:
    """Return whether a server could listen on `port`, as servers do: with SO_REUSEADDR."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def prefer(port: int, taken: Collection[int] = ()) -> int:
    """Return `port` if it is free, unclaimed and not in `taken`, else some other free port."""
    if port not in taken and is_free(port) and _has(port):
        return port
    return free_port(taken)


def _has(port: int) -> bool:
    """Claim a port for the life of this process; return whether it has it."""
    if port not in _claimed:
        mark = claim(port)
        if mark is None:
            return False
        mark.detach()  # it stays open
        _claimed.add(port)
    return True


def accepts(port: int) -> bool:
    """Return whether a server accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((LOOPBACK, port)) == 0
