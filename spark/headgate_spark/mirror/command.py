"""The command lines of the jobs `mirror` and `verify`."""

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.commands.command_line import add_config
from headgate.commands.output import add_quiet
from headgate_spark.job.command_line import USAGE, JobError, local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headgate.commands.terminal import ProgressLine
    from headgate_spark.job.options import JobConfig


_FAILURES = 8  # how often a task may die before the job gives up
_INTERVAL_S, _MIN_INTERVAL_S = 60.0, 5.0
_MIRROR = """examples:
  headgate-spark mirror --config headgate.toml                  all records so far, then exit
  headgate-spark mirror --config F --topics 'orders,deals.*' --bytes-per-s 20000000
  headgate-spark mirror --config F --follow --metrics /var/lib/node/mirror.prom
  spark-submit --conf spark.task.maxFailures=8 deploy/spark/headgate_spark_job.py \\
      mirror --config F --follow

You can stop it at any time: the next run continues at the end of the offset
map in the backfill tier.
exit codes: 0 everything is mirrored (or it was stopped while following), 1 failed, 2 usage or
configuration, or a topic was skipped because it would not be a true mirror
"""


_VERIFY = """examples:
  headgate-spark verify --config headgate.toml
  headgate-spark verify --config F --topics orders --out verify.json

Compares key, value, headers and timestamp of every record that is mapped and that both tiers
still have. Records that the ingest tier no longer has (expired, compacted) are counted and
accepted.
exit codes: 0 all identical, 1 records differ or are missing (the first are named), 2 usage or
configuration
"""


def add_mirror(parser: argparse.ArgumentParser) -> None:
    """Add the options of `mirror`."""
    _add_common(parser)
    add = parser.add_argument
    add("--follow", action="store_true", help="go on until stopped")
    add(
        "--interval",
        type=float,
        default=_INTERVAL_S,
        metavar="S",
        help="with --follow: seconds between two commits of a partition while no replay waits for "
        f"it; at least {_MIN_INTERVAL_S:g}, default: {_INTERVAL_S:g}",
    )
    add("--retention-ms", type=int, default=-1, metavar="N",
        help="retention of topics that it creates; default: -1, forever")  # fmt: skip
    add("--metrics", type=local_path, metavar="FILE", help="keep a Prometheus textfile up to date")
    parser.set_defaults(run=run_mirror)
    parser.epilog = _MIRROR


def add_verify(parser: argparse.ArgumentParser) -> None:
    """Add the options of `verify`."""
    _add_common(parser)
    parser.add_argument("--out", type=local_path, metavar="FILE", help="write the result as JSON")
    parser.set_defaults(run=run_verify)
    parser.epilog = _VERIFY


def _add_common(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_config(parser, "the gateway's TOML file")
    add("--topics", metavar="P", help="names and globs, separated by commas; default: all")
    add("--cluster", metavar="NAME", help="the ingest cluster; default: all with a backfill tier")
    add(
        "--bytes-per-s",
        type=float,
        metavar="N",
        help="read at most this many bytes per second from each broker",
    )
    add("--master", metavar="URL", help="Spark's master; default: local[*,8]")
    add(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark; may be repeated",
    )
    add_quiet(parser)


def run_mirror(chosen: argparse.Namespace) -> int:
    """Run `headgate-spark mirror`. Raises JobError."""
    from headgate_spark.mirror.mirror import (
        MirrorRequest,
        mirror,  # slow to import
    )

    if not chosen.interval >= _MIN_INTERVAL_S:  # also nan
        raise JobError(f"--interval {chosen.interval:g}: at least {_MIN_INTERVAL_S:g}", USAGE)
    request = MirrorRequest(
        cluster=chosen.cluster,
        topics=chosen.topics,
        is_following=chosen.follow,
        interval_s=chosen.interval,
        bytes_per_s=_rate(chosen.bytes_per_s),
        retention_ms=chosen.retention_ms,
        metrics=chosen.metrics,
    )
    return _with_spark(chosen, "headgate mirror", lambda spark, config, report: mirror(
        spark, config, request, report
    ))  # fmt: skip


def run_verify(chosen: argparse.Namespace) -> int:
    """Run `headgate-spark verify`. Raises JobError."""
    from headgate_spark.mirror.verify import VerifyRequest, verify  # slow to import

    request = VerifyRequest(chosen.cluster, chosen.topics, _rate(chosen.bytes_per_s), chosen.out)
    return _with_spark(chosen, "headgate verify", lambda spark, config, report: verify(
        spark, config, request, report
    ))  # fmt: skip


def _rate(given: float | None) -> float | None:
    if given is not None and not given >= 1:  # also nan
        raise JobError(f"--bytes-per-s {given:g}: at least 1", USAGE)
    return given


def _with_spark(
    chosen: argparse.Namespace,
    name: str,
    job: "Callable[[SparkSession, JobConfig, ProgressLine], int]",
) -> int:
    from headgate_spark.copying.cluster import pairs
    from headgate_spark.job.command_line import report_to_people
    from headgate_spark.job.options import read_config
    from headgate_spark.session.session import open_session, parse_settings

    config = read_config(chosen.config, os.environ)
    pairs(config, chosen.cluster)  # report wrong options before Spark starts
    settings = {
        "spark.task.maxFailures": str(_FAILURES),
        "spark.speculation": "false",  # two copies of a task would only fence each other
        **parse_settings(chosen.conf),
    }
    report = report_to_people(is_quiet=chosen.quiet)
    spark = open_session(name, chosen.master or f"local[*,{_FAILURES}]", settings, report.note)
    try:
        return job(spark, config, report)
    finally:
        report.end()
        spark.stop()
