"""The job `replay` on the command line."""

import argparse
import os

from headgate.commands.command_line import add_config
from headgate.commands.output import add_quiet
from headgate_spark.job.command_line import USAGE, JobError, local_path

_REPLAY = """examples:
  headgate-spark replay --config headgate.toml --follow        runs replays until stopped
  headgate-spark replay --config headgate.toml                 runs waiting replays, then exits

Replays are asked for over HTTP or with `headgate replay create`; this copies those of mode topic.
Start as many as you like: one has the lease, the others take over when it falls silent. Stop or
kill it as you like: the next one goes on with the record behind the last one that was copied.
exit codes: 0 done (or stopped while following), 1 failed, 2 usage or configuration
"""


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the options of `replay`."""
    add = parser.add_argument
    add_config(parser, "the gateway's TOML file")
    add("--cluster", metavar="NAME", help="the backfill cluster; default: all")
    add("--follow", action="store_true", help="go on until stopped")
    add("--patience", type=float, default=15.0, metavar="S",
        help="take over from a runner after this many silent seconds; default: 15")  # fmt: skip
    add("--metrics", type=local_path, metavar="FILE", help="keep a Prometheus textfile up to date")
    add_quiet(parser)
    parser.set_defaults(run=run_replay)
    parser.epilog = _REPLAY


def run_replay(chosen: argparse.Namespace) -> int:
    """Run `headgate-spark replay`. Raises JobError."""
    from headgate_spark.job.command_line import report_to_people
    from headgate_spark.job.options import read_config
    from headgate_spark.replay.runner import RunRequest, run_replays  # slow to import

    if not chosen.patience > 0:  # also nan
        raise JobError(f"--patience {chosen.patience:g}: seconds, more than 0", USAGE)
    config = read_config(chosen.config, os.environ)
    request = RunRequest(chosen.cluster, chosen.follow, chosen.patience, chosen.metrics)
    report = report_to_people(is_quiet=chosen.quiet)
    try:
        return run_replays(config, request, report)
    finally:
        report.end()
