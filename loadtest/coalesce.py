"""What coalescing costs, on Kafka, Redis and gateways of its own; prints Markdown.

python loadtest/coalesce.py             5 pairs of 5 s, then two minutes of 5,000 events a second
python loadtest/coalesce.py --quick     3 pairs of 2 s, then half a minute

First the answer `held` beside an ordinary publish, in pairs, on a gateway that does not coalesce
itself: both are one record, with acks from all replicas. Then one worker that coalesces, under a
steady load on 1,000 keys: its memory, its processor time, and how far it falls behind.
"""

import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import orjson

from cases.memory import largest_process
from cases.pairs import COUNTERS_A_RUN, Pair
from cases.run_driver import run
from plan import Plan
from report import cpu, p99, ratios, spread, table
from run import machine
from targets import HERE, TOPIC_SETTINGS, new_broker, new_redis, poll
from wire import Encoding

# isort: split
from headgate.devstack.ports import LOOPBACK
from support.gateway.coalescing_gateway import run_init
from support.process.stack import Gateway, RunningBroker

ORDINARY, HELD, STEADY = "bench-ordinary", "bench-held", "bench-steady"
RATE, BATCH = 100.0, 50  # requests a second, events in each: 5,000 events a second
START_S = 120.0  # on a machine that does much else
SETTLE_S = 15.0  # until every key has had its first window
CASES: tuple[tuple[str, Encoding, int], ...] = (
    ("single, 64 connections", "single", 64),
    ("NDJSON of 50, 16 connections", "ndjson", 16),
)
_HEAD = """
[clusters.main]
bootstrap_servers = ["BOOTSTRAP"]
[redis]
url = "REDIS"
quarantine_ms = 1000
[coalescer]
in_gateway = COALESCES
"""
_COALESCING = """
[topics."NAME"]
key = ["/id"]
kind = "state"
suppress = "raw"
coalesce_partitions = 6
coalesce_quiet_ms = 2000
coalesce_max_delay_ms = 10000
"""


def parse(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 pairs of 2 s, half a minute")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "loadtest")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def config(bootstrap: str, redis: str, topics: str, *, coalesces: bool) -> str:
    text = _HEAD.replace("BOOTSTRAP", bootstrap).replace("REDIS", redis)
    return text.replace("COALESCES", "true" if coalesces else "false") + topics


@contextmanager
def gateway(directory: Path, text: str) -> Iterator[Gateway]:
    """A gateway of one worker, its held topics created."""
    directory.mkdir()
    file = directory / "init.toml"
    file.write_text(text)
    done = run_init(file)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    with ExitStack() as ending:
        served = Gateway(directory, text, (), {})
        ending.callback(served.stop)
        served.wait(START_S)
        yield served


def measured_pairs(served: Gateway, number: int, seconds: float) -> dict[str, list[Pair]]:
    """Ordinary, held, ordinary, held ...: the reports, by case."""
    found: dict[str, list[Pair]] = {}
    first = 0
    for title, encoding, connections in CASES:
        found[title] = []
        for _ in range(number):
            first += COUNTERS_A_RUN
            one = Plan(
                url=f"{served.url}/v1/topics/{ORDINARY}/events",
                encoding=encoding,
                connections=connections,
                seconds=seconds,
                first=first,
                watch=(f"target={served.pid}",),
            )
            other = one.with_(url=f"{served.url}/v1/topics/{HELD}/events")
            found[title].append(Pair(run(one), run(other)))
            costs = [cpu(report) for report in found[title][-1]]
            say(f"{title}: ordinary {costs[0]:.1f} us, held {costs[1]:.1f} us")
    return found


def pairs_text(found: dict[str, list[Pair]]) -> str:
    rows = [
        [
            title,
            spread([cpu(one.yardstick) for one in some], 1),
            spread([cpu(one.gateway) for one in some], 1),
            spread(ratios(some, cpu)),
            spread(ratios(some, p99)),
            spread([one.gateway["foreign_cores"] for one in some]),
        ]
        for title, some in found.items()
    ]
    head = [
        "case",
        "published us/event",
        "held us/event",
        "CPU ratio",
        "p99 ratio",
        "foreign cores",
    ]
    return table(head, rows)


def held_of(served: Gateway) -> dict[str, Any] | None:
    """What the worker holds; None before the page knows that the topic coalesces."""
    connection = HTTPConnection(LOOPBACK, served.management_port, timeout=10.0)
    try:
        connection.request("GET", f"/v1/topics/{STEADY}")
        page: dict[str, Any] = orjson.loads(connection.getresponse().read())
    finally:
        connection.close()
    held: dict[str, Any] | None = page.get("held")
    return held


def owns_partitions(served: Gateway) -> bool:
    held = held_of(served)
    return held is not None and held["keys"] is not None


def steady(served: Gateway, seconds: float) -> dict[str, Any]:
    """The driver's report, and what is held when its load ends."""
    poll(lambda: owns_partitions(served), 30.0, "the worker owns no held partition")
    report = run(
        Plan(
            url=f"{served.url}/v1/topics/{STEADY}/events",
            encoding="ndjson",
            batch=BATCH,
            connections=16,
            rate=RATE,
            warm_up_s=SETTLE_S,
            seconds=seconds,
            sample_s=0.5,
            watch=(f"target={served.pid}",),
        )
    )
    return {**report, "held": held_of(served)}


def steady_text(report: dict[str, Any]) -> str:
    samples = [one for one in report["samples"] if one["seconds"] >= SETTLE_S]
    sizes = [largest_process(one) / 2**20 for one in samples]
    quarter = max(1, len(sizes) // 4)
    averages = [sum(sizes[at : at + quarter]) / quarter for at in range(0, 4 * quarter, quarter)]
    rows = [
        ["events/s", f"{report['events_per_s']:,}"],
        [
            "memory of the worker, MB: mean of each quarter",
            " / ".join(f"{x:.1f}" for x in averages),
        ],
        ["largest, MB", f"{max(sizes):.1f}"],
        ["us/event, coalescing included", f"{cpu(report):.1f}"],
        ["p50 / p99 ms", f"{report['latency_ms']['p50']} / {report['latency_ms']['p99']}"],
        ["held in the end", orjson.dumps(report["held"]).decode()],
        ["foreign cores", f"{report['foreign_cores']:.2f}"],
        ["ends", orjson.dumps(report["outcomes"]).decode()],
    ]
    return table(["5,000 events/s on 1,000 keys, one worker", ""], rows)


def create(broker: RunningBroker) -> None:
    for topic in (ORDINARY, HELD, STEADY):
        broker.create_topic(topic, 6, TOPIC_SETTINGS)


def main() -> int:
    options = parse(sys.argv[1:])
    head = machine()
    number, seconds, minutes = (3, 2.0, 30.0) if options.quick else (5, 5.0, 120.0)
    with tempfile.TemporaryDirectory(prefix="headgate-coalesce-") as name, ExitStack() as ending:
        directory = Path(name)
        say("starting Kafka and Redis")
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        create(broker)
        ordinary = f'[topics."{ORDINARY}"]\nkey = ["/id"]\n'
        topics = ordinary + _COALESCING.replace("NAME", HELD)
        text = config(broker.bootstrap, redis.url, topics, coalesces=False)
        with gateway(directory / "apart", text) as served:
            found = measured_pairs(served, number, seconds)
        topics = _COALESCING.replace("NAME", STEADY)
        text = config(broker.bootstrap, redis.url, topics, coalesces=True)
        with gateway(directory / "steady", text) as served:
            say(f"{RATE * BATCH:,.0f} events a second for {SETTLE_S + minutes:.0f} s")
            report = steady(served, minutes)
    shown = f"{head}\n\n{pairs_text(found)}\n{steady_text(report)}"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "coalesce.md").write_text(shown)
    raw = {"pairs": {title: [one._asdict() for one in some] for title, some in found.items()}}
    target = options.out / "coalesce.json"
    target.write_bytes(orjson.dumps({**raw, "steady": report}, option=orjson.OPT_NON_STR_KEYS))
    sys.stdout.write(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
