"""The command `headgate`: run a sub-command, and turn its end into an exit code."""

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from headgate.commands.command_line import (
    USAGE,
    CommandError,
    HelpfulParser,
    NoConfigFileError,
    find_config,
    mask_of_files,
    run_command,
    with_help_last,
    with_times_joined,
)
from headgate.config.problems import ConfigError
from headgate.metrics.build import VERSION
from headgate.model.text import indented

# The commands, in the order of the help, with the module of headgate.commands that has each.
COMMANDS: Mapping[str, str] = {
    "dev": "dev",
    "serve": "serve",
    "init": "config",
    "coalesce": "serve",
    "monitor": "serve",
    "status": "status",
    "top": "top",
    "blobs": "blobs",
    "spool": "spool",
    "check": "config",
    "config": "config",
    "replay": "replay",
    "offsets": "replay",
    "groups": "groups",
    "pause": "groups",
    "resume": "groups",
    "log": "groups",
    "compare": "compare",
    "token": "config",
    "completion": "completion",
    "worker": "serve",
}

_EXAMPLES = """examples:
  headgate dev                            Kafka, Redis and the gateway on this machine
  headgate serve --config headgate.toml   the gateway alone
  headgate init --config headgate.toml    create the internal topics
  headgate monitor --config headgate.toml watch all consumer groups
  headgate status                         is all well, and if not, why?
  headgate top                            producers, topics and groups, live
  headgate check --config headgate.toml   validate the configuration
  headgate token checkout                 a token for the producer checkout
  headgate COMMAND --help                 options and examples of a command

exit codes: 0 ok, 1 failed, 2 usage or configuration
"""

# Commands report the failures of aiokafka in their own words. Commands with a log configure the
# root logger, which still gets its lines.
_SILENT = logging.NullHandler()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; return the exit code.

    Args:
        arguments: The command line; None means that of the process, which then belongs to it.
    """
    if arguments is None:
        mask = mask_of_files(os.environ, _say)
        if mask is None:
            return USAGE
        os.umask(mask)
    logging.getLogger("aiokafka").addHandler(_SILENT)
    given = sys.argv[1:] if arguments is None else arguments
    return run_command(lambda: _run(given), _say, sys.stdout)


def _run(given: Sequence[str]) -> int:
    given = with_help_last(given)
    names = [name for name in given[:1] if name in COMMANDS] or COMMANDS
    chosen = parser(names).parse_args(with_times_joined(given))
    try:
        find_config(chosen, os.environ, _say)
        code: int = chosen.run(chosen)
    except (ConfigError, NoConfigFileError) as error:
        _say(str(error))
        return USAGE
    except CommandError as error:
        _say(str(error))
        return error.exit_code
    return code


def parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return a parser of these commands. A gateway's processes keep no others in memory."""
    top = HelpfulParser(
        prog="headgate",
        description="An HTTP gateway for Apache Kafka that drops unchanged events, keeps the "
        "order of each key and measures every producer.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=VERSION)
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in names:
        module = import_module(f"headgate.commands.{COMMANDS[name]}")
        getattr(module, f"register_{name}")(subparsers)
        run = getattr(module, f"run_{name}")
        subparsers.choices[name].set_defaults(run=run, program=parser)
    return top


def _say(text: str) -> None:
    sys.stderr.write(f"headgate: {indented(text)}\n")
