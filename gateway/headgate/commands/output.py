"""Output of commands: tables and lines for people, JSON for scripts, progress on standard error."""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Any

from headgate.commands.terminal import Column, Ink, ProgressLine, Row, Style, facts, style_of, table
from headgate.model.text import escaped, one_line

_COLUMNS = 80  # default without a known width


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add `--json` to a command that prints lines for people."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of lines"
    )


def add_once(parser: argparse.ArgumentParser) -> None:
    """Add `--once` and `--json` to a command that goes on until it is stopped."""
    parser.add_argument("--once", action="store_true", help="print one table and exit")
    parser.add_argument("--json", action="store_true", help="print one JSON object and exit")


def add_formats(parser: argparse.ArgumentParser) -> None:
    """Add `--json` and `--table` to a command that shows answers of the control plane."""
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument(
        "--json", action="store_true", help="print one JSON object even on a terminal"
    )
    formats.add_argument(
        "--table", action="store_true", help="print a table even if the output is not a terminal"
    )


def is_table(args: argparse.Namespace) -> bool:
    """Return whether the options of `add_formats` ask for a table."""
    return bool(args.table or (not args.json and sys.stdout.isatty()))


def show_table(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Print a table, as wide as it gets: a name that is cut off cannot be copied."""
    for line in table(columns, rows, style()):
        write(line)


def show_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, a line each."""
    for line in facts(pairs, style()):
        write(line)


def show_json(page: Any) -> None:
    """Print JSON."""
    write(escaped(json.dumps(page, indent=2)))


def painted(text: str, ink: Ink) -> str:
    """Return the text in this ink if standard output has colours."""
    return style().paint(text, ink)


def say(line: str, ink: Ink = Ink.PLAIN, mark: str = "") -> None:
    """Print one line at once, without control characters and line ends.

    Args:
        line: The line.
        ink: The ink of the mark.
        mark: A word before the line.
    """
    start = f"{painted(mark, ink)} " if mark else ""
    write(f"{start}{one_line(line)}")


def write(line: str) -> None:
    """Print one line whose control characters are all our own."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def style() -> Style:
    """Return the style of standard output."""
    return style_of(os.environ, is_terminal=sys.stdout.isatty())


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add `--quiet` to a command that shows progress."""
    parser.add_argument(
        "--quiet", action="store_true", help="print only errors and warnings, no progress"
    )


def progress(prefix: str = "", *, is_quiet: bool = False) -> ProgressLine:
    """Return a progress line on standard error: rewritten on a terminal, else repeated at times."""
    style = style_of(os.environ, is_terminal=sys.stderr.isatty())
    return ProgressLine(sys.stderr, style, time.monotonic, _room, Lock(), prefix, is_quiet=is_quiet)


def _room() -> int:
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stderr.fileno()).columns or _COLUMNS
    return _COLUMNS
