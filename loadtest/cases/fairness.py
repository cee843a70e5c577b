"""Does one producer that floods slow the others down, or cost them events?

Eight producers post at a steady rate: alone; beside one that floods the same gateway; and beside
the same flood at another gateway on the same broker, topic and machine. The last says how much of
it is the machine and the broker: what no gateway can undo.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import DriverFailed, finish, run, start
from offsets import end_offsets, growth, verdict
from plan import Plan
from targets import PARTITIONS, TOPIC_SETTINGS, new_broker, start_gateway
from wire import GOOD, Encoding, uncertain

GOAL = 1.2  # of the others' p99 alone
REST_RATE = 1000.0  # requests a second of the eight together: about a tenth of what one core takes
REST = 8
TOPIC = "fairness"
CONFIG = """
[http]
workers = 1
[clusters.main]
bootstrap_servers = ["{kafka}"]
[topics."fairness"]
key = ["/id"]
"""
Report = dict[str, Any]


class Flood(NamedTuple):
    """rate: requests a second, 0: as many as are answered."""

    title: str
    encoding: Encoding
    connections: int
    rate: float = 0.0


FLOODS = (
    Flood("10 x the rate, 64 connections", "single", 64, 10 * REST_RATE),
    Flood("as fast as it is answered, 256 connections", "single", 256),
    Flood("as fast as it is answered, NDJSON of 50, 16 connections", "ndjson", 16),
)


class Stand(NamedTuple):
    """gateway: whose events are measured.  other: where the control floods."""

    bootstrap: str
    gateway: str
    other: str
    pid: int


class Round(NamedTuple):
    """The others' reports, and the flood's beside them."""

    alone: Report
    elsewhere: Report
    beside: Report
    flood: Report
    log: str


Found = dict[Flood, list[Round]]


@contextmanager
def fairness_stand(directory: Path, arguments: tuple[str, ...]) -> Iterator[Stand]:
    """One broker and two gateways."""
    with ExitStack() as ending:
        broker = new_broker(directory, ending)
        broker.create_topic(TOPIC, PARTITIONS, TOPIC_SETTINGS)
        text = CONFIG.format(kafka=broker.bootstrap)
        served, other = (
            start_gateway(directory / name, text, arguments, ending) for name in ("one", "other")
        )
        yield Stand(broker.bootstrap, served.url, other.url, served.pid)


def rest_plan(stand: Stand, seconds: float, first: int) -> Plan:
    return Plan(
        url=f"{stand.gateway}/v1/topics/{TOPIC}/events",
        connections=64,
        rate=REST_RATE,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.pid}",),
        producer="rest-{number}",
        producers=REST,
    )


def flood_plan(url: str, flood: Flood, seconds: float, first: int) -> Plan:
    """Longer than the others on both sides, so that all of their window is beside it."""
    return Plan(
        url=f"{url}/v1/topics/{TOPIC}/events",
        encoding=flood.encoding,
        connections=flood.connections,
        rate=flood.rate,
        warm_up_s=0.5,
        seconds=seconds + 2.5,
        first=first,
        producer="flood",
    )


def beside(stand: Stand, url: str, flood: Flood, seconds: float, first: int) -> list[Report]:
    """The others' report while a gateway is flooded, and the flood's."""
    plan = flood_plan(url, flood, seconds, first + COUNTERS_A_RUN // 2)
    process = start(plan)
    rest = run(rest_plan(stand, seconds, first))
    return [rest, finish(process, plan)]


def measure(
    floods: list[Flood], stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]
) -> Found:
    """Round after round; the three of a round follow each other."""
    numbers = count(1)
    found: Found = {flood: [] for flood in floods}

    def first() -> int:
        return next(numbers) * COUNTERS_A_RUN

    for number in range(1, rounds + 1):
        for flood in floods:
            before = end_offsets(stand.bootstrap, [TOPIC])
            alone = run(rest_plan(stand, seconds, first()))
            elsewhere, away = beside(stand, stand.other, flood, seconds, first())
            beside_it, here = beside(stand, stand.gateway, flood, seconds, first())
            written = growth(before, end_offsets(stand.bootstrap, [TOPIC]))
            log = checked(written, [alone, elsewhere, away, beside_it, here])
            one = Round(alone, elsewhere, beside_it, here, log)
            found[flood].append(one)
            p99s = " / ".join(f"{quantile(report, 'p99'):.1f}" for report in one[:3])
            say(f"{number}/{rounds} {flood.title}: p99 alone / elsewhere / beside {p99s} ms")
    return found


def checked(written: int, reports: list[Report]) -> str:
    """What the log says of all answers. Raises DriverFailed where they contradict it.

    written: records that the log has more than before.
    """
    published = sum(one["outcomes"].get("published", 0) for one in reports)
    log = verdict(written, published, sum(uncertain(one["outcomes"]) for one in reports))
    if log.startswith(("LOST", "EXTRA")):
        raise DriverFailed(log)
    return log


def quantile(report: Report, name: str) -> float:
    return float(report["latency_ms"][name])


def rejects(report: Report) -> int:
    """Events that did not end well."""
    return sum(number for end, number in report["outcomes"].items() if end not in GOOD)


def rows(found: Found) -> Iterator[list[str]]:
    """One row a flood: medians, and the medians and ranges of each round's ratios."""
    for flood, rounds in found.items():
        if not rounds:
            continue
        to_alone = [quantile(one.beside, "p99") / quantile(one.alone, "p99") for one in rounds]
        to_other = [quantile(one.beside, "p99") / quantile(one.elsewhere, "p99") for one in rounds]
        yield [
            flood.title,
            *(
                " / ".join(
                    f"{median(quantile(report, name) for report in reports):.1f}"
                    for reports in list(zip(*rounds, strict=True))[:3]
                )
                for name in ("p50", "p99")
            ),
            *(
                f"{median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
                for ratios in (to_alone, to_other)
            ),
            f"<= {GOAL} {'met' if median(to_alone) <= GOAL else 'MISSED'}",
            f"{sum(rejects(one.beside) for one in rounds)}",
            f"{median(one.flood['events_per_s'] for one in rounds):,.0f}",
            f"{sum(rejects(one.flood) for one in rounds):,}",
            f"{median(one.beside['foreign_cores'] for one in rounds):.2f}",
            ", ".join(sorted({one.log.split(":")[0] for one in rounds})),
        ]
