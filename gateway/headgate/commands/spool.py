"""`headgate spool`: what lies in a spool, for people."""

import argparse
import asyncio
import base64
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.commands import FAILED, OK, USAGE, CommandError, add_command
from headgate.commands.config_file import add_config
from headgate.commands.output import add_json, say
from headgate.core.terminal.figures import counted
from headgate.core.terminal.text import escaped, one_line

if TYPE_CHECKING:
    from headgate.commands import Subparsers
    from headgate.core.spool.chunk import Packed

_EXAMPLES = """  headgate spool list /var/lib/headgate/spool
  headgate spool export /var/lib/headgate/spool --topic orders > orders.ndjson
  headgate spool drain /mnt/of-the-pod-that-died/spool --config headgate.toml
  headgate spool drop /var/lib/headgate/spool --topic orders --yes
  headgate spool drop /var/lib/headgate/spool --aside --yes

DIR is a gateway's spool.path. `list` and `export` may run beside the gateway; `drain` and
`drop` need the folder for themselves. A gateway publishes its own spool: `drain` is for the folder
of one that will not come back, and repeats what that one had handed over and not noted
(the same event ids; docs/operate/spool.md).

exit codes: 0 done, 1 failed (of drain: something is left or set aside), 2 usage or configuration"""

_WAY_OUT = """The start of its gateway, or `headgate spool drain`, publishes what can be read of it
and keeps the file in a folder damaged-TIME; `export` shows what can be read. If nothing of it is
wanted, delete the folder."""


def register(subparsers: "Subparsers") -> None:
    """Add `spool` to the commands."""
    purpose = "inspect, publish or empty a spool"
    parser = add_command(subparsers, "spool", purpose, _EXAMPLES)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = add_command(
        actions, "list", "show waiting events and events that were set aside", _EXAMPLES
    )
    export = add_command(actions, "export", "write all events as NDJSON", _EXAMPLES)
    drain = add_command(actions, "drain", "publish all events and exit", _EXAMPLES)
    drop = add_command(actions, "drop", "delete events for good", _EXAMPLES)
    for one in (listing, export, drain, drop):
        one.add_argument("folder", type=Path, metavar="DIR", help="a gateway's spool.path")
    for one in (export, drop):
        one.add_argument("--topic", metavar="T", help="only events of this topic")
    add_json(listing)
    add_config(drain)
    drain.add_argument(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="give up after this many seconds; default: 600",
    )
    drop.add_argument("--aside", action="store_true", help="only events that were set aside")
    drop.add_argument("--yes", action="store_true", help="confirm: these events were answered 202")


def run(args: argparse.Namespace) -> int:
    """Do it; return the exit code. Raises ConfigError, CommandError."""
    from headgate.spool.database import FILE, JournalDamagedError, JournalError

    if not (args.folder / FILE).is_file():
        raise CommandError(f"{args.folder}: there is no spool here ({FILE} is missing)", USAGE)
    actions = {"list": _list, "export": _export, "drain": _drain, "drop": _drop}
    try:
        return actions[args.action](args)
    except JournalDamagedError as error:
        raise CommandError(f"{args.folder}: it is damaged ({error}). {_WAY_OUT}", FAILED) from error
    except JournalError as error:
        raise CommandError(f"{args.folder}: {error}", FAILED) from error


def _list(args: argparse.Namespace) -> int:
    from headgate.commands.output import show_json
    from headgate.commands.spool_contents import as_json, read_listed, show_listed

    found = read_listed(args.folder)
    if args.json:
        show_json(as_json(found))
    else:
        show_listed(found)
    return FAILED if found.gaps else OK


def _export(args: argparse.Namespace) -> int:
    import orjson

    from headgate.commands.spool_contents import tell_damage
    from headgate.spool.reading import Reader

    reader, damaged = Reader(args.folder), 0
    try:
        for topic, partition, at_ms, event in reader.events(args.topic):
            if event is None:
                damaged += 1
                continue
            line = escaped(orjson.dumps(_shown(topic, partition, at_ms, event)).decode())
            sys.stdout.buffer.write(line.encode() + b"\n")
    finally:
        reader.close()
    sys.stdout.flush()
    if damaged:
        _warn(f"damaged and left out: {counted(damaged, 'chunk')}")
    tell_damage(reader.gaps, reader.missing, _warn)
    return FAILED if damaged or reader.gaps else OK


def _drop(args: argparse.Namespace) -> int:
    from headgate.spool.journal import Journal

    if not args.yes:
        raise CommandError("these events were answered 202 and will be lost: give --yes", USAGE)
    journal = Journal(args.folder)
    try:
        dropped = journal.drop(args.topic, aside_only=args.aside)
    finally:
        journal.close()
    say(f"dropped {counted(dropped, 'event')}")
    return OK


def _drain(args: argparse.Namespace) -> int:
    from headgate.config import load
    from headgate.spool.place import kept_in
    from headgate.wiring.spool_drain import drain

    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    settings = load(args.config, os.environ)
    left = asyncio.run(drain(settings, args.folder, args.timeout, say))
    aside, kept = _aside(args.folder), kept_in(args.folder)
    if left:
        say(f"failed  not published: {counted(left, 'event')}")
    if aside:
        count = counted(aside, "event")
        say(f"aside   cannot be published: {count} (`headgate spool list` says why)")
    for name in kept:
        say(f"kept    {args.folder / name}: a damaged file, and not all of it may be published")
    if left or aside or kept:
        return FAILED
    say("done    the spool is empty")
    return OK


def _aside(folder: Path) -> int:
    from headgate.spool.reading import Reader

    reader = Reader(folder)
    try:
        return sum(one.events for one in reader.aside())
    finally:
        reader.close()


def _shown(topic: str, partition: int, at_ms: int, event: "Packed") -> dict[str, Any]:
    from headgate.commands.spool_contents import moment

    key, value, headers, timestamp_ms = event
    return {
        "topic": topic,
        "partition": partition,
        "spooled_at": moment(at_ms),
        "timestamp": timestamp_ms,
        **_text("key", key),
        **_text("value", value),
        "headers": [{"name": name, **_text("value", content)} for name, content in headers],
    }


def _text(name: str, content: bytes | None) -> dict[str, str | None]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(content).decode()}


def _warn(line: str) -> None:
    sys.stderr.write(f"headgate: {one_line(line)}\n")
