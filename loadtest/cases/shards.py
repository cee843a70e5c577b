"""What an event costs with several Redis servers: a gateway for each number, on one broker."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cases.growth import CONFIG, TOPIC
from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from plan import Plan
from targets import (
    PARTITIONS,
    TOPIC_SETTINGS,
    Target,
    gateway_target,
    new_broker,
    new_redis,
    start_gateway,
    until_suppressing,
)
from wire import Encoding

SERVERS = (1, 2, 3)


class Case(NamedTuple):
    title: str
    encoding: Encoding
    connections: int


CASES = (
    Case("single, 64 connections", "single", 64),
    Case("NDJSON of 50, 16 connections", "ndjson", 16),
)
Found = dict[Case, dict[int, list[dict[str, Any]]]]


class Stand(NamedTuple):
    """targets, watch: by the number of servers; what is watched are processes by their names."""

    bootstrap: str
    watch: dict[int, tuple[str, ...]]
    targets: dict[int, Target]


@contextmanager
def shards_stand(directory: Path, workers: str) -> Iterator[Stand]:
    """One broker; for each number a gateway with so many Redis servers of its own."""
    with ExitStack() as ending:
        broker = new_broker(directory, ending)
        targets: dict[int, Target] = {}
        watch: dict[int, tuple[str, ...]] = {}
        for number in SERVERS:
            name, folder = f"shards-{number}", directory / f"{number}"
            redis = [new_redis(folder / f"{place}", ending) for place in range(number)]
            urls = ", ".join(f'"{one.url}"' for one in redis)
            text = CONFIG.format(kafka=broker.bootstrap, redis="URL")
            text = text.replace(
                'url = "URL"', f"urls = [{urls}]" if number > 1 else f"url = {urls}"
            )
            broker.create_topic(name, PARTITIONS, TOPIC_SETTINGS)
            text += TOPIC.format(name=name, suppress="raw")
            served = start_gateway(folder, text, ("--workers", workers), ending)
            until_suppressing(served.port, name)
            targets[number] = gateway_target(served, name)
            watched = [f"redis-{place}={one.pid}" for place, one in enumerate(redis, start=1)]
            watch[number] = (*watched, f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, watch, targets)


def measure(stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All numbers of servers in turn, round after round."""
    numbers = count(1)
    found: Found = {case: {number: [] for number in SERVERS} for case in CASES}
    for case in CASES:
        for number in range(1, rounds + 1):
            first = next(numbers) * COUNTERS_A_RUN
            for servers in SERVERS:
                target = stand.targets[servers]
                plan = Plan(
                    url=target.single_url,
                    encoding=case.encoding,
                    connections=case.connections,
                    seconds=seconds,
                    first=first,
                    watch=(f"target={target.pid}", *stand.watch[servers]),
                    bootstrap=stand.bootstrap,
                    topic=target.topic,
                )
                found[case][servers].append(run(plan))
            said = ", ".join(f"{one}: {_cost(seen[-1])}" for one, seen in found[case].items())
            say(f"{number}/{rounds} {case.title}: gateway us by servers {said}")
    return found


def _cost(report: dict[str, Any], name: str = "target") -> float:
    return float(report["cpu_us_per_event"][name])


def rows(found: Found) -> Iterator[list[str]]:
    """One row for each case and number of servers."""
    for case, by_servers in found.items():
        for servers, reports in by_servers.items():
            redis = [
                f"{median(_cost(one, f'redis-{place}') for one in reports):.1f}"
                for place in range(1, servers + 1)
            ]
            yield [
                case.title,
                str(servers),
                f"{median(one['events_per_s'] for one in reports):,.0f}",
                f"{median(map(_cost, reports)):.1f}",
                " / ".join(redis),
                ", ".join(sorted({one["log"].split(":")[0] for one in reports})),
            ]
