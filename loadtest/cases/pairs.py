"""Interleaved pairs: yardstick, gateway, yardstick, gateway ..., and the ratio of each pair."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, NamedTuple

from cases.run_driver import run
from plan import Plan
from targets import Stand, Target
from wire import Encoding
from workload import Mode

COUNTERS_A_RUN = 100_000_000  # published events of different runs never have the same content


class Case(NamedTuple):
    """Goals are ratios, the gateway's over the yardstick's: of processor time (`cpu_goal`) and of
    the latency's percentiles."""

    name: str
    title: str
    encoding: Encoding
    connections: int
    mode: Mode
    cpu_goal: float | None
    p99_goal: float | None = None
    p50_goal: float | None = None
    stretch: float = 1.0  # of the measured seconds: rare slow answers need a longer look


CASES = (
    Case("single-published", "single, 64 connections, published", "single", 64, "published", 0.90),
    Case("single-unchanged", "single, 64 connections, unchanged", "single", 64, "unchanged", 0.65),
    Case("ndjson-published", "NDJSON of 50, 16 conn., published", "ndjson", 16, "published", 0.30),
    Case("array-published", "array of 50, 16 conn., published", "array", 16, "published", 0.35),
    Case("ndjson-unchanged", "NDJSON of 50, 16 conn., unchanged", "ndjson", 16, "unchanged", 0.15),
    Case(
        "single-512", "single, 512 connections, published", "single", 512, "published",
        None, 0.25, stretch=3.0,
    ),
    Case(
        "single-1", "single, 1 connection, published", "single", 1, "published", None, p50_goal=1.5
    ),
)  # fmt: skip


class Pair(NamedTuple):
    """One run of each, one after the other: reports of the driver."""

    yardstick: dict[str, Any]
    gateway: dict[str, Any]


def plans(case: Case, stand: Stand, seconds: float, first: int) -> Iterator[tuple[Target, Plan]]:
    """What is run for one pair."""
    for target in (stand.yardstick, stand.gateway):
        yield (
            target,
            Plan(
                url=target.single_url if case.encoding == "single" else target.batch_url,
                mode=case.mode,
                encoding=case.encoding,
                connections=case.connections,
                seconds=seconds * case.stretch,
                first=first,
                watch=(f"target={target.pid}", *stand.watch),
                bootstrap=stand.bootstrap,
                topic=target.topic,
            ),
        )


def measure(
    cases: Iterable[Case], stand: Stand, pairs: int, seconds: float, say: Callable[[str], None]
) -> dict[str, list[Pair]]:
    """Runs every case `pairs` times; by the name of the case."""
    numbers = count(1)
    found: dict[str, list[Pair]] = {}
    for case in cases:
        found[case.name] = []
        for number in range(1, pairs + 1):
            first = next(numbers) * COUNTERS_A_RUN
            runs = [run(plan) for _, plan in plans(case, stand, seconds, first)]
            found[case.name].append(Pair(*runs))
            costs = [one["cpu_us_per_event"].get("target") for one in runs]
            say(f"{case.name} {number}/{pairs}: yardstick {costs[0]} us, gateway {costs[1]} us")
    return found
