"""`headgate serve`: the gateway."""

import argparse
import asyncio
import logging
import os
from typing import TYPE_CHECKING

from headgate.commands import FAILED, USAGE, CommandError, add_command
from headgate.commands.config_file import add_config

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
    parser.add_argument(
        "--abandon-spool",
        action="store_true",
        help="start even if the configuration no longer names a spool that holds events",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; return the exit code. Raises ConfigError."""
    from headgate.config import load
    from headgate.metrics import logs
    from headgate.metrics.build import warn_unless_native
    from headgate.supervisor import parent
    from headgate.supervisor.ports import PortTakenError

    environ, flags = dict(os.environ), {}
    if args.workers is not None:
        environ[_WORKERS] = args.workers
        flags[_WORKERS] = "--workers"
    settings = load(args.config, environ)
    logs.configure(settings.logs)
    _look_for_spools(args, settings.spool.path)
    warn_unless_native(parent.log)
    try:
        return asyncio.run(parent.serve(parent.Start(args.config, environ, flags=flags)))
    except PortTakenError as error:
        raise CommandError(str(error), FAILED) from error


def _look_for_spools(args: argparse.Namespace, current: str | None) -> None:
    """Note the spool's folder. Raises CommandError: events lie in one that is not named now."""
    from headgate.spool.folders import SpoolFolders  # slow to import

    folders = SpoolFolders(args.config, os.environ)
    left = folders.left_behind(current)
    if left and not args.abandon_spool:
        text = "; ".join(map(str, left))
        commands = " && ".join(
            f"headgate spool drain {one.folder} --config {args.config}" for one in left
        )
        raise CommandError(
            f"spool.path: {text} would stay there, because the configuration no longer names it. "
            f"Publish them first: `{commands}`; or give --abandon-spool",
            USAGE,
        )
    for one in left:
        logging.getLogger("headgate.spool").warning(
            "spool abandoned because of --abandon-spool: %s", one
        )
    folders.forget(left)
    folders.note(current)
