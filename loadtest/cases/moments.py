"""What the parent and its worker have in memory: idle, with many connections, with full lanes."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cases.run_driver import finish, run, start
from plan import Plan
from procfs import Memory, family, forget_peak, memory_of, peak_bytes
from targets import LOOPBACK, Stand

CONNECTIONS = 512
SETTLE_S = 5.0  # the parent's polls and the lanes' last turns; what is freed by then stays free
FREEZE_AFTER_S = 3.0
THAW_S = 60.0  # what is left of the log's settling once the broker goes on
GOAL_BYTES = 120 * 2**20  # of parent and worker together when idle; of the worker under load
LOADED = "512 connections, single events"


class Process(NamedTuple):
    """memory: when the moment was over.  peak: the most that was resident in it."""

    memory: Memory
    peak: int


class Moment(NamedTuple):
    """One row. ends: how the posted events ended."""

    title: str
    parent: Process
    worker: Process
    ends: dict[str, int]


class Watched(NamedTuple):
    """A gateway of one worker."""

    parent: int
    worker: int

    @classmethod
    def of(cls, parent: int) -> "Watched":
        workers = [pid for pid in family([parent]) if pid != parent]
        return cls(parent, max(workers, key=lambda pid: memory_of(pid).rss))

    def moment(self, title: str, work: Callable[[], dict[str, int]]) -> Moment:
        """Do it, let it settle, and look."""
        for pid in self:
            forget_peak(pid)
        ends = work()
        peaks = {pid: peak_bytes(pid) for pid in self}
        time.sleep(SETTLE_S)
        parent, worker = (Process(memory_of(pid), peaks[pid]) for pid in self)
        return Moment(title, parent, worker, ends)


def measure(stand: Stand, seconds: float, say: Callable[[str], None]) -> list[Moment]:
    """The moments in this order, in one life of the gateway: what one leaves, the next one has."""
    watched = Watched.of(stand.gateway.pid)
    found = []
    for title, work in works(stand, seconds):
        moment = watched.moment(title, work)
        found.append(moment)
        say(f"{title}: worker {moment.worker.memory.rss / 2**20:.1f} MiB")
    return found


def works(stand: Stand, seconds: float) -> Iterator[tuple[str, Callable[[], dict[str, int]]]]:
    many = plan(stand, seconds)
    batches = many.with_(encoding="ndjson", first=10**8)
    full = batches.with_(batch=500, first=2 * 10**8, seconds=seconds + FREEZE_AFTER_S)
    yield "idle, nothing was asked", dict
    yield "idle, /metrics was read", lambda: scrape(stand.metrics_port)
    yield "512 idle connections", lambda: connect(many.url, CONNECTIONS)
    yield LOADED, lambda: posted(many)
    yield "512 connections, NDJSON of 50", lambda: posted(batches)
    yield (
        "512 connections, single events, broker frozen",
        lambda: frozen(
            stand, many.with_(first=3 * 10**8, seconds=seconds + FREEZE_AFTER_S), seconds
        ),
    )
    yield (
        "512 connections, NDJSON of 50, broker frozen",
        lambda: frozen(
            stand, batches.with_(first=4 * 10**8, seconds=seconds + FREEZE_AFTER_S), seconds
        ),
    )
    yield "512 connections, NDJSON of 500, broker frozen", lambda: frozen(stand, full, seconds)
    yield "a minute later", lambda: idle(60.0)
    yield "5,000 idle connections", lambda: connect(many.url, 5_000)


def plan(stand: Stand, seconds: float) -> Plan:
    return Plan(
        url=stand.gateway.single_url,
        connections=CONNECTIONS,
        warm_up_s=0.0,
        seconds=seconds,
        first=1,
        timeout_s=30.0,
        watch=(f"target={stand.gateway.pid}",),
        bootstrap=stand.bootstrap,
        topic=stand.gateway.topic,
    )


def posted(plan: Plan) -> dict[str, int]:
    return ends_of(run(plan))


def frozen(stand: Stand, plan: Plan, seconds: float) -> dict[str, int]:
    """The broker stands still for so long, some seconds after the load began."""
    process = start(plan)
    time.sleep(FREEZE_AFTER_S)
    stand.broker.pause()
    try:
        time.sleep(seconds)
    finally:
        stand.broker.resume()
    return ends_of(finish(process, plan.with_(seconds=plan.seconds + THAW_S)))


def ends_of(report: dict[str, Any]) -> dict[str, int]:
    return dict(report["outcomes"])


def idle(seconds: float) -> dict[str, int]:
    time.sleep(seconds)
    return {}


def scrape(port: int) -> dict[str, int]:
    connection = HTTPConnection(LOOPBACK, port, timeout=10.0)
    connection.request("GET", "/metrics")
    connection.getresponse().read()
    connection.close()
    return {}


def connect(url: str, count: int) -> dict[str, int]:
    """Open so many connections, each with one request behind it, and close them."""
    asyncio.run(_connect(url, count))
    return {}


async def _connect(url: str, count: int) -> None:
    address = urlsplit(url)
    request = b"GET /ready HTTP/1.1\r\nHost: %b\r\n\r\n" % address.netloc.encode()
    with _closing() as writers:
        for _ in range(count):
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writers.append(writer)
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(SETTLE_S)


@contextmanager
def _closing() -> Iterator[list[asyncio.StreamWriter]]:
    writers: list[asyncio.StreamWriter] = []
    try:
        yield writers
    finally:
        for writer in writers:
            writer.close()
