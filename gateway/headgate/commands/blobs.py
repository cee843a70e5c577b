"""`headgate blobs gc`: remove blobs that no record refers to any more."""

import argparse
import asyncio
import os
from typing import TYPE_CHECKING

from headgate.commands.command_line import FAILED, OK, USAGE, CommandError, add_command, add_config
from headgate.commands.output import say

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers

_EXAMPLES = """  headgate blobs gc --config headgate.toml --dry-run
  headgate blobs gc --config headgate.toml                        from cron, once a day
  headgate blobs gc --config headgate.toml --older-than 168

Reads every topic that may refer to a blob (claim-check) from its beginning to its end, on the
ingest cluster and its backfill cluster, and removes the blobs below [blobs] url that no record
names and that are older than --older-than. Gateways may go on publishing meanwhile.

exit codes: 0 done, 1 a topic or the store could not be read wholly (then nothing was removed, or
not all), 2 usage or configuration"""

MIN_HOURS = 12  # twice the age at which an object in S3 is written again (blobs.blobs)


def register_blobs(subparsers: "Subparsers") -> None:
    """Add `blobs` to the commands."""
    purpose = "clean up the blob store (claim checks)"
    parser = add_command(subparsers, "blobs", purpose, _EXAMPLES)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    gc = add_command(actions, "gc", "remove blobs that no record refers to any more", _EXAMPLES)
    add_config(gc)
    gc.add_argument(
        "--dry-run", action="store_true", help="only print the blobs that would be removed"
    )
    gc.add_argument(
        "--older-than",
        type=float,
        default=24.0,
        metavar="HOURS",
        help=f"keep younger blobs: their records may still arrive; min. {MIN_HOURS}, default: 24",
    )


def run_blobs(args: argparse.Namespace) -> int:
    """Collect, report; return the exit code. Raises ConfigError, CommandError."""
    from headgate.blobs.blobs import open_store  # slow imports
    from headgate.blobs.gc import NotCollectedError, collect_garbage
    from headgate.config import load

    if not args.older_than >= MIN_HOURS:
        text = f"--older-than {args.older_than:g}: {MIN_HOURS} hours or more"
        raise CommandError(f"{text}, or events under way lose their values", USAGE)
    settings = load(args.config, os.environ)
    if settings.blobs.url is None:
        raise CommandError("blobs.url is not set: there is no blob store", USAGE)
    try:
        store = open_store(settings.blobs.url)
        counts = asyncio.run(
            collect_garbage(settings, store, args.older_than * 3600, say, dry_run=args.dry_run)
        )
    except ImportError as error:
        raise CommandError(f"{error}; install headgate[s3]", USAGE) from error
    except NotCollectedError as refusal:
        say(f"refused {refusal}")
        return FAILED
    done = "would be removed" if args.dry_run else "removed"
    say(f"kept    {counts.referred} referred to, {counts.young} too young")
    say(f"done    {counts.removed} {done} ({counts.size} bytes), {counts.pending} unfinished")
    return OK
