"""What a job says to whoever started it, on standard error: standard output is for results."""

import os
import sys
import threading
import time
from contextlib import suppress

from headgate.core.terminal.progress import ProgressLine
from headgate.core.terminal.style import style_of

_COLUMNS = 80  # where the terminal does not say


def report_to_people() -> ProgressLine:
    """Lines that stay, and how far it is: a line that is rewritten, or one at times in a log."""
    style = style_of(os.environ, is_terminal=sys.stderr.isatty())
    return ProgressLine(
        sys.stderr, style, time.monotonic, _room, threading.Lock(), "headgate-spark: "
    )


def _room() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS
