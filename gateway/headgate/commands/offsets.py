"""`headgate offsets`: asks a gateway where a record is on the other tier."""

import argparse
from typing import TYPE_CHECKING

from headgate.commands import OK, USAGE, CommandError, add_command

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate offsets translate --topic orders 0:1729
  headgate offsets translate --topic orders 0:5,9,17 3:0
  headgate offsets translate --topic orders --to ingest 0:1801

PARTITION:OFFSET[,OFFSET...], as many as you like. A client of the gateway's control plane: --url
(or HEADGATE_URL), --token-file (or HEADGATE_TOKEN).

Of a partition that there is, an offset that is not mirrored yet or no longer is `out_of_range`.

exit codes: 0 done, 1 refused or failed, 2 usage"""

# What the API calls what is typed here.
_OPTIONS = {"topic": "--topic", "to": "--to", "offsets": "PARTITION:OFFSETS"}


def register(subparsers: "Subparsers") -> None:
    """Add `offsets` to the commands."""
    from headgate.commands.asking import add_gateway

    parser = add_command(subparsers, "offsets", "where a record is on the other tier", _EXAMPLES)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    one = add_command(actions, "translate", "offsets of one tier to the other's", _EXAMPLES)
    one.add_argument("--topic", required=True, metavar="T")
    one.add_argument(
        "--to", choices=("backfill", "ingest"), default="backfill", help="default: backfill"
    )
    one.add_argument("places", nargs="+", metavar="PARTITION:OFFSETS")
    add_gateway(one)


def run(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    from headgate.commands.asking import ask, show

    offsets: dict[str, list[int]] = {}
    for place in args.places:
        partition, _, numbers = place.partition(":")
        try:
            found = [int(one) for one in numbers.split(",")]
            offsets.setdefault(str(int(partition)), []).extend(found)
        except ValueError as error:
            raise CommandError(f"{place}: PARTITION:OFFSET[,OFFSET...]", USAGE) from error
    body = {"topic": args.topic, "to": args.to, "offsets": offsets}
    show(ask(args, "POST", "/v1/offsets/translate", body, options=_OPTIONS))
    return OK
