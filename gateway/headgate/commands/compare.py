"""`headgate compare`: whether two topics say the same, for who runs two producers side by side."""

import argparse
import asyncio
import logging
import os
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from headgate.commands import FAILED, OK, USAGE, CommandError, add_command
from headgate.commands.output import add_json
from headgate.commands.progress import add_quiet
from headgate.errors_in_words import connection_error

if TYPE_CHECKING:
    from headgate.backends.kafka.log_scan import LogRecord, Reach
    from headgate.backends.kafka.options import ClusterOptions
    from headgate.commands import Subparsers
    from headgate.core.side_by_side.contents import ContentRule
    from headgate.core.side_by_side.history import Side, Window
    from headgate.core.terminal.progress import ProgressLine

_EXAMPLES = """  headgate compare orders-old orders --config headgate.toml
  headgate compare orders-old orders --config headgate.toml --from 2h --ignore /sent_at
  headgate compare orders-old orders --bootstrap-servers kafka:9092 --key /id --json
  headgate compare main/orders backfill/orders --config headgate.toml

FIRST is what is written today, SECOND what shall take its place. For each key it compares the
contents in the order of the log: repeats and states that only FIRST has are what suppression and
coalescing save; another end, another order, keys of one topic alone are differences. JSON is
compared by its value, anything else byte by byte. Records of open and aborted transactions do not
count. Timestamps are the records'. It reads both topics and writes nothing; 1,000,000 keys take
about 0.7 GB: --share 0.1 takes a tenth of the keys.

exit codes: 0 no differences, 1 differences, or a topic cannot be read, 2 usage or configuration"""


class _Topic(NamedTuple):
    """Where one topic is."""

    name: str
    cluster: str
    options: "ClusterOptions"


class _Given(NamedTuple):
    """What both topics are read by. share: of the keys, 0 to 1."""

    window: "Window"
    rule: "ContentRule"
    share: float


def register(subparsers: "Subparsers") -> None:
    """Add `compare` to the commands."""
    purpose = "compare the contents of two topics, key by key"
    parser = add_command(subparsers, "compare", purpose, _EXAMPLES)
    parser.add_argument("first", metavar="FIRST", help="a topic, or CLUSTER/TOPIC")
    parser.add_argument("second", metavar="SECOND", help="a topic, or CLUSTER/TOPIC")
    access = parser.add_mutually_exclusive_group(required=True)
    access.add_argument(
        "-c", "--config", type=Path, metavar="F", help="the configuration file, for its clusters"
    )
    access.add_argument(
        "--bootstrap-servers",
        metavar="H:P",
        help="brokers without authentication, instead of a configuration file",
    )
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="TIME",
        help="2h (ago), or ISO 8601; default: the first record",
    )
    parser.add_argument(
        "--to", dest="end", metavar="TIME", default="now", help="as --from; default: now"
    )
    parser.add_argument(
        "--margin", type=float, default=10.0, metavar="S",
        help="do not judge a key that differs and was written within so many seconds of --from or "
        "--to; default: 10",
    )  # fmt: skip
    parser.add_argument(
        "--key", action="append", default=[], metavar="POINTER",
        help="part of the value to use as key instead of the record's key; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--ignore", action="append", default=[], metavar="POINTER",
        help="part of the value to ignore; may be repeated",
    )  # fmt: skip
    parser.add_argument("--bytes", action="store_true", help="compare JSON byte by byte as well")
    parser.add_argument(
        "--share",
        type=float,
        default=1.0,
        metavar="PART",
        help="compare only this part of the keys, such as 0.1",
    )
    add_json(parser)
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Compare, report; return the exit code. Raises ConfigError, CommandError."""
    from headgate.backends.kafka.log_scan import CutShortError
    from headgate.commands.compare_report import compared, show
    from headgate.commands.output import show_json
    from headgate.commands.progress import progress

    # what aiokafka would write to standard error ends the command with a sentence already
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    given = _given(args)
    topics = _topics(args)
    line = progress(is_quiet=args.quiet)
    try:
        sides, has_before = asyncio.run(_read(topics, given, line))
    except CutShortError as error:
        raise CommandError(str(error)) from error
    finally:
        line.end()
    found = compared((args.first, args.second), sides, has_before=has_before)
    if args.json:
        show_json(found.as_json())
    else:
        show(found)
    return FAILED if found.differs else OK


def _given(args: argparse.Namespace) -> _Given:
    from headgate.core.keys import BadPointer
    from headgate.core.side_by_side.contents import ContentRule
    from headgate.core.side_by_side.history import Window
    from headgate.core.times import TimeError, parse_time

    now_ms = time.time_ns() // 1_000_000
    try:
        begin_ms = None if args.begin is None else parse_time("--from", args.begin, now_ms)
        end_ms = parse_time("--to", args.end, now_ms)
    except TimeError as error:
        raise CommandError(str(error), USAGE) from error
    if begin_ms is not None and begin_ms >= end_ms:
        raise CommandError(f"--from {args.begin} is not before --to {args.end}", USAGE)
    if not args.margin >= 0:
        raise CommandError(f"--margin {args.margin:g}: 0 s or more", USAGE)
    if not 0 < args.share <= 1:
        raise CommandError(f"--share {args.share:g}: more than 0, 1 at most", USAGE)
    try:
        rule = ContentRule(args.key, args.ignore, as_sent=args.bytes)
    except BadPointer as error:
        raise CommandError(f"--key or --ignore: {error}", USAGE) from error
    if args.bytes and args.ignore:
        raise CommandError("--ignore leaves out parts of JSON values: not with --bytes", USAGE)
    return _Given(Window(begin_ms, end_ms, int(args.margin * 1000)), rule, args.share)


def _topics(args: argparse.Namespace) -> list[_Topic]:
    from headgate.backends.kafka.configured import cluster_options
    from headgate.backends.kafka.options import ClusterOptions
    from headgate.config import load

    if args.config is None:
        options = ClusterOptions(args.bootstrap_servers)
        return [_Topic(name, "the cluster", options) for name in (args.first, args.second)]
    clusters = load(args.config, os.environ).clusters
    ingest = next(name for name, one in clusters.items() if one.tier == "ingest")
    found: list[_Topic] = []
    for text in (args.first, args.second):
        cluster, slash, name = text.rpartition("/")
        cluster = cluster if slash else ingest
        if cluster not in clusters:
            known = ", ".join(sorted(clusters))
            raise CommandError(f"{text}: no cluster {cluster} in {args.config}: {known}", USAGE)
        found.append(_Topic(name, cluster, cluster_options(clusters[cluster])))
    return found


async def _read(
    topics: list[_Topic], given: _Given, line: "ProgressLine"
) -> tuple[list["Side"], bool]:
    """Both, and whether one has records before the window."""
    from headgate.backends.kafka.log_scan import LogScan
    from headgate.core.side_by_side.history import Side
    from headgate.core.terminal.progress import Step

    scans = [
        LogScan(
            topic.options, topic.name, await _partitions(topic), "headgate-compare",
            begin_ms=given.window.begin_ms, committed=True,
        )
        for topic in topics
    ]  # fmt: skip
    sides = [Side(given.window) for _ in topics]

    def report(topic: _Topic, reach: "Reach") -> None:
        line.show(Step(f"reading {topic.name}", reach.offsets, reach.total, "records"))

    for topic, scan, side in zip(topics, scans, sides, strict=True):
        await scan.run(partial(_see, side, given), partial(report, topic))
    return sides, any(scan.has_before for scan in scans)


async def _partitions(topic: _Topic) -> int:
    """How many it has. Raises CommandError."""
    from headgate.backends.kafka.topic_reader import READ_ERRORS, TopicReader

    reader = TopicReader(topic.cluster, topic.options)
    try:
        async with asyncio.timeout(30):
            states = await reader.read(topic.name.__eq__, {})
    except READ_ERRORS as error:
        servers = topic.options.bootstrap_servers
        text = f"Kafka does not answer at {servers}: {connection_error(error)}"
        raise CommandError(text) from error
    finally:
        await reader.close()
    if topic.name not in states:
        raise CommandError(f"there is no topic {topic.name} on {topic.cluster}, or it is hidden")
    return states[topic.name].partitions


def _see(side: "Side", given: _Given, record: "LogRecord") -> None:
    from headgate.core.side_by_side.history import part_of

    if not given.window.has(record.timestamp):
        return
    seen = given.rule.see(record.key, record.value, record.headers)
    if given.share < 1 and part_of(seen.key if seen.key is not None else b"") >= given.share:
        return
    side.see(seen.key, seen.content, len(record.value or b""), record.partition, record.timestamp)
    if seen.is_reference:
        side.refers(seen.key)
