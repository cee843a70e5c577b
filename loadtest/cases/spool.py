"""What a spooled event costs beside a published one, and what its way back costs.

Two brokers: one takes events, the other is away (its topics are known). The log of the first also
has a topic of each name, which nobody writes to: nothing that is spooled may be in it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import psutil

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from plan import Plan
from targets import PARTITIONS, TOPIC_SETTINGS, new_broker, new_redis, start_gateway
from wire import Encoding

# isort: split
from support.clients.http_client import exchange
from support.process.stack import RunningBroker

PLAIN, SPOOLED = "spool-plain", "spool-away"
GOALS: dict[Encoding, float] = {"single": 3.0, "ndjson": 1.5}  # times a published event's cost
CONFIG = """
[http]
workers = 1
[clusters.main]
bootstrap_servers = ["{kafka}"]
[clusters.away]
bootstrap_servers = ["{away}"]
[redis]
url = "{redis}"
[spool]
path = "{folder}"
max_bytes = 17179869184
drain_events_per_s = 1000000
[topics."spool-plain"]
cluster = "main"
key = ["/id"]
[topics."spool-away"]
cluster = "away"
key = ["/id"]
spool = true
"""
_KNOWN_S = 60.0


class Case(NamedTuple):
    """One row."""

    encoding: Encoding
    topic: str

    @property
    def title(self) -> str:
        kind = "single, 64 connections" if self.encoding == "single" else "NDJSON of 50, 16 conn."
        return f"{kind}, {'spooled' if self.topic == SPOOLED else 'published'}"


CASES = tuple(Case(encoding, topic) for encoding in GOALS for topic in (PLAIN, SPOOLED))
Found = dict[Case, list[dict[str, Any]]]


class Stand(NamedTuple):
    """What runs. worker: of the gateway."""

    bootstrap: str
    url: str
    port: int
    pid: int
    away: RunningBroker
    watch: tuple[str, ...]


@contextmanager
def spool_stand(directory: Path, arguments: tuple[str, ...]) -> Iterator[Stand]:
    """Two brokers and a gateway; the second broker ends once the gateway knows its topic."""
    with ExitStack() as ending:
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        away = new_broker(directory / "away", ending)
        for topic in (PLAIN, SPOOLED):
            broker.create_topic(topic, PARTITIONS, TOPIC_SETTINGS)
        away.create_topic(SPOOLED, PARTITIONS, TOPIC_SETTINGS)
        folder = directory / "spool"
        text = CONFIG.format(
            kafka=broker.bootstrap, away=away.bootstrap, redis=redis.url, folder=folder
        )
        served = start_gateway(directory, text, arguments, ending)
        _until(lambda: exchange(
            served.port, "POST", f"/v1/topics/{SPOOLED}/events",
            {"Content-Type": "application/json"}, b'{"id": 1}').status == 201)  # fmt: skip
        away.kill()
        _until(lambda: exchange(
            served.port, "POST", f"/v1/topics/{SPOOLED}/events",
            {"Content-Type": "application/json"}, b'{"id": 1}').status == 202)  # fmt: skip
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, served.url, served.management_port, served.pid, away, watch)


def plan(case: Case, stand: Stand, seconds: float, first: int) -> Plan:
    return Plan(
        url=f"{stand.url}/v1/topics/{case.topic}/events",
        encoding=case.encoding,
        connections=64 if case.encoding == "single" else 16,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=case.topic,
    )


def measure(stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All cases in turn, round after round; then the way back (`drained`)."""
    numbers = count(1)
    found: Found = {case: [] for case in CASES}
    for number in range(1, rounds + 1):
        for case in CASES:
            report = run(plan(case, stand, seconds, next(numbers) * COUNTERS_A_RUN))
            found[case].append(report)
            cost = report["cpu_us_per_event"]["target"]
            say(f"{number}/{rounds} {case.title}: {cost} us")
    return found


def drained(stand: Stand) -> dict[str, float]:
    """Let the second broker come back, until nothing is spooled: events, seconds, us an event."""
    waiting = _spooled(stand)
    stand.away.restart()
    began, cpu = time.monotonic(), _cpu_s(stand.pid)
    while _spooled(stand):
        time.sleep(0.2)
    seconds = time.monotonic() - began
    cost = (_cpu_s(stand.pid) - cpu) / waiting * 1e6
    return {"events": waiting, "seconds": round(seconds, 1), "us_per_event": round(cost, 1)}


def rows(found: Found) -> Iterator[list[str]]:
    """One row a case: its cost, and that over the published one's in the same round."""
    for case, reports in found.items():
        base = found[Case(case.encoding, PLAIN)]
        costs = [float(one["cpu_us_per_event"]["target"]) for one in reports]
        ratios = [
            cost / float(one["cpu_us_per_event"]["target"])
            for cost, one in zip(costs, base, strict=True)
        ]
        goal, is_base = GOALS[case.encoding], case.topic == PLAIN
        verdict = "met" if median(ratios) <= goal else "MISSED"
        yield [
            case.title,
            f"{median(costs):.1f}",
            "-" if is_base else f"{median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})",
            "-" if is_base else f"<= {goal} {verdict}",
            f"{median(one['events_per_s'] for one in reports):,.0f}",
            f"{median(one['latency_ms']['p50'] for one in reports):.1f}",
            f"{median(one['latency_ms']['p99'] for one in reports):.1f}",
            ", ".join(sorted({one["log"].split(":")[0] for one in reports})),
        ]


def _spooled(stand: Stand) -> int:
    return int(exchange(stand.port, "GET", "/v1/spool").document["events"])


def _cpu_s(pid: int) -> float:
    parent = psutil.Process(pid)
    times = [one.cpu_times() for one in (parent, *parent.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _KNOWN_S
    while not is_so():
        assert time.monotonic() < end, "the gateway does not get there"
        time.sleep(0.1)
