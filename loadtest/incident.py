"""Incident A with every setting, on Kafka, Redis and a gateway of its own; prints Markdown.

python loadtest/incident.py             1,013 saves of 800 kB a run: about a quarter of an hour
python loadtest/incident.py --quick     203 saves of 160 kB a run, about three minutes
"""

import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from targets import HERE, new_broker, new_redis  # first: it puts the modules of tests on the path

# isort: split
from incident_a.plan import FULL, QUICK, Case, Result, Scale, Setting, broken, settings_of, table
from incident_a.run import prepare, run
from support.process.stack import Gateway, RunningBroker

RATES = (20.0, None)


def parse(arguments: list[str]) -> Namespace:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="203 saves of 160 kB")
    parser.add_argument("--only", default="", help="settings with this in their name")
    parser.add_argument("--out", type=Path, default=HERE.parent / "build" / "loadtest")
    return parser.parse_args(arguments)


def say(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")


@contextmanager
def stand(directory: Path, settings: list[Setting]) -> Iterator[tuple[RunningBroker, Gateway]]:
    """A broker, a Redis and a gateway with all settings; ends them."""
    with ExitStack() as ending:
        broker = new_broker(directory, ending)
        redis = new_redis(directory, ending)
        text = prepare(broker, redis.url, settings, directory)
        gateway = Gateway(directory / "gateway", text, (), {})
        ending.callback(gateway.stop)
        gateway.wait()
        yield broker, gateway


def run_all(scale: Scale, only: str, directory: Path) -> list[Result]:
    """Every setting, at each pace, with and without a net change."""
    settings = [one for one in settings_of(scale, "deals") if only in one.name]
    results = list[Result]()
    say("starting Kafka, Redis and the gateway")
    with stand(directory, settings) as (broker, gateway):
        for setting in settings:
            for rate in RATES:
                for changes in (True, False):
                    case = Case(setting, rate, changes)
                    results.append(run(case, scale, broker, [gateway], say))
                    say(told(results[-1]))
    return results


def told(result: Result) -> str:
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(result.outcomes.items()))
    return (
        f"{result.case.title}: {result.saves:,} saves in {result.seconds:.1f} s, {counts}, "
        f"{result.gaps} of them late; "
        f"in the topic: {result.records:,} records, {result.bytes / 1e6:,.1f} MB"
    )


def main() -> int:
    options = parse(sys.argv[1:])
    scale = QUICK if options.quick else FULL
    with tempfile.TemporaryDirectory(prefix="headgate-incident-") as directory:
        results = run_all(scale, options.only, Path(directory))
    text = table(results, RATES)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "incident-a.md").write_text(text)
    head = f"One client, {scale.saves:,} saves of a deal of {scale.document_bytes // 1000} kB.\n\n"
    sys.stdout.write(head + text)
    faults = [f"{one.case.title}: {fault}" for one in results for fault in broken(one)]
    for fault in faults:
        say(f"BROKEN: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
