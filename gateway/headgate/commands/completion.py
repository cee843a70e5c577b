"""`headgate completion`: what completes commands, options and files in a shell."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.commands import OK, add_command
from headgate.core.command_tree.completion import EXAMPLES, PURPOSE, SHELLS

if TYPE_CHECKING:
    from headgate.commands import Subparsers


def register(subparsers: "Subparsers") -> None:
    """Add `completion` to the commands."""
    examples = EXAMPLES.format(program="headgate")
    parser = add_command(subparsers, "completion", PURPOSE, examples)
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(args: argparse.Namespace) -> int:
    """Print the script; return the exit code. args.program: makes the parser of all commands."""
    from headgate.core.command_tree.tree import command_of

    sys.stdout.write(SHELLS[args.shell](command_of(args.program(), Path)))
    return OK
