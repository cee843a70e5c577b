"""The gateway and its peers in rounds: A B C D A B C D ..., every case."""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, NamedTuple

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from peers.stand import PeerStand
from plan import Plan
from targets import Target
from wire import Encoding
from workload import Mode

FEW, MANY = 20, 100_000


class PeerCase(NamedTuple):
    """None of these is a case of `pairs`: other documents, another key, other numbers of keys."""

    name: str
    title: str
    encoding: Encoding
    connections: int
    key_count: int
    mode: Mode = "published"


CASES = (
    PeerCase("single-1", "single, 1 connection", "single", 1, MANY),
    PeerCase("single-8", "single, 8 connections", "single", 8, MANY),
    PeerCase("single-64", "single, 64 connections", "single", 64, MANY),
    PeerCase("single-64-few", "single, 64 connections, 20 keys", "single", 64, FEW),
    PeerCase("single-512", "single, 512 connections", "single", 512, MANY),
    PeerCase("ndjson", "NDJSON of 50, 16 connections", "ndjson", 16, MANY),
    PeerCase(
        "single-unchanged", "single, 64 connections, unchanged, 20 keys", "single", 64, FEW,
        "unchanged",
    ),
    PeerCase(
        "ndjson-unchanged", "NDJSON of 50, 16 connections, unchanged", "ndjson", 16, MANY,
        "unchanged",
    ),
    # The last one: at times more than 64 events of a key are under way, and then the gateway
    # suppresses nothing of that key for minutes (docs/publish/suppression.md).
    PeerCase("array-few", "array of 50, 16 connections, 20 keys", "array", 16, FEW),
)  # fmt: skip
# By the name of the case and of the target: one report of the driver a round.
Found = dict[str, dict[str, list[dict[str, Any]]]]


def plan(
    case: PeerCase, target: Target, stand: PeerStand, seconds: float, first: int
) -> Plan | None:
    """None: the target has no such requests."""
    url = target.single_url if case.encoding == "single" else target.batch_url
    if not url:
        return None
    return Plan(
        url=url,
        mode=case.mode,
        encoding=case.encoding,
        connections=case.connections,
        seconds=seconds,
        first=first,
        sample_s=1.0,
        watch=(f"target={target.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=target.topic,
        document="order",
        key_count=case.key_count,
    )


def measure(
    cases: Iterable[PeerCase],
    stand: PeerStand,
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
    measured: Callable[[Plan], dict[str, Any]] = run,
) -> Found:
    numbers = count(1)
    found: Found = {}
    for case in cases:
        reports = found[case.name] = {}
        for number in range(1, rounds + 1):
            first = next(numbers) * COUNTERS_A_RUN
            for target in stand.targets:
                posted = plan(case, target, stand, seconds, first)
                if posted is not None:
                    reports.setdefault(target.name, []).append(measured(posted))
            say(f"{case.name} {number}/{rounds}: {costs(reports)}")
    return found


def costs(reports: dict[str, Sequence[dict[str, Any]]]) -> str:
    return ", ".join(
        f"{name} {runs[-1]['cpu_us_per_event'].get('target')}" for name, runs in reports.items()
    )
