"""What processes hold: memory, file descriptors, threads, and what is under way."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPException
from typing import NamedTuple

import psutil

from support.clients.http_client import ClosedError, exchange
from support.process.stack import Gateway

_IN_FLIGHT = re.compile(r"^headgate_in_flight_(?:events|bytes)(?:\{.*\})? (\S+)$", re.MULTILINE)


_TASKS = re.compile(r"^headgate_worker_tasks (\S+)$", re.MULTILINE)


class Level(NamedTuple):
    """Of the parent and all workers of a gateway together. rss: bytes.

    tasks: of the workers' event loops, 15 s old at most; None while it does not answer.
    """

    rss: int
    fds: int
    threads: int
    tasks: float | None


def level(gateway: Gateway) -> Level:
    """Read what its processes have now."""
    rss = fds = threads = 0
    for pid in gateway.pids:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            rss += process.memory_info().rss
            fds += process.num_fds()
            threads += process.num_threads()
    found = _TASKS.search(_metrics(gateway))
    return Level(rss, fds, threads, float(found[1]) if found else None)


def in_flight(gateway: Gateway) -> float:
    """Events and bytes that its gauges tell of, summed; infinity while it does not answer."""
    text = _metrics(gateway)
    return sum(map(float, _IN_FLIGHT.findall(text))) if text else float("inf")


def _metrics(gateway: Gateway) -> str:
    try:
        return exchange(gateway.management_port, "GET", "/metrics").body.decode()
    except (OSError, HTTPException, ClosedError):
        return ""


def total(levels: Iterable[Level]) -> Level:
    """Of several gateways: what is held in turns, as partitions are, moves between them."""
    all_of = list(levels)
    return Level(
        sum(one.rss for one in all_of),
        sum(one.fds for one in all_of),
        sum(one.threads for one in all_of),
        sum(one.tasks or 0.0 for one in all_of),
    )


def grown(was: Level, now: Level) -> list[str]:
    """What did not come back to its level. Free memory that an allocator keeps is no growth."""
    found = []
    if now.rss > was.rss * 1.3 + 100 * 2**20:
        found.append(f"{was.rss >> 20} -> {now.rss >> 20} MiB")
    if now.fds > was.fds + 40:
        found.append(f"{was.fds} -> {now.fds} file descriptors")
    if now.threads > was.threads + 20:
        found.append(f"{was.threads} -> {now.threads} threads")
    if (now.tasks or 0.0) > (was.tasks or 0.0) + 60:
        found.append(f"{was.tasks} -> {now.tasks} tasks")
    return found
