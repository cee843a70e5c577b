"""Measures the gateway beside the yardstick and prints Markdown.

python loadtest/run.py pairs            the goals of single events and batches: 7 pairs a case
python loadtest/run.py pairs --quick    the same in about two minutes, good for a first look
python loadtest/run.py pairs --null     a second yardstick as the gateway: what noise looks like
python loadtest/run.py memory           of parent and worker: idle, 512 connections, full lanes;
                                        then 2 million events
python loadtest/run.py keys             a million different keys, memory before and after
python loadtest/run.py large            ten 800 kB events a second beside small ones
python loadtest/run.py peers            beside handlers in Rust and Python and kafka-pixy: 5 rounds
python loadtest/run.py peers --quick    3 rounds of 2 s, about ten minutes
python loadtest/run.py growth           10 to 1,000 topics, 6 to 1,000 partitions: 5 rounds
python loadtest/run.py workers          1, 2 and 4 workers: 5 rounds
python loadtest/run.py shards           1, 2 and 3 Redis servers: 5 rounds
python loadtest/run.py canonical        values compared instead of bytes, 1 kB in batches: 5 rounds
python loadtest/run.py spool            spooled events beside published ones, and their way back
python loadtest/run.py identity         Idempotency-Keys and event ids beside plain: 5 rounds
python loadtest/run.py fairness         8 producers alone and beside one that floods: 5 rounds
"""

import os
import platform
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson

from cases import (
    canonical,
    fairness,
    growth,
    identity,
    keys,
    large,
    memory,
    moments,
    pairs,
    shards,
    spool,
    workers,
)
from cases import peers as peer_cases
from headgate.ingest import path as event_path
from memory_report import keys_table, memory_table, moments_table
from peers import tables
from peers.stand import PEERS, peer_stand
from report import (
    canonical_table,
    ends_table,
    fairness_table,
    growth_table,
    identity_table,
    large_table,
    pairs_table,
    shards_table,
    spool_table,
    workers_table,
)
from targets import HERE, Stand, stand

QUICK_EVENTS = 200_000


def parse(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=RUNS)
    parser.add_argument(
        "--quick", action="store_true", help="3 pairs or rounds of 2 s; 200,000 events"
    )
    parser.add_argument("--null", action="store_true", help="a second yardstick as the gateway")
    parser.add_argument("--pairs", type=int, help="pairs (7) or rounds (5) of each case")
    parser.add_argument("--seconds", type=float, help="of each measured window (5; large: 15)")
    parser.add_argument("--case", action="append", help="only this case; repeatable")
    parser.add_argument("--peer", action="append", choices=PEERS, help="only these; repeatable")
    parser.add_argument("--config", type=Path, default=HERE / "bench.toml")
    parser.add_argument("--workers", help="passed on to headgate serve")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "loadtest")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


def machine() -> str:
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, "
        f"{'compiled' if event_path.__file__.endswith('.so') else 'not compiled'}, "
        f"{os.cpu_count()} cores, load average before {os.getloadavg()[0]:.2f}"
    )


@contextmanager
def one_gateway(options: Namespace, directory: Path) -> Iterator[Stand]:
    say("starting Kafka, Redis, the yardstick and the gateway")
    with stand(directory, options.config, passed_on(options), options.null) as running:
        yield running


def passed_on(options: Namespace) -> tuple[str, ...]:
    return ("--workers", options.workers) if options.workers else ()


def run_pairs(options: Namespace, directory: Path) -> tuple[str, object]:
    names = options.case or [case.name for case in pairs.CASES]
    cases = [case for case in pairs.CASES if case.name in names]
    if options.null:
        cases = [case._replace(cpu_goal=None, p50_goal=None, p99_goal=None) for case in cases]
    number = options.pairs or (3 if options.quick else 7)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    with one_gateway(options, directory) as running:
        found = pairs.measure(cases, running, number, seconds, say)
    text = f"{number} interleaved pairs, {seconds:g} s each (`single-512`: three times that).\n\n"
    text = "Both sides are yardsticks.\n" + text if options.null else text
    return text + pairs_table(cases, found) + "\n" + ends_table(cases, found), found


def run_memory(options: Namespace, directory: Path) -> tuple[str, object]:
    seconds = options.seconds or (4.0 if options.quick else 15.0)
    with one_gateway(options, directory / "moments") as running:
        seen = moments.measure(running, seconds, say)
    with one_gateway(options, directory / "events") as running:
        report = memory.measure(running, QUICK_EVENTS if options.quick else memory.EVENTS)
    return moments_table(seen) + "\n" + memory_table(report), {"moments": seen, "events": report}


def run_keys(options: Namespace, directory: Path) -> tuple[str, object]:
    with one_gateway(options, directory) as running:
        found = keys.measure(running, QUICK_EVENTS if options.quick else keys.EVENTS, say)
    return keys_table(found), found


def run_large(options: Namespace, directory: Path) -> tuple[str, object]:
    with one_gateway(options, directory) as running:
        result = large.measure(running, options.seconds or (4.0 if options.quick else 15.0))
    return large_table(result), result._asdict()


def run_peers(options: Namespace, directory: Path) -> tuple[str, object]:
    names = options.case or [case.name for case in peer_cases.CASES]
    cases = [case for case in peer_cases.CASES if case.name in names]
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    with peer_stand(directory, options.peer or PEERS, passed_on(options), say) as running:
        found = peer_cases.measure(cases, running, number, seconds, say)
    text = f"{number} rounds of all targets in turn, {seconds:g} s each.\n\n"
    return text + tables.text(cases, found), found


def run_growth(options: Namespace, directory: Path) -> tuple[str, object]:
    number = options.pairs or (1 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    say("starting Kafka, Redis and the gateway with 2,006 topics")
    with growth.growth_stand(directory, passed_on(options)) as running:
        found = growth.measure(running, number, seconds, say)
    text = f"{number} rounds of all cases in turn, {seconds:g} s each.\n\n"
    raw = {f"{case.title}: {case.size}": reports for case, reports in found.items()}
    return text + growth_table(found), raw


def run_workers(options: Namespace, directory: Path) -> tuple[str, object]:
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    with workers.workers_stand(directory) as running:
        found = workers.measure(running, number, seconds, say)
    text = f"{number} rounds of all numbers of workers in turn, {seconds:g} s each.\n\n"
    return text + workers_table(found), {case.title: reports for case, reports in found.items()}


def run_shards(options: Namespace, directory: Path) -> tuple[str, object]:
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    with shards.shards_stand(directory, options.workers or "1") as running:
        found = shards.measure(running, number, seconds, say)
    text = f"{number} rounds of all numbers of servers in turn, {seconds:g} s each.\n\n"
    return text + shards_table(found), {case.title: reports for case, reports in found.items()}


def run_canonical(options: Namespace, directory: Path) -> tuple[str, object]:
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    say("starting Kafka, Redis and the gateway")
    with canonical.canonical_stand(directory, passed_on(options)) as running:
        found = canonical.measure(running, number, seconds, say)
    text = (
        f"{number} rounds of all cases in turn, {seconds:g} s each. Documents of 1 kB, NDJSON of "
    )
    text += "50, 16 connections.\n\n"
    raw = {f"{case.mode}, {case.title}": reports for case, reports in found.items()}
    return text + canonical_table(found), raw


def run_identity(options: Namespace, directory: Path) -> tuple[str, object]:
    names = options.case or [case.name for case in identity.CASES]
    cases = [case for case in identity.CASES if case.name in names]
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    say("starting Kafka, Redis and the gateway")
    with identity.identity_stand(directory, passed_on(options)) as running:
        found = identity.measure(cases, running, number, seconds, say)
    text = f"{number} rounds of all cases in turn, {seconds:g} s each.\n\n"
    return text + identity_table(found), {case.name: reports for case, reports in found.items()}


def run_spool(options: Namespace, directory: Path) -> tuple[str, object]:
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (2.0 if options.quick else 5.0)
    say("starting two brokers, Redis and the gateway")
    with spool.spool_stand(directory, passed_on(options)) as running:
        found = spool.measure(running, number, seconds, say)
        back = spool.drained(running)
    text = f"{number} rounds of all cases in turn, {seconds:g} s each.\n\n{spool_table(found)}\n"
    text += "Back to Kafka: {events:,.0f} events in {seconds} s, {us_per_event} us each.\n".format(
        **back
    )
    raw = {case.title: reports for case, reports in found.items()}
    return text, {**raw, "drained": back}


def run_fairness(options: Namespace, directory: Path) -> tuple[str, object]:
    names = options.case or [flood.title for flood in fairness.FLOODS]
    floods = [flood for flood in fairness.FLOODS if flood.title in names]
    number = options.pairs or (3 if options.quick else 5)
    seconds = options.seconds or (3.0 if options.quick else 5.0)
    say("starting Kafka and two gateways")
    with fairness.fairness_stand(directory, passed_on(options)) as running:
        found = fairness.measure(floods, running, number, seconds, say)
    text = f"{number} rounds, {seconds:g} s each way.\n\n"
    return text + fairness_table(found), {flood.title: rounds for flood, rounds in found.items()}


def as_json(raw: object) -> bytes:
    # orjson knows no named tuples; their names are worth keeping in the file.
    return orjson.dumps(raw, default=lambda one: one._asdict(), option=orjson.OPT_NON_STR_KEYS)


RUNS = {
    "pairs": run_pairs,
    "memory": run_memory,
    "keys": run_keys,
    "large": run_large,
    "peers": run_peers,
    "growth": run_growth,
    "workers": run_workers,
    "shards": run_shards,
    "canonical": run_canonical,
    "identity": run_identity,
    "spool": run_spool,
    "fairness": run_fairness,
}


def main() -> int:
    options = parse(sys.argv[1:])
    head = machine()
    with tempfile.TemporaryDirectory(prefix="headgate-loadtest-") as directory:
        text, raw = RUNS[options.what](options, Path(directory))
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / options.what
    target.with_suffix(".json").write_bytes(as_json(raw))
    target.with_suffix(".md").write_text(f"{head}\n\n{text}")
    sys.stdout.write(f"{head}\n\n{text}")
    say(f"written to {target}.md and .json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
