"""`headgate init`: creates or checks the internal topics."""

import argparse
import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.commands import FAILED, OK, add_command

if TYPE_CHECKING:
    from headgate.commands import Subparsers

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
    parser.add_argument("--config", required=True, type=Path, metavar="F", help="the TOML file")
    parser.add_argument("--check", action="store_true", help="create nothing")


def run(args: argparse.Namespace) -> int:
    """Create, check, report; return the exit code. Raises ConfigError."""
    from headgate.config import load  # slow to import
    from headgate.wiring.initialise import initialise

    # what aiokafka would write to standard error is a line of the report already
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    settings = load(args.config, os.environ)
    lines = asyncio.run(initialise(settings, may_create=not args.check))
    for line in lines:
        sys.stdout.write(f"{line.word:7} {line.subject}: {line.text}\n")
    if not lines:
        sys.stdout.write("ok      no topic of the configuration needs an internal topic\n")
    return FAILED if any(line.is_bad for line in lines) else OK
