"""Ten 800 kB events a second beside small ones: does the event loop still turn?"""

from typing import Any, NamedTuple

from cases.run_driver import finish, run, start
from plan import Plan
from targets import Stand, scrape_stall_seconds

LARGE_PER_SECOND = 10.0
SMALL_CONNECTIONS = 8
STALL_GOAL_S = 0.050


class LargeResult(NamedTuple):
    """Reports of the small events alone, beside the large ones, and of the large ones.

    `stall_*`: the gateway's own longest stall in seconds; None where it does not tell.
    """

    alone: dict[str, Any]
    beside: dict[str, Any]
    large: dict[str, Any]
    stall_alone: float | None
    stall_beside: float | None


def small(stand: Stand, seconds: float, first: int) -> Plan:
    return Plan(
        url=stand.gateway.single_url,
        connections=SMALL_CONNECTIONS,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.gateway.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=stand.gateway.topic,
    )


def large(stand: Stand, seconds: float) -> Plan:
    """Longer than the small ones on both sides, so that all of their window is beside it."""
    return Plan(
        url=stand.large.single_url,
        keys="bomb",
        connections=4,
        rate=LARGE_PER_SECOND,
        warm_up_s=0.0,
        seconds=seconds + 4.0,
        watch=(f"target={stand.gateway.pid}",),
        bootstrap=stand.bootstrap,
        topic=stand.large.topic,
    )


def measure(stand: Stand, seconds: float) -> LargeResult:
    stall(stand)  # the first scrape ends the time of starting up
    alone = run(small(stand, seconds, 1))
    stall_alone = stall(stand)
    beside_plan, large_plan = small(stand, seconds, 500_000_000), large(stand, seconds)
    large_process = start(large_plan)
    beside = run(beside_plan)
    large_report = finish(large_process, large_plan)
    return LargeResult(alone, beside, large_report, stall_alone, stall(stand))


def stall(stand: Stand) -> float | None:
    return scrape_stall_seconds(stand.metrics_port) if stand.metrics_port else None
