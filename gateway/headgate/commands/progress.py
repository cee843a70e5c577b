"""How far a command or a Spark job is, on standard error: standard output is for results."""

import argparse
import os
import sys
import time
from contextlib import suppress
from threading import Lock

from headgate.core.terminal.progress import ProgressLine
from headgate.core.terminal.style import style_of

_COLUMNS = 80  # where the terminal does not say


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """For commands that take a while."""
    parser.add_argument(
        "--quiet", action="store_true", help="print only errors and warnings, no progress"
    )


def progress(prefix: str = "", *, is_quiet: bool = False) -> ProgressLine:
    """Lines that stay, and how far it is: a line that is rewritten, or one at times in a log."""
    style = style_of(os.environ, is_terminal=sys.stderr.isatty())
    return ProgressLine(sys.stderr, style, time.monotonic, _room, Lock(), prefix, is_quiet=is_quiet)


def _room() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS
