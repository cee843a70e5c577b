"""What commands print: tables and lines for people, JSON for machines."""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from headgate.core.terminal.style import Ink, Style, style_of
from headgate.core.terminal.table import Column, Row, facts, table
from headgate.core.terminal.text import escaped, one_line


def add_json(parser: argparse.ArgumentParser) -> None:
    """For commands that print lines for people."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object instead of lines"
    )


def add_formats(parser: argparse.ArgumentParser) -> None:
    """For commands that show the control plane's answers: scripts read them as they came."""
    formats = parser.add_mutually_exclusive_group()
    formats.add_argument("--json", action="store_true", help="print JSON even on a terminal")
    formats.add_argument(
        "--table", action="store_true", help="print a table even if the output is not a terminal"
    )


def is_table(args: argparse.Namespace) -> bool:
    """What is asked for with the options of `add_formats`."""
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
    """The text in this ink, where standard output has colours."""
    return style().paint(text, ink)


def say(line: str, ink: Ink = Ink.PLAIN, mark: str = "") -> None:
    """Print one line at once, without control characters and line ends. ink: of the mark before
    it."""
    start = f"{painted(mark, ink)} " if mark else ""
    write(f"{start}{one_line(line)}")


def write(line: str) -> None:
    """Print one line that holds no control characters but ours."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def style() -> Style:
    """Of standard output."""
    return style_of(os.environ, is_terminal=sys.stdout.isatty())
