"""Asks Redis PING again and again from a process of its own, and tells how long the worst took.

In a process of its own, so that nothing a test does meanwhile holds it up.
"""

from __future__ import annotations

import gc
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from redis import Redis

from headgate.devstack.ports import LOOPBACK

EVERY_S, WAIT_S = 0.005, 60.0
CONNECTED = "connected\n"


class Pings:
    """worst_ms: of all PINGs, when the block has ended.  worst_script_ms: by Redis' own clock."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self.worst_ms = self.worst_script_ms = float("nan")
        self.count = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Ask within the block."""
        with Redis.from_url(self._url) as redis:
            port = redis.connection_pool.connection_kwargs["port"]
            redis.config_set("slowlog-max-len", 1_000)
            redis.config_set("slowlog-log-slower-than", 2_000)
            redis.slowlog_reset()
        command = [sys.executable, str(Path(__file__)), str(port)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == CONNECTED
            yield
            try:
                told, _ = child.communicate(timeout=WAIT_S)  # closes its input: it ends
            except subprocess.TimeoutExpired as error:
                raise AssertionError(f"Redis answers no PING for {WAIT_S} s") from error
            count, worst_ms = told.split()
            self.count, self.worst_ms = int(count), float(worst_ms)
        finally:
            child.kill()
            child.communicate()
        with Redis.from_url(self._url, socket_timeout=WAIT_S) as redis:
            slow = [one["duration"] / 1000 for one in redis.slowlog_get(1_000)]
            self.worst_script_ms = max(slow, default=0.0)


def ask(port: int) -> None:
    """Until standard input ends."""
    gc.disable()
    worst_s, count = 0.0, 0
    with socket.create_connection((LOOPBACK, port), timeout=WAIT_S) as connection:
        sys.stdout.write(CONNECTED)
        sys.stdout.flush()
        while not select.select([sys.stdin], [], [], EVERY_S)[0]:
            began = time.monotonic()
            connection.sendall(b"PING\r\n")
            while connection.recv(64) != b"+PONG\r\n":  # busy: a script has run for too long
                time.sleep(EVERY_S)
                connection.sendall(b"PING\r\n")
            worst_s, count = max(worst_s, time.monotonic() - began), count + 1
    print(count, worst_s * 1000)  # noqa: T201 the parent reads it


if __name__ == "__main__":
    ask(int(sys.argv[1]))
