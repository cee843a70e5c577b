"""`headgate coalesce`: the coalescer alone, for where gateways do not coalesce themselves."""

import argparse
import os
from typing import TYPE_CHECKING

from headgate.commands import FAILED, OK, CommandError, add_command
from headgate.commands.config_file import add_config
from headgate.errors_in_words import listen_error

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate coalesce --config headgate.toml

Takes its share of the held topics' partitions beside every other coalescer of the group; gateways
leave it to such processes with coalescer.in_gateway = false. Start as many as you like. With
coalescer.port set it answers /live, /ready and /metrics there.

signals: TERM and INT finish the transactions under way, leave the group and end it
exit codes: 0 ended by a signal, 1 failed, 2 the configuration cannot be used"""


def register(subparsers: "Subparsers") -> None:
    """Add `coalesce` to the commands."""
    purpose = "publish held events of coalescing topics, without a gateway"
    parser = add_command(subparsers, "coalesce", purpose, _EXAMPLES)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """Coalesce until a signal; return the exit code. Raises ConfigError."""
    import uvloop  # slow to import, as what follows

    from headgate.config import load, read_file
    from headgate.metrics import logs
    from headgate.metrics.build import start_fields
    from headgate.supervisor.coalescer_process import coalesce

    text = read_file(args.config)
    settings = load(args.config, os.environ, text=text)
    logs.configure(settings.logs)
    try:
        uvloop.run(coalesce(settings, start_fields(args.config, text)))
    except OSError as error:
        raise CommandError(
            f"coalescer.port = {settings.coalescer.port}: {listen_error(error)}", FAILED
        ) from error
    return OK
