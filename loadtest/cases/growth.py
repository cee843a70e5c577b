"""What an event costs as topics and partitions become more; one gateway has them all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from plan import Plan
from targets import TOPIC_SETTINGS, new_broker, new_redis, start_gateway, until_suppressing
from wire import NUMBER_PLACE, Encoding

# isort: split
from support.kafka.kafka_log import create_topics

GOAL = 1.5  # of the last row's cost over the first one's
# A partition's first record makes the broker write into fresh index files, mapped into memory, of
# 10 MB by default. On some file systems that takes 60 ms each: 4,000 partitions keep it busy for
# minutes, and it is not the gateway that is measured.
SETTINGS = {**TOPIC_SETTINGS, "segment.index.bytes": "4096"}
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
[topics."{name}"]
key = ["/id"]
kind = "state"
suppress = "{suppress}"
"""


class Case(NamedTuple):
    """One row: requests go to `topics` topics of `partitions` partitions in turn."""

    series: str
    suppress: str
    encoding: Encoding
    topics: int
    partitions: int

    @property
    def title(self) -> str:
        kind = "single, 64 connections" if self.encoding == "single" else "NDJSON of 50, 16 conn."
        return f"{kind}, suppression {'off' if self.suppress == 'off' else 'on'}, {self.series}"

    @property
    def size(self) -> int:
        return max(self.topics, self.partitions)

    @property
    def topic(self) -> str:
        """Its name, with the place of a number where there are many."""
        kind = f"{NUMBER_PLACE}" if self.series == "topics" else f"wide-{self.partitions}"
        return f"growth-{self.suppress}-{kind}"


SIZES = {"topics": ((10, 1), (100, 1), (1000, 1)), "partitions": ((1, 6), (1, 100), (1, 1000))}
CASES = tuple(
    Case(series, suppress, encoding, topics, partitions)
    for encoding in ("ndjson", "single")
    for suppress in ("raw", "off")
    for series, sizes in SIZES.items()
    for topics, partitions in sizes
)
Found = dict[Case, list[dict[str, Any]]]


class Stand(NamedTuple):
    """What runs. `watch` is what costs beside the gateway."""

    bootstrap: str
    url: str
    pid: int
    watch: tuple[str, ...]


@contextmanager
def growth_stand(directory: Path, arguments: tuple[str, ...]) -> Iterator[Stand]:
    """A broker and a gateway with the topics of all cases."""
    found = {
        case.topic.replace(NUMBER_PLACE, str(number)): case
        for case in CASES
        for number in range(case.topics)
    }
    with ExitStack() as ending:
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        sizes = {name: case.partitions for name, case in found.items()}
        create_topics(broker.bootstrap, sizes, SETTINGS)
        text = CONFIG.format(kafka=broker.bootstrap, redis=redis.url)
        text += "".join(
            TOPIC.format(name=name, suppress=case.suppress) for name, case in found.items()
        )
        served = start_gateway(directory, text, arguments, ending)
        for name, case in found.items():
            if case.suppress != "off":
                until_suppressing(served.port, name)
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, served.url, served.pid, watch)


def plan(case: Case, stand: Stand, seconds: float, first: int) -> Plan:
    return Plan(
        url=f"{stand.url}/v1/topics/{case.topic}/events",
        encoding=case.encoding,
        connections=64 if case.encoding == "single" else 16,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=case.topic,
        topics=case.topics,
    )


def measure(stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]) -> Found:
    """All cases in turn, round after round: neighbours in time share the machine's mood.

    The first records of all partitions are not measured (see `SETTINGS`).
    """
    numbers = count(1)
    for case in CASES:
        if case.encoding == "ndjson":
            say(f"first records: {case.title}: {case.size}")
            run(plan(case, stand, case.size / 200, next(numbers) * COUNTERS_A_RUN))
    found: Found = {case: [] for case in CASES}
    for number in range(1, rounds + 1):
        for case in CASES:
            report = run(plan(case, stand, seconds, next(numbers) * COUNTERS_A_RUN))
            found[case].append(report)
            cost = report["cpu_us_per_event"]["target"]
            say(f"{number}/{rounds} {case.title}: {case.size}: {cost} us")
    return found


def rows(found: Found) -> Iterator[list[str]]:
    """One row a series: the cost of each size (gateway, Redis), and the last over the first."""
    titles = dict.fromkeys(case.title for case in found)
    for title in titles:
        cases = [case for case in found if case.title == title]
        costs = [[one["cpu_us_per_event"]["target"] for one in found[case]] for case in cases]
        redis = [[one["cpu_us_per_event"]["redis"] for one in found[case]] for case in cases]
        ratio = median(last / first for first, last in zip(costs[0], costs[-1], strict=True))
        yield [
            title,
            " / ".join(str(case.size) for case in cases),
            " / ".join(f"{median(one):.1f}" for one in costs),
            " / ".join(f"{median(one):.1f}" for one in redis),
            f"{ratio:.2f}",
            f"<= {GOAL} {'met' if ratio <= GOAL else 'MISSED'}",
            ", ".join(sorted({one["log"].split(":")[0] for case in cases for one in found[case]})),
        ]
