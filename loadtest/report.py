"""Tables in Markdown from the driver's reports. Pure."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from cases import canonical, fairness, growth, identity, shards, spool, workers
from cases.large import STALL_GOAL_S, LargeResult
from cases.pairs import Case, Pair

MIB = 2**20
Report = dict[str, Any]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`median (lowest..highest)`."""
    low, high = min(values), max(values)
    return f"{median(values):.{digits}f} ({low:.{digits}f}..{high:.{digits}f})"


def cpu(report: Report, name: str = "target") -> float:
    return float(report["cpu_us_per_event"].get(name, float("nan")))


def p99(report: Report) -> float:
    return float(report["latency_ms"]["p99"])


def ratios(pairs: Sequence[Pair], figure: Callable[[Report], float]) -> list[float]:
    """Of each pair: neighbours in time share the machine's mood, medians of sides do not."""
    return ratios_of([pair.gateway for pair in pairs], [pair.yardstick for pair in pairs], figure)


def ratios_of(
    these: Sequence[Report], those: Sequence[Report], figure: Callable[[Report], float]
) -> list[float]:
    return [figure(a) / max(figure(b), 1e-9) for a, b in zip(these, those, strict=True)]


def judged(values: Sequence[float], goal: float | None) -> str:
    if goal is None:
        return "-"
    return f"<= {goal:.2f} {'met' if median(values) <= goal else 'MISSED'}"


def pairs_table(cases: Iterable[Case], found: dict[str, list[Pair]]) -> str:
    """One row a case: medians of the sides, and the median of the pairs' ratios."""
    header = (
        "case", "yardstick us/event", "gateway us/event", "CPU ratio", "goal",
        "p50 ratio", "goal", "p99 ratio", "goal", "events/s", "p50 / p99 ms", "timeouts",
        "redis us", "foreign cores",
    )  # fmt: skip
    rows = [pairs_row(case, found[case.name]) for case in cases if found.get(case.name)]
    return table(header, rows)


def pairs_row(case: Case, pairs: Sequence[Pair]) -> list[str]:
    def both(figure: Callable[[Report], float], digits: int = 0) -> str:
        yardstick = median(figure(pair.yardstick) for pair in pairs)
        gateway = median(figure(pair.gateway) for pair in pairs)
        return f"{yardstick:,.{digits}f} -> {gateway:,.{digits}f}"

    def p50(report: Report) -> float:
        return float(report["latency_ms"]["p50"])

    cpu_ratios, p50_ratios, p99_ratios = (ratios(pairs, figure) for figure in (cpu, p50, p99))
    runs = [run for pair in pairs for run in pair]
    return [
        case.title,
        f"{median(cpu(pair.yardstick) for pair in pairs):.1f}",
        f"{median(cpu(pair.gateway) for pair in pairs):.1f}",
        spread(cpu_ratios),
        judged(cpu_ratios, case.cpu_goal),
        spread(p50_ratios),
        judged(p50_ratios, case.p50_goal),
        spread(p99_ratios),
        judged(p99_ratios, case.p99_goal),
        both(lambda run: run["events_per_s"]),
        f"{both(p50, 1)} / {both(p99, 1)}",
        both(lambda run: run["timeouts"]),
        f"{median(cpu(pair.gateway, 'redis') for pair in pairs):.1f}",
        spread([run["foreign_cores"] for run in runs]),
    ]


def ends_table(cases: Iterable[Case], found: dict[str, list[Pair]]) -> str:
    """How the events ended, summed over the runs, and what the log said about it."""
    rows = []
    for case in cases:
        for side in ("yardstick", "gateway"):
            runs: list[Report] = [getattr(pair, side) for pair in found.get(case.name, [])]
            if runs:
                logs = sorted({run["log"].split(":")[0] for run in runs})
                rows.append([case.title, side, counted(runs), ", ".join(logs)])
    return table(("case", "target", "ends of all events (warm-up included)", "log"), rows)


def counted(runs: Iterable[Report]) -> str:
    totals: dict[str, int] = {}
    for run in runs:
        for end, number in run["outcomes"].items():
            totals[end] = totals.get(end, 0) + number
    return ", ".join(f"{end} {number:,}" for end, number in sorted(totals.items()))


def growth_table(found: growth.Found) -> str:
    """One row a series of sizes."""
    header = ("case", "sizes", "gateway us/event", "redis us", "last / first", "goal", "log")
    return table(header, growth.rows(found))


def workers_table(found: workers.Found) -> str:
    """One row a case."""
    header = ("case", "workers", "us/event", "events/s", "dearest / 1 worker", "goal", "log")
    return table(header, workers.rows(found))


def shards_table(found: shards.Found) -> str:
    """One row a case and number of Redis servers."""
    header = ("case", "servers", "events/s", "gateway us/event", "each redis us/event", "log")
    return table(header, shards.rows(found))


def canonical_table(found: canonical.Found) -> str:
    """One row a case."""
    header = (
        "events", "topic", "us/event", "of raw", "goal", "events/s", "foreign cores", "log",
    )  # fmt: skip
    return table(header, canonical.rows(found))


def identity_table(found: identity.Found) -> str:
    """One row a case, plain and with names."""
    header = (
        "case", "gateway us/event", "of plain", "goal", "redis us", "events/s", "p50 ms", "p99 ms",
        "foreign cores", "log",
    )  # fmt: skip
    return table(header, identity.rows(found))


def spool_table(found: spool.Found) -> str:
    """One row a case."""
    header = (
        "case",
        "gateway us/event",
        "of published",
        "goal",
        "events/s",
        "p50 ms",
        "p99 ms",
        "log",
    )
    return table(header, spool.rows(found))


def fairness_table(found: fairness.Found) -> str:
    """One row a flood."""
    header = (
        "flood", "p50 alone / flood elsewhere / beside", "p99, the same", "p99 of alone",
        "of elsewhere", "goal", "rejects", "flood events/s", "its rejects", "foreign cores", "log",
    )  # fmt: skip
    return table(header, fairness.rows(found))


def large_table(result: LargeResult) -> str:
    rows = [
        large_row("small events alone", result.alone, result.stall_alone),
        large_row("small events beside them", result.beside, result.stall_beside),
        large_row("the 800 kB events", result.large, result.stall_beside),
    ]
    header = ("events", "events/s", "p50 ms", "p99 ms", "max ms", "longest stall ms", "log")
    known = result.stall_beside
    verdict = "not exposed" if known is None else "met" if known <= STALL_GOAL_S else "MISSED"
    return table(header, rows) + f"\nStall goal {STALL_GOAL_S * 1000:.0f} ms: {verdict}.\n"


def large_row(title: str, report: Report, stall_s: float | None) -> list[str]:
    latency = report["latency_ms"]
    stall = "-" if stall_s is None else f"{stall_s * 1000:.1f}"
    figures = [f"{latency[name]:.1f}" for name in ("p50", "p99", "max")]
    return [title, f"{report['events_per_s']:,}", *figures, stall, report["log"]]
