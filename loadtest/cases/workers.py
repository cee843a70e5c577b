"""What an event costs with more workers: a gateway for each number of them, on one broker."""

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

WORKERS = (1, 2, 4)
GOAL = 1.1  # of the cost with any number of workers over that with one


class Case(NamedTuple):
    title: str
    encoding: Encoding
    connections: int
    suppress: str


CASES = (
    Case("single, 64 connections, suppression on", "single", 64, "raw"),
    Case("single, 512 connections, suppression on", "single", 512, "raw"),
    Case("NDJSON of 50, 16 connections, suppression on", "ndjson", 16, "raw"),
    Case("NDJSON of 50, 16 connections, suppression off", "ndjson", 16, "off"),
)
Found = dict[Case, dict[int, list[dict[str, Any]]]]


class Stand(NamedTuple):
    """targets: by the number of workers and the topic's `suppress`.  watch: what costs beside."""

    bootstrap: str
    watch: tuple[str, ...]
    targets: dict[tuple[int, str], Target]


@contextmanager
def workers_stand(directory: Path) -> Iterator[Stand]:
    """One broker, one Redis, and a gateway with two topics of its own for each number."""
    with ExitStack() as ending:
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        targets: dict[tuple[int, str], Target] = {}
        for number in WORKERS:
            names = {suppress: f"workers-{number}-{suppress}" for suppress in ("raw", "off")}
            text = CONFIG.format(kafka=broker.bootstrap, redis=redis.url)
            for suppress, name in names.items():
                broker.create_topic(name, PARTITIONS, TOPIC_SETTINGS)
                text += TOPIC.format(name=name, suppress=suppress)
            folder = directory / f"{number}"
            served = start_gateway(folder, text, ("--workers", str(number)), ending)
            until_suppressing(served.port, names["raw"])
            for suppress, name in names.items():
                targets[number, suppress] = gateway_target(served, name)
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, watch, targets)


def measure(stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All numbers of workers in turn, round after round."""
    numbers = count(1)
    found: Found = {case: {number: [] for number in WORKERS} for case in CASES}
    for case in CASES:
        for number in range(1, rounds + 1):
            first = next(numbers) * COUNTERS_A_RUN
            for workers in WORKERS:
                target = stand.targets[workers, case.suppress]
                plan = Plan(
                    url=target.single_url,
                    encoding=case.encoding,
                    connections=case.connections,
                    seconds=seconds,
                    first=first,
                    watch=(f"target={target.pid}", *stand.watch),
                    bootstrap=stand.bootstrap,
                    topic=target.topic,
                )
                found[case][workers].append(run(plan))
            said = ", ".join(f"{workers}: {costs(one)[-1]}" for workers, one in found[case].items())
            say(f"{number}/{rounds} {case.title}: us by workers {said}")
    return found


def costs(reports: list[dict[str, Any]]) -> list[float]:
    return [one["cpu_us_per_event"]["target"] for one in reports]


def rows(found: Found) -> Iterator[list[str]]:
    """One row a case: cost and events a second by workers, and the dearest over one worker."""
    for case, reports in found.items():
        with_one = costs(reports[WORKERS[0]])
        ratios = [
            median(cost / one for cost, one in zip(costs(reports[workers]), with_one, strict=True))
            for workers in WORKERS
        ]
        yield [
            case.title,
            " / ".join(str(workers) for workers in WORKERS),
            " / ".join(f"{median(costs(reports[workers])):.1f}" for workers in WORKERS),
            " / ".join(
                f"{median(one['events_per_s'] for one in reports[workers]):,.0f}"
                for workers in WORKERS
            ),
            f"{max(ratios):.2f}",
            f"<= {GOAL} {'met' if max(ratios) <= GOAL else 'MISSED'}",
            ", ".join(
                sorted({one["log"].split(":")[0] for all_ in reports.values() for one in all_})
            ),
        ]
