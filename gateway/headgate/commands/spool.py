"""`headgate spool`: list, export, publish or drop the events of a spool."""

import argparse
import asyncio
import base64
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.commands.command_line import (
    FAILED,
    OK,
    USAGE,
    CommandError,
    add_action,
    add_command,
    add_config,
)
from headgate.commands.output import add_json, say, show_json, show_table
from headgate.commands.terminal import Column
from headgate.model.text import counted, escaped, one_line

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers
    from headgate.spool.database import Packed
    from headgate.spool.reading import LaneFigures, Reader


_EXAMPLES = """  headgate spool list /var/lib/headgate/spool
  headgate spool export /var/lib/headgate/spool --topic orders > orders.ndjson
  headgate spool drain /mnt/of-the-pod-that-died/spool --config headgate.toml
  headgate spool drop /var/lib/headgate/spool --topic orders --yes
  headgate spool drop /var/lib/headgate/spool --aside --yes

DIR is a gateway's spool.path. `list` and `export` may run beside the gateway; `drain` and
`drop` need the folder for themselves. A running gateway publishes its own spool. Use `drain` for
the folder of a gateway that will not come back. It may publish events a second time, with the same
event ids, if that gateway had sent them but not recorded the answer (docs/operate/spool.md).

exit codes: 0 done, 1 failed (of drain: something is left or set aside), 2 usage or configuration"""

_WAY_OUT = """The start of its gateway, or `headgate spool drain`, publishes what can be read of it
and keeps the file in a folder damaged-TIME; `export` shows what can be read. If nothing of it is
wanted, delete the folder."""
_COLUMNS = (
    Column("topic"),
    Column("partition", right=True),
    Column("events", right=True),
    Column("bytes", right=True),
    Column("oldest", right=True),
)


def register_spool(subparsers: "Subparsers") -> None:
    """Add `spool` to the commands."""
    purpose = "inspect, publish or empty a spool"
    parser = add_command(subparsers, "spool", purpose, _EXAMPLES)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing, export, drain, drop = (
        add_action(actions, "spool", name, purpose, _EXAMPLES)
        for name, purpose in (
            ("list", "show waiting events and events that were set aside"),
            ("export", "write all events as NDJSON"),
            ("drain", "publish all events and exit"),
            ("drop", "delete events for good"),
        )
    )
    for action in (listing, export, drain, drop):
        action.add_argument("folder", type=Path, metavar="DIR", help="a gateway's spool.path")
    for action in (export, drop):
        action.add_argument("--topic", metavar="T", help="only events of this topic")
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


def run_spool(args: argparse.Namespace) -> int:
    """Run the action; return the exit code. Raises ConfigError, CommandError."""
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


def _export(args: argparse.Namespace) -> int:
    import orjson

    from headgate.spool.reading import Reader

    damaged = 0
    with closing(Reader(args.folder)) as reader:
        for topic, partition, at_ms, event in reader.events(args.topic):
            if event is None:
                damaged += 1
                continue
            line = escaped(orjson.dumps(_shown(topic, partition, at_ms, event)).decode())
            sys.stdout.buffer.write(line.encode() + b"\n")
    sys.stdout.flush()
    if damaged:
        _warn(f"damaged and left out: {counted(damaged, 'chunk')}")
    _report_damage(reader, _warn)
    return FAILED if damaged or reader.gaps else OK


def _drop(args: argparse.Namespace) -> int:
    from headgate.spool.journal import Journal

    if not args.yes:
        raise CommandError("these events were answered 202 and will be lost: give --yes", USAGE)
    with closing(Journal(args.folder)) as journal:
        dropped = journal.drop(args.topic, aside_only=args.aside)
    say(f"dropped {counted(dropped, 'event')}")
    return OK


def _drain(args: argparse.Namespace) -> int:
    from headgate.config import load
    from headgate.spool.folders import kept_in
    from headgate.spool.reading import Reader
    from headgate.wiring.spool import drain

    settings = load(args.config, os.environ)
    unpublished = asyncio.run(drain(settings, args.folder, args.timeout, say))
    kept = kept_in(args.folder)
    with closing(Reader(args.folder)) as reader:
        aside = sum(lane.events for lane in reader.aside())
    if unpublished:
        say(f"failed  not published: {counted(unpublished, 'event')}")
    if aside:
        count = counted(aside, "event")
        say(f"aside   cannot be published: {count} (`headgate spool list` says why)")
    for name in kept:
        say(f"kept    {args.folder / name}: a damaged file, and not all of it may be published")
    if unpublished or aside or kept:
        return FAILED
    say("done    the spool is empty")
    return OK


def _shown(topic: str, partition: int, at_ms: int, event: "Packed") -> dict[str, Any]:
    key, value, headers, timestamp_ms = event
    return {
        "topic": topic,
        "partition": partition,
        "spooled_at": _moment(at_ms),
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


def _list(args: argparse.Namespace) -> int:
    from headgate.spool.folders import kept_in
    from headgate.spool.reading import Reader

    kept = [args.folder / name for name in kept_in(args.folder)]
    with closing(Reader(args.folder)) as reader:
        (_show_json if args.json else _show)(reader, kept)
        return FAILED if reader.gaps else OK


def _show(reader: "Reader", kept: Sequence[Path]) -> None:
    """Print the contents for people."""
    lanes, aside = reader.lanes(), reader.aside()
    if lanes:
        _show_lanes(lanes)
    elif not aside and not reader.gaps:
        say("empty: nothing waits, and nothing was set aside")
    for each in aside:
        where = f"{each.topic}-{each.partition}"
        since = _moment(each.oldest_ms)
        say(f"aside   {each.events} of {where}, from {since} on: {each.reason}")
    _report_damage(reader, say)
    for path in kept:
        say(f"kept    {path}: a damaged file; `headgate spool export` shows what can be read of it")


def _show_json(reader: "Reader", kept: Sequence[Path]) -> None:
    """Print the contents for scripts."""
    waiting = [
        {
            "topic": lane.topic,
            "partition": lane.partition,
            "events": lane.events,
            "bytes": lane.bytes,
            "oldest": _moment(lane.oldest_ms),
        }
        for lane in reader.lanes()
    ]
    aside = [
        {
            "topic": lane.topic,
            "partition": lane.partition,
            "events": lane.events,
            "oldest": _moment(lane.oldest_ms),
            "reason": lane.reason,
        }
        for lane in reader.aside()
    ]
    lost = [
        {"topic": topic, "partition": partition, "chunks": chunks}
        for (topic, partition), chunks in sorted(Counter(reader.missing).items())
    ]
    damaged = [gap._asdict() for gap in reader.gaps]
    show_json(
        {
            "waiting": waiting,
            "aside": aside,
            "damaged": damaged,
            "lost": lost,
            "kept": [*map(str, kept)],
        }
    )


def _report_damage(reader: "Reader", write: Callable[[str], None]) -> None:
    """Write a line for each part that cannot be read."""
    for gap in reader.gaps:
        last = "the end" if gap.last is None else f"{gap.last}"
        write(f"damaged {gap.table}: numbers {gap.first} to {last} cannot be read")
    for (topic, partition), chunks in sorted(Counter(reader.missing).items()):
        write(f"lost    {counted(chunks, 'chunk')} (of 1 to 500 events) of {topic}-{partition}")


def _moment(ms: int) -> str:
    """Return a time in RFC 3339, in UTC, with seconds."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _show_lanes(lanes: "Sequence[LaneFigures]") -> None:
    rows = [
        (
            lane.topic,
            str(lane.partition),
            f"{lane.events:,}",
            f"{lane.bytes:,}",
            _moment(lane.oldest_ms),
        )
        for lane in lanes
    ]
    events, size = sum(lane.events for lane in lanes), sum(lane.bytes for lane in lanes)
    show_table(_COLUMNS, [*rows, ("all", "", f"{events:,}", f"{size:,}", "")])
