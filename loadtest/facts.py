"""What telling facts costs, on Kafka, Redis and a gateway of its own; prints Markdown.

python loadtest/facts.py             7 pairs of 5 s a case
python loadtest/facts.py --quick     3 pairs of 2 s

One gateway with two topics that differ in `facts` alone; a pair is a run on each, one after the
other. Unchanged events are told, one fact each; published ones only have to be looked at.
"""

import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import orjson

from cases.pairs import COUNTERS_A_RUN, Pair
from cases.run_driver import run
from coalesce import gateway
from plan import Plan
from report import cpu, p99, ratios, spread, table
from run import machine
from targets import HERE, TOPIC_SETTINGS, new_broker, new_redis, until_suppressing
from wire import Encoding
from workload import Mode

# isort: split
from headgate.devstack.ports import LOOPBACK
from support.process.stack import Gateway

PLAIN, TELLING = "bench-plain", "bench-telling"
CASES: tuple[tuple[str, Encoding, int, Mode], ...] = (
    ("NDJSON of 50, 16 connections, unchanged", "ndjson", 16, "unchanged"),
    ("single, 64 connections, unchanged", "single", 64, "unchanged"),
    ("NDJSON of 50, 16 connections, published", "ndjson", 16, "published"),
)
_CONFIG = """
[clusters.main]
bootstrap_servers = ["BOOTSTRAP"]
[redis]
url = "REDIS"
quarantine_ms = 1000
[topics."bench-plain"]
key = ["/id"]
kind = "state"
suppress = "raw"
[topics."bench-telling"]
key = ["/id"]
kind = "state"
suppress = "raw"
facts = true
"""


def parse(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 pairs of 2 s")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "loadtest")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def measured(
    served: Gateway, beside: tuple[str, ...], number: int, seconds: float
) -> dict[str, list[Pair]]:
    """Silent, telling, silent, telling ...: the reports, by case. beside: whom else to watch."""
    found: dict[str, list[Pair]] = {}
    first = 0
    for title, encoding, connections, mode in CASES:
        found[title] = []
        for _ in range(number):
            first += COUNTERS_A_RUN
            silent = Plan(
                url=f"{served.url}/v1/topics/{PLAIN}/events",
                encoding=encoding,
                connections=connections,
                mode=mode,
                seconds=seconds,
                first=first,
                watch=(f"target={served.pid}", *beside),
            )
            audit_events = silent.with_(url=f"{served.url}/v1/topics/{TELLING}/events")
            found[title].append(Pair(run(silent), run(audit_events)))
            costs = [cpu(report) for report in found[title][-1]]
            say(f"{title}: without {costs[0]:.1f} us, with {costs[1]:.1f} us")
    return found


def pairs_text(found: dict[str, list[Pair]]) -> str:
    rows = [
        [
            title,
            spread([cpu(one.yardstick) for one in some]),
            spread([cpu(one.gateway) for one in some]),
            spread([cpu(one.gateway) - cpu(one.yardstick) for one in some]),
            spread([cpu(one.gateway, "kafka") - cpu(one.yardstick, "kafka") for one in some]),
            spread(ratios(some, p99)),
            spread([one.gateway["foreign_cores"] for one in some]),
        ]
        for title, some in found.items()
    ]
    head = [
        "case",
        "without us/event",
        "with",
        "difference us",
        "of the broker",
        "p99 ratio",
        "foreign cores",
    ]
    return table(head, rows)


def counted(served: Gateway) -> str:
    """What became of the facts, as /metrics has it."""
    connection = HTTPConnection(LOOPBACK, served.management_port, timeout=10.0)
    try:
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    finally:
        connection.close()
    names = ("headgate_facts_total", "headgate_acknowledged_records_total")
    return "\n".join(line for line in lines if line.startswith(names))


def main() -> int:
    options = parse(sys.argv[1:])
    head = machine()
    number, seconds = (3, 2.0) if options.quick else (7, 5.0)
    with tempfile.TemporaryDirectory(prefix="headgate-facts-") as name, ExitStack() as ending:
        directory = Path(name)
        say("starting Kafka and Redis")
        broker, redis = new_broker(directory, ending), new_redis(directory, ending)
        for topic in (PLAIN, TELLING):
            broker.create_topic(topic, 6, TOPIC_SETTINGS)
        text = _CONFIG.replace("BOOTSTRAP", broker.bootstrap).replace("REDIS", redis.url)
        with gateway(directory / "gateway", text) as served:
            for topic in (PLAIN, TELLING):
                until_suppressing(served.port, topic)
            beside = (f"kafka={broker.pid}",)
            found = measured(served, beside, number, seconds)
            time.sleep(2.0)  # until the last second's facts are written
            ends = counted(served)
    shown = f"{head}\n\n{pairs_text(found)}\n```\n{ends}\n```\n"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "facts.md").write_text(shown)
    raw = {title: [one._asdict() for one in some] for title, some in found.items()}
    (options.out / "facts.json").write_bytes(orjson.dumps(raw, option=orjson.OPT_NON_STR_KEYS))
    sys.stdout.write(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
