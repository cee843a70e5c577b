"""The command `headgate-spark`; also `python -m headgate_spark` and the script of spark-submit."""

import argparse
import os
import platform
import sys
from collections.abc import Sequence

from headgate import __version__
from headgate.commands.command_line import (
    HelpfulParser,
    NoConfigFileError,
    find_config,
    mask_of_files,
    run_command,
    with_help_last,
    with_times_joined,
)
from headgate.commands.completion import EXAMPLES, PURPOSE, SHELLS, command_of
from headgate.model.text import indented
from headgate_spark.audit.command import AUDIT_EXAMPLES, add_audit
from headgate_spark.job.command_line import OK, USAGE, JobError, format_task_log
from headgate_spark.mirror.command import add_mirror, add_verify
from headgate_spark.replay.command import add_replay


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one job; return the exit code. `arguments`: None for those of the program."""
    if arguments is None:
        mask = mask_of_files(os.environ, _say)
        if mask is None:
            return USAGE
        os.umask(mask)
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(lambda: _run(given), _say, sys.stdout)


def _run(given: Sequence[str]) -> int:
    chosen = parser().parse_args(with_times_joined(with_help_last(given)))
    format_task_log()
    try:
        find_config(chosen, os.environ, _say)
        exit_code: int = chosen.run(chosen)
    except NoConfigFileError as error:
        _say(str(error))
        return USAGE
    except JobError as error:
        _say(str(error))
        return error.exit_code
    return exit_code


def parser() -> argparse.ArgumentParser:
    """Return the parser of all jobs and their arguments."""
    root = HelpfulParser(
        prog="headgate-spark",
        description="Headgate's Spark jobs.",
        epilog=AUDIT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    python = platform.python_version()
    version = f"headgate-spark {__version__} (Python {python})"
    root.add_argument("--version", action="version", version=version)
    jobs = root.add_subparsers(title="jobs", metavar="JOB", required=True)
    add_audit(jobs.add_parser(
        "audit",
        help="explain why partitions are unequal, and advise",
        description="Reads topics, explains why their partitions are unequal, and advises.",
        epilog=AUDIT_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    add_mirror(jobs.add_parser(
        "mirror",
        help="copy topics into the backfill tier, once or continuously",
        description="Copies topics into the backfill tier: identical records, with an exact map "
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
        description="Runs replays of mode topic.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    ))  # fmt: skip
    completion = jobs.add_parser(
        "completion",
        help=PURPOSE,
        description=PURPOSE,
        epilog="examples:\n" + EXAMPLES.format(program=root.prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=SHELLS, help="which shell")
    completion.set_defaults(run=_complete)
    return root


def _complete(chosen: argparse.Namespace) -> int:
    sys.stdout.write(SHELLS[chosen.shell](command_of(parser())))
    return OK


def _say(line: str) -> None:
    sys.stderr.write(f"headgate-spark: {indented(line)}\n")
    sys.stderr.flush()
