"""What names cost: an Idempotency-Key a request, or an id an event; the same events without."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from cases.pairs import COUNTERS_A_RUN
from cases.run_driver import run
from plan import Plan
from targets import PARTITIONS, TOPIC_SETTINGS, new_broker, new_redis, start_gateway
from wire import Encoding, Identity

GOAL = 1.5  # of the plain case's cost
PLAIN, DEDUPED = "identity-plain", "identity-deduped"
# Names are forgotten after a minute: Redis need not keep millions of them for the next round.
CONFIG = """
[http]
workers = 1
[clusters.main]
bootstrap_servers = ["{kafka}"]
[redis]
url = "{redis}"
idempotency_ttl_ms = 60000
[topics."identity-plain"]
key = ["/id"]
[topics."identity-deduped"]
key = ["/id"]
dedupe_ttl_s = 60
"""


class Case(NamedTuple):
    """One row. The first of each encoding is the plain one, which the others are compared with."""

    name: str
    encoding: Encoding
    identity: Identity = "none"

    @property
    def title(self) -> str:
        kinds = {"ndjson": "NDJSON of 50, 16 conn.", "envelope": "envelope of 50, 16 conn."}
        names = {"none": "plain", "key": "Idempotency-Key", "id": "event ids, `dedupe_ttl_s`"}
        return f"{kinds.get(self.encoding, 'single, 64 connections')}, {names[self.identity]}"

    @property
    def topic(self) -> str:
        return DEDUPED if self.identity == "id" else PLAIN


CASES = (
    Case("single", "single"),
    Case("single-key", "single", "key"),
    Case("single-id", "single", "id"),
    Case("ndjson", "ndjson"),
    Case("ndjson-key", "ndjson", "key"),
    Case("envelope", "envelope"),
    Case("envelope-id", "envelope", "id"),
)
Found = dict[Case, list[dict[str, Any]]]


class Stand(NamedTuple):
    """What runs. `watch` is what costs beside the gateway."""

    bootstrap: str
    url: str
    pid: int
    watch: tuple[str, ...]


@contextmanager
def identity_stand(directory: Path, arguments: tuple[str, ...]) -> Iterator[Stand]:
    """A broker, Redis and a gateway with a topic for each kind."""
    with ExitStack() as ending:
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        for name in (PLAIN, DEDUPED):
            broker.create_topic(name, PARTITIONS, TOPIC_SETTINGS)
        text = CONFIG.format(kafka=broker.bootstrap, redis=redis.url)
        served = start_gateway(directory, text, arguments, ending)
        watch = (f"redis={redis.pid}", f"kafka={broker.pid}")
        yield Stand(broker.bootstrap, served.url, served.pid, watch)


def plan(case: Case, stand: Stand, seconds: float, first: int) -> Plan:
    return Plan(
        url=f"{stand.url}/v1/topics/{case.topic}/events",
        encoding=case.encoding,
        identity=case.identity,
        connections=64 if case.encoding == "single" else 16,
        seconds=seconds,
        first=first,
        watch=(f"target={stand.pid}", *stand.watch),
        bootstrap=stand.bootstrap,
        topic=case.topic,
    )


def measure(
    cases: list[Case], stand: Stand, rounds: int, seconds: float, say: Callable[[str], None]
) -> Found:
    """All cases in turn, round after round: neighbours in time share the machine's mood."""
    numbers = count(1)
    found: Found = {case: [] for case in cases}
    for number in range(1, rounds + 1):
        for case in cases:
            report = run(plan(case, stand, seconds, next(numbers) * COUNTERS_A_RUN))
            found[case].append(report)
            say(f"{number}/{rounds} {case.title}: {report['cpu_us_per_event']['target']} us")
    return found


def rows(found: Found) -> Iterator[list[str]]:
    """One row a case: medians, and the median and range of each round's ratio to the plain case."""
    for case, reports in found.items():
        plain = next(reports for other, reports in found.items() if other.encoding == case.encoding)
        costs = [one["cpu_us_per_event"] for one in reports]
        ratios = [
            mine["target"] / other["cpu_us_per_event"]["target"]
            for mine, other in zip(costs, plain, strict=True)
        ]
        is_plain = plain is reports
        verdict = f"<= {GOAL} {'met' if median(ratios) <= GOAL else 'MISSED'}"
        spread = f"{median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
        yield [
            case.title,
            f"{median(one['target'] for one in costs):.1f}",
            "-" if is_plain else spread,
            "-" if is_plain else verdict,
            f"{median(one['redis'] for one in costs):.1f}",
            f"{median(one['events_per_s'] for one in reports):,.0f}",
            *(
                f"{median(one['latency_ms'][name] for one in reports):.1f}"
                for name in ("p50", "p99")
            ),
            f"{median(one['foreign_cores'] for one in reports):.2f}",
            ", ".join(sorted({one["log"].split(":")[0] for one in reports})),
        ]
