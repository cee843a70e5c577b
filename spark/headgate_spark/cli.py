"""The command `headgate-spark`; also `python -m headgate_spark` and spark-submit's script."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from headgate.core.command_line import with_times_joined
from headgate_spark.errors import OK, USAGE, JobError, reason_of
from headgate_spark.mirror_command import add_mirror, add_verify
from headgate_spark.replay_command import add_replay

_EXAMPLES = """examples:
  headgate-spark audit --config headgate.toml --out audit/           all topics, all that is there
  headgate-spark audit --config F --topics 'orders,deals.*' --from 24h --out audit/
  headgate-spark audit --config F --topics deals --from 2026-01-31T12:00:00Z --to now \\
      --partitions 20,40 --out audit/
  spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0 \\
      deploy/spark/headgate_spark_job.py audit --config F --out /shared/audit

exit codes: 0 ok, 1 failed, 2 usage or configuration
"""


_PATTERNS = set("*?[]{}\\")  # Spark would read what they match, not what it wrote


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job; return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    chosen = _parser().parse_args(with_times_joined(given))
    try:
        exit_code: int = chosen.run(chosen, _say)
    except JobError as error:
        _say(str(error))
        return error.exit_code
    return exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headgate-spark",
        description="Headgate's Spark jobs.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    jobs = parser.add_subparsers(title="jobs", metavar="JOB", required=True)
    _add_audit(jobs.add_parser(
        "audit",
        help="why partitions are unequal, and what would help",
        description="Reads topics, and says why their partitions are unequal and what would help.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    add_mirror(jobs.add_parser(
        "mirror",
        help="copy topics into the backfill tier, once or for good",
        description="Copies topics into the backfill tier, records identical, with an exact map "
        "of the offsets.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    add_verify(jobs.add_parser(
        "verify",
        help="compare the backfill tier with the ingest tier, record by record",
        description="Compares the backfill tier with the ingest tier, record by record.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    add_replay(jobs.add_parser(
        "replay",
        help="carry out the replays that were asked for",
        description="Carries out replays of mode topic: the runner.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    return parser


def _add_audit(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=_audit)
    add = parser.add_argument
    add("--config", required=True, type=Path, metavar="F", help="the gateway's TOML file")
    add("--out", required=True, type=Path, metavar="DIR", help="where the results are written")
    add("--topics", metavar="P", help="names and globs with commas between; default: all")
    add(
        "--from",
        dest="start",
        metavar="T",
        help="2h (ago), ISO 8601 or ms since 1970; default: all",
    )
    add("--to", dest="end", metavar="T", help="the same; default: now")
    add("--offsets", metavar="JSON", help='instead: {"topic": {"0": [first, behind-the-last]}}')
    add("--cluster", metavar="NAME", help="default: the only one of tier ingest")
    add("--partitions", default="", metavar="N,N", help="more partition counts to predict")
    add("--no-publish", action="store_true", help="write files only, nothing to headgate.skew")
    add("--master", metavar="URL", help="Spark's master; default: local[*]")
    add("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")


def _audit(chosen: argparse.Namespace, say: Callable[[str], None]) -> int:
    from py4j.protocol import Py4JJavaError  # these are slow to import
    from pyspark.errors import PySparkException

    from headgate_spark.audit.job import AuditRequest, audit, now_ms
    from headgate_spark.options import read_config
    from headgate_spark.session import open_session, parse_settings
    from headgate_spark.times import parse_time

    _check(chosen)
    config, now = read_config(chosen.config, os.environ), now_ms()
    request = AuditRequest(
        cluster=chosen.cluster,
        topics=chosen.topics,
        from_ms=None if chosen.start is None else parse_time(chosen.start, now),
        to_ms=None if chosen.end is None else parse_time(chosen.end, now),
        offsets=chosen.offsets,
        counts=_counts(chosen.partitions),
        out=chosen.out.absolute(),
        publish=not chosen.no_publish,
    )
    settings = parse_settings(chosen.conf)
    spark = open_session("headgate audit", chosen.master, settings, say)
    try:
        result = audit(spark, config, request)
    except (PySparkException, Py4JJavaError) as error:
        raise JobError(
            f"Spark failed, and an earlier result is left: {reason_of(error)}"
        ) from error
    finally:
        spark.stop()
    for topic in result["topics"]:
        found = ", ".join(topic["diagnoses"]) or "nothing wrong"
        sys.stdout.write(f"{topic['topic']}: {found}\n")
    sys.stdout.write(f"{request.out / 'index.html'}\n")
    return OK


def _check(chosen: argparse.Namespace) -> None:
    if chosen.offsets is not None and any((chosen.topics, chosen.start, chosen.end)):
        raise JobError("--offsets says what to read: leave out --topics, --from and --to", USAGE)
    if signs := _PATTERNS & set(str(chosen.out.absolute())):
        text = f"--out {chosen.out}: Spark takes {' '.join(sorted(signs))} for a pattern"
        raise JobError(f"{text}: choose another name", USAGE)


def _counts(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise JobError(f"--partitions {text}: numbers with commas between", USAGE) from error
    if any(not 1 <= one <= 1000 for one in found):
        raise JobError(f"--partitions {text}: from 1 to 1000", USAGE)
    return found


def _say(line: str) -> None:
    sys.stderr.write(f"headgate-spark: {line}\n")
    sys.stderr.flush()
