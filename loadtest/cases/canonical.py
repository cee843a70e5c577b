"""What an event costs where values are compared (`canonical`), beside one whose bytes are."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cases.growth import Stand
from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from plan import Document, Plan
from saves import IGNORED
from targets import (
    PARTITIONS,
    TOPIC_SETTINGS,
    new_broker,
    new_redis,
    start_gateway,
    until_suppressing,
)
from workload import MODES, Mode

GOAL = 1.5  # of the cost beside that of a topic that compares bytes
CONFIG = """
[http]
workers = 1
[clusters.main]
bootstrap_servers = ["{kafka}"]
[redis]
url = "{redis}"
quarantine_ms = 1000
"""
TOPIC = """
[topics."canonical-{name}"]
key = ["/id"]
kind = "state"
{options}
"""
TOPICS = {
    "raw": 'suppress = "raw"',
    "values": 'suppress = "canonical"',
    "ignoring": f'suppress = "canonical"\nignore = ["{IGNORED}"]',
}


class Case(NamedTuple):
    """What one topic gets."""

    title: str
    topic: str
    mode: Mode
    document: Document


SIDES: tuple[tuple[str, str, Document], ...] = (
    ("raw", "raw", "save"),
    ("canonical", "values", "save"),
    ("canonical with ignore", "ignoring", "save"),
    ("canonical with ignore, other order and blanks", "ignoring", "respelled"),
)
CASES = tuple(Case(*side[:2], mode, side[2]) for mode in MODES for side in SIDES)
Found = dict[Case, list[dict[str, Any]]]


@contextmanager
def canonical_stand(directory: Path, arguments: tuple[str, ...]) -> Iterator[Stand]:
    """A broker and a gateway with the three topics."""
    with ExitStack() as ending:
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        text = CONFIG.format(kafka=broker.bootstrap, redis=redis.url)
        for name, options in TOPICS.items():
            broker.create_topic(f"canonical-{name}", PARTITIONS, TOPIC_SETTINGS)
            text += TOPIC.format(name=name, options=options)
        served = start_gateway(directory, text, arguments, ending)
        for name in TOPICS:
            until_suppressing(served.port, f"canonical-{name}")
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, served.url, served.pid, watch)


def plan(case: Case, stand: Stand, seconds: float, first: int) -> Plan:
    topic = f"canonical-{case.topic}"
    return Plan(
        url=f"{stand.url}/v1/topics/{topic}/events",
        document=case.document,
        mode=case.mode,
        encoding="ndjson",
        connections=16,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=topic,
    )


def measure(stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All cases in turn, round after round."""
    numbers = count(1)
    found: Found = {case: [] for case in CASES}
    for number in range(1, rounds + 1):
        for case in CASES:
            report = run(plan(case, stand, seconds, next(numbers) * COUNTERS_A_RUN))
            found[case].append(report)
            cost = report["cpu_us_per_event"]["target"]
            say(f"{number}/{rounds} {case.mode}, {case.title}: {cost} us")
    return found


def rows(found: Found) -> Iterator[list[str]]:
    """One row a case: its cost, and that over the cost of the bytes compared in the same round."""
    for case, reports in found.items():
        bytes_compared = next(one for one in found if one.topic == "raw" and one.mode == case.mode)
        costs = [float(one["cpu_us_per_event"]["target"]) for one in reports]
        base = [float(one["cpu_us_per_event"]["target"]) for one in found[bytes_compared]]
        ratios = [cost / raw for cost, raw in zip(costs, base, strict=True)]
        verdict = "met" if median(ratios) <= GOAL else "MISSED"
        is_base = case is bytes_compared
        yield [
            case.mode,
            case.title,
            f"{median(costs):.1f} ({min(costs):.1f}..{max(costs):.1f})",
            "-" if is_base else f"{median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})",
            "-" if is_base else f"<= {GOAL} {verdict}",
            f"{median(one['events_per_s'] for one in reports):,.0f}",
            f"{median(one['foreign_cores'] for one in reports):.2f}",
            ", ".join(sorted({one["log"].split(":")[0] for one in reports})),
        ]
