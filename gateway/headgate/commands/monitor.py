"""`headgate monitor`: what all consumer groups do, and who set one back."""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from headgate.commands import FAILED, OK, USAGE, CommandError, add_command
from headgate.commands.config_file import add_config
from headgate.commands.output import style, write
from headgate.core.terminal.text import escaped
from headgate.errors_in_words import listen_error

if TYPE_CHECKING:
    from headgate.commands import Subparsers
    from headgate.config import Settings

_EXAMPLES = """  headgate monitor --config headgate.toml            watch, and answer /v1/groups
  headgate monitor --config headgate.toml --once     one poll, as a table
  headgate monitor --config headgate.toml --once --json
  curl -s 127.0.0.1:9096/v1/groups?pretty            or /v1/groups of any gateway

Polls all groups of all clusters every monitor.interval_ms and, where it may read
__consumer_offsets, follows every commit. One per installation is enough. On a terminal it
prints a table after every poll; the log, on standard error, names every commit that went back.

signals: TERM and INT end it
exit codes: 0 ended by a signal (or polled once), 1 failed, 2 the configuration cannot be used"""

_ONCE_S = 60.0


def register(subparsers: "Subparsers") -> None:
    """Add `monitor` to the commands."""
    purpose = "watch all consumer groups: lag, states and commits that were rewound"
    parser = add_command(subparsers, "monitor", purpose, _EXAMPLES)
    add_config(parser)
    parser.add_argument("--once", action="store_true", help="poll once, print and exit")
    parser.add_argument("--json", action="store_true", help="with --once: print JSON")
    parser.add_argument(
        "--table", action="store_true", help="print the table even if the output is not a terminal"
    )


def run(args: argparse.Namespace) -> int:
    """Watch until a signal; return the exit code. Raises ConfigError, CommandError."""
    import uvloop  # slow to import, as what follows

    from headgate.config import load, read_file
    from headgate.metrics import logs
    from headgate.metrics.build import start_fields
    from headgate.supervisor.kept_tls import TlsFilesError
    from headgate.supervisor.monitor_process import monitor

    text = read_file(args.config)
    settings = load(args.config, os.environ, text=text)
    logs.configure(settings.logs)
    if args.once:
        return _once(settings, args.json)
    told = write if args.table or sys.stdout.isatty() else None
    try:
        uvloop.run(monitor(settings, start_fields(args.config, text), told, style()))
    except TlsFilesError as error:
        raise CommandError(str(error), USAGE) from error
    except OSError as error:
        text = f"monitor.port = {settings.monitor.port}: {listen_error(error)}"
        raise CommandError(text, FAILED) from error
    return OK


def _once(settings: "Settings", as_json: bool) -> int:
    import orjson
    import uvloop

    from headgate.supervisor.monitor_process import poll_once, table

    try:
        found = uvloop.run(poll_once(settings, _ONCE_S))
    except TimeoutError as error:
        raise CommandError("a cluster does not answer: see the log", FAILED) from error
    write(escaped(orjson.dumps(found.groups()).decode()) if as_json else table(found, style()))
    return OK
