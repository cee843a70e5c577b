"""Memory of one worker while two million events go through it as NDJSON."""

from typing import Any

from cases.run_driver import run
from plan import Plan
from targets import Stand

EVENTS = 2_000_000
LIMIT_BYTES = 100 * 2**20
PATIENCE_S = 900.0


def measure(stand: Stand, events: int = EVENTS, connections: int = 16) -> dict[str, Any]:
    """The driver's report, with `samples` of every watched process twice a second."""
    return run(
        Plan(
            url=stand.gateway.batch_url,
            encoding="ndjson",
            connections=connections,
            warm_up_s=0.0,
            seconds=PATIENCE_S,
            events=events,
            first=1,
            sample_s=0.5,
            watch=(f"target={stand.gateway.pid}", *stand.watch),
            bootstrap=stand.bootstrap,
            topic=stand.gateway.topic,
        )
    )


def largest_process(sample: dict[str, Any]) -> int:
    """Bytes of the target's biggest process: the worker, where a parent watches it."""
    return max(sample["rss"]["target"].values(), default=0)


def summary(report: dict[str, Any], steps: int = 4) -> list[tuple[int, int]]:
    """(events so far, bytes) at the beginning, after each quarter and at the end."""
    samples = report["samples"]
    total = samples[-1]["events"]
    rows = []
    for step in range(steps + 1):
        reached = next(one for one in samples if one["events"] >= total * step / steps)
        rows.append((reached["events"], largest_process(reached)))
    return rows
