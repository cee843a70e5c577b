"""`headgate token`: a new random token for a producer, and the section that makes it known."""

import argparse
import hashlib
import re
import secrets
import sys
from typing import TYPE_CHECKING

from headgate.commands import OK, USAGE, add_command
from headgate.config.settings import dotted
from headgate.core.terminal.text import one_line

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_RANDOM_BYTES = 32  # 256 bits: cannot be guessed, so an unsalted hash is enough
_PREFIX = "hg_"  # lets secret scanners and people recognise one
_NAME = r"[A-Za-z0-9][\w.\-]{0,99}"


def register(subparsers: "Subparsers") -> None:
    """Add `token` to the commands."""
    purpose = "create a token for a producer; only its hash is stored, so keep the token"
    parser = add_command(subparsers, "token", purpose, "  headgate token checkout")
    parser.add_argument("name", metavar="NAME", help="the producer's name")


def run(args: argparse.Namespace) -> int:
    """Print a token to standard error, and the section with its hash to standard output.

    The section can be pasted or redirected into the configuration, and never carries the token.
    """
    if not re.fullmatch(_NAME, args.name):
        sys.stderr.write(
            f'"{one_line(args.name)}" is not a producer\'s name: '
            'letters, digits, ".", "-" and "_", at most 100\n'
        )
        return USAGE
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    sys.stderr.write(
        f"Token for {args.name}, shown once. {args.name} sends it as `Authorization: Bearer "
        f"TOKEN`:\n\n    {token}\n\n"
        "Section for the configuration (two hashes are allowed while one replaces the other):\n\n"
    )
    sys.stderr.flush()
    sys.stdout.write(
        f'[{dotted(("producers", args.name))}]\ntoken_sha256 = ["{token_sha256(token)}"]\n'
    )
    return OK


def token_sha256(token: str) -> str:
    """The hash under which the gateway knows a token."""
    return hashlib.sha256(token.encode()).hexdigest()
