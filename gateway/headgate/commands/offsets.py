"""`headgate offsets`: asks a gateway where a record is on the other tier."""

import argparse
from typing import TYPE_CHECKING, Any

from headgate.commands import OK, USAGE, CommandError, add_command

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate offsets translate --topic orders 0:1729
  headgate offsets translate --topic orders 0:5,9,17 3:0
  headgate offsets translate --topic orders --to ingest 0:1801

PARTITION:OFFSET[,OFFSET...], as many as you like. A client of the gateway's control plane: --url
(or HEADGATE_URL), --token-file (or HEADGATE_TOKEN). It prints JSON, on a terminal a table.

An offset that is not mirrored yet, or no longer, is `out_of_range`.

exit codes: 0 done, 1 refused or failed, 2 usage"""

# What the API calls what is typed here.
_OPTIONS = {"topic": "--topic", "to": "--to", "offsets": "PARTITION:OFFSETS"}


def register(subparsers: "Subparsers") -> None:
    """Add `offsets` to the commands."""
    from headgate.commands.asking import add_gateway
    from headgate.commands.output import add_formats

    parser = add_command(
        subparsers, "offsets", "find a record's position on the other tier", _EXAMPLES
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = add_command(
        actions, "translate", "translate offsets of one tier into offsets of the other", _EXAMPLES
    )
    one.add_argument("--topic", required=True, metavar="T", help="the topic")
    one.add_argument(
        "--to", choices=("backfill", "ingest"), default="backfill",
        help="the tier of the resulting offsets; default: backfill",
    )  # fmt: skip
    one.add_argument(
        "places", nargs="+", metavar="PARTITION:OFFSETS", help="such as 0:1729, or 0:5,9,17"
    )
    add_gateway(one)
    add_formats(one)


def run(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    from headgate.commands.asking import ask
    from headgate.commands.output import is_table, show_json

    offsets: dict[str, list[int]] = {}
    for place in args.places:
        partition, _, numbers = place.partition(":")
        try:
            found = [int(one) for one in numbers.split(",")]
            offsets.setdefault(str(int(partition)), []).extend(found)
        except ValueError as error:
            raise CommandError(f"{place}: expected PARTITION:OFFSET[,OFFSET...]", USAGE) from error
    body = {"topic": args.topic, "to": args.to, "offsets": offsets}
    page = ask(args, "POST", "/v1/offsets/translate", body, options=_OPTIONS)
    (_show_table if is_table(args) else show_json)(page)
    return OK


def _show_table(page: dict[str, Any]) -> None:
    from headgate.commands.output import show_table
    from headgate.core.terminal.style import Ink
    from headgate.core.terminal.table import Cell, Column

    inks = {"exact": Ink.GOOD, "next": Ink.WARNING, "out_of_range": Ink.BAD}
    titles = ("partition", "given", "offset", "result")
    columns = [Column(title, right=title != "result") for title in titles]
    rows = [
        [
            partition,
            str(one["source"]),
            "-" if one["offset"] is None else str(one["offset"]),
            Cell(one["result"] + (", deleted" if one.get("deleted") else ""), inks[one["result"]]),
        ]
        for partition, places in page["offsets"].items()
        for one in places
    ]
    show_table(columns, rows)
