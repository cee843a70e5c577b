"""Tables in Markdown of the gateway beside its peers. Pure."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median

from cases.peers import Found, PeerCase
from peers.stand import PEERS, SUPPRESSING
from report import MIB, Report, counted, cpu, p99, ratios_of, spread, table


def overview(cases: Iterable[PeerCase], found: Found) -> str:
    """Processor time of every target, a row a case; the cheapest is in bold."""
    names = [name for name in PEERS if any(name in runs for runs in found.values())]
    rows = []
    for case in cases:
        runs = found.get(case.name, {})
        costs = {name: median(map(cpu, some)) for name, some in runs.items()}
        cells = [
            "-" if name not in costs else marked(f"{costs[name]:.1f}", costs[name], costs.values())
            for name in names
        ]
        foreign = [run["foreign_cores"] for some in runs.values() for run in some]
        rows.append([case.title, *cells, spread(foreign)])
    return table(("us/event", *(PEERS[name] for name in names), "foreign cores"), rows)


def marked(text: str, value: float, all_values: Iterable[float]) -> str:
    return f"**{text}**" if value <= min(all_values) else text


def details(cases: Iterable[PeerCase], found: Found) -> str:
    """One row a case and target, with how it stands to the gateway that suppresses."""
    header = (
        "case", "target", "us/event", "of Headgate's (on)", "events/s", "p50 ms", "p99 ms",
        "RSS MiB", "broker us", "redis us",
    )  # fmt: skip
    rows = []
    for case in cases:
        runs = found.get(case.name, {})
        rows += [detail(case, name, runs) for name in PEERS if name in runs]
    return table(header, rows)


def detail(case: PeerCase, name: str, runs: dict[str, list[Report]]) -> list[str]:
    mine = runs[name]

    def least(figure: Callable[[Report], float], digits: int) -> str:
        """Median and range; in bold where no other target's median is smaller."""
        medians = [median(map(figure, some)) for some in runs.values()]
        values = [figure(run) for run in mine]
        return marked(spread(values, digits), median(values), medians)

    return [
        case.title,
        PEERS[name],
        least(cpu, 1),
        compared(name, runs),
        f"{median(run['events_per_s'] for run in mine):,.0f}",
        least(lambda run: float(run["latency_ms"]["p50"]), 1),
        least(p99, 1),
        f"{max(map(memory, mine)) / MIB:.0f}",
        f"{median(cpu(run, 'kafka') for run in mine):.1f}",
        f"{median(cpu(run, 'redis') for run in mine):.1f}",
    ]


def compared(name: str, runs: dict[str, list[Report]]) -> str:
    """Rounds against the same rounds of Headgate: `better` or `worse` where all of them agree."""
    if name == SUPPRESSING or SUPPRESSING not in runs:
        return "-"
    values = ratios_of(runs[name], runs[SUPPRESSING], cpu)
    verdict = " better" if max(values) < 1 else " worse" if min(values) > 1 else ""
    return spread(values) + verdict


def memory(report: Report) -> int:
    """The most that all processes of the target had together."""
    return max((sum(one["rss"]["target"].values()) for one in report["samples"]), default=0)


def ends(found: Found) -> str:
    """How all events of each target ended, and what the log said about it."""
    rows = []
    for name, title in PEERS.items():
        runs = [run for case in found.values() for run in case.get(name, [])]
        if runs:
            logs = sorted({run["log"].split(":")[0] for run in runs})
            rows.append((title, counted(runs), ", ".join(logs)))
    return table(("target", "ends of all events (warm-up included)", "log"), rows)


def text(cases: Sequence[PeerCase], found: Found) -> str:
    return f"{overview(cases, found)}\n{details(cases, found)}\n{ends(found)}"
