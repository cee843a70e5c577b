"""`headgate serve`: the gateway."""

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from headgate.commands import FAILED, CommandError, add_command, add_config

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate serve --config headgate.toml
  headgate serve --config headgate.toml --workers 3

signals: TERM and INT drain and end it (twice: at once), HUP reloads topics and producers
exit codes: 0 drained, 1 failed, 2 the configuration cannot be used"""

_WORKERS = "HEADGATE_HTTP__WORKERS"


def register(subparsers: "Subparsers") -> None:
    """Add `serve` to the commands."""
    purpose = "take events over HTTP and publish them to Kafka"
    parser = add_command(subparsers, "serve", purpose, _EXAMPLES)
    add_config(parser)
    parser.add_argument(
        "--workers", metavar="N", help="processes that share the port (overrides http.workers)"
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; return the exit code. Raises ConfigError."""
    from headgate.config import load
    from headgate.supervisor import parent
    from headgate.supervisor.ports import PortTakenError
    from headgate.telemetry import logs  # slow to import
    from headgate.telemetry.build import warn_unless_native

    environ, flags = dict(os.environ), {}
    if args.workers is not None:
        environ[_WORKERS] = args.workers
        flags[_WORKERS] = "--workers"
    logs.configure(load(args.config, environ).logs)
    warn_unless_native(parent.log)
    try:
        return asyncio.run(parent.serve(parent.Start(args.config, environ, flags=flags)))
    except PortTakenError as error:
        raise CommandError(str(error), FAILED) from error
