"""`headgate init`: creates or checks the internal topics."""

import argparse
import asyncio
import logging
import os
from typing import TYPE_CHECKING

from headgate.commands import FAILED, OK, add_command
from headgate.commands.config_file import add_config
from headgate.commands.output import add_json, say, show_json
from headgate.core.terminal.style import Ink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.commands import Subparsers
    from headgate.wiring.initialise import ReportLine

_EXAMPLES = """  headgate init --config headgate.toml
  headgate init --config headgate.toml --check     creates nothing: are they there and right?

Topics that coalesce (coalesce_quiet_ms) need one internal topic each, headgate.held.<topic>.
A cluster that is another one's backfill tier needs headgate.offsets, the mirror's offset map.
Whatever exists is checked and never changed. Run it again whenever a topic begins to coalesce.

exit codes: 0 all there and right, 1 something is wrong or missing, 2 the configuration cannot
be used"""


def register(subparsers: "Subparsers") -> None:
    """Add `init` to the commands."""
    purpose = "create or check the internal topics (headgate.*) of the configuration"
    parser = add_command(subparsers, "init", purpose, _EXAMPLES)
    add_config(parser)
    parser.add_argument("--check", action="store_true", help="only check, create nothing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Create, check, report; return the exit code. Raises ConfigError."""
    from headgate.config import load  # slow to import
    from headgate.wiring.initialise import initialise

    # what aiokafka would write to standard error is a line of the report already
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    settings = load(args.config, os.environ)
    lines = asyncio.run(initialise(settings, may_create=not args.check))
    if args.json:
        show_json({"topics": [line._asdict() for line in lines]})
    else:
        _show(lines)
    return FAILED if any(line.is_bad for line in lines) else OK


def _show(lines: "Sequence[ReportLine]") -> None:
    for line in lines:
        ink = Ink.BAD if line.is_bad else Ink.GOOD
        say(f"{line.subject}: {line.text}", ink, f"{line.word:7}")
    if not lines:
        say("ok      no topic of the configuration needs an internal topic")
