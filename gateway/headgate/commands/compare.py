"""`headgate compare`: compare two topics, to run two producers side by side."""

import argparse
import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from headgate.commands.command_line import (
    CONFIG_DEFAULT,
    FAILED,
    OK,
    USAGE,
    CommandError,
    Subparsers,
    add_command,
    add_config_option,
)
from headgate.commands.output import (
    add_json,
    add_quiet,
    painted,
    progress,
    say,
    show_json,
    show_table,
    write,
)
from headgate.commands.side_by_side import (
    ContentRule,
    Finding,
    Found,
    Side,
    Window,
    findings,
    keyless_only,
    part_of,
)
from headgate.commands.terminal import Cell, Column, Ink, ProgressLine, Step, short
from headgate.config import load
from headgate.errors_in_words import connection_error
from headgate.model.keys import BadPointer
from headgate.model.times import TimeError, parse_time, shown_time

if TYPE_CHECKING:  # slow to import
    from headgate.kafka.logs import LogRecord, Reach
    from headgate.kafka.options import ClusterOptions


_EXAMPLES = """  headgate compare orders-old orders --config headgate.toml
  headgate compare orders-old orders --config headgate.toml --from 2h --ignore /sent_at
  headgate compare orders-old orders --bootstrap-servers kafka:9092 --key /id --json
  headgate compare main/orders backfill/orders --config headgate.toml

FIRST is the topic that is in use, SECOND the topic that will replace it. The command compares the
values of each key in the order of the log. Repeats and states that only FIRST has are savings of
suppression and coalescing. These are differences: another last value, another order, and keys that
only one topic has. JSON is compared by its value, anything else byte by byte. Records of open and
aborted transactions do not count. --from and --to compare the timestamps of the records. The
command writes nothing. 1,000,000 keys take about 0.7 GB: --share 0.1 compares a tenth of the keys.

exit codes: 0 no differences, 1 differences, or a topic cannot be read, 2 usage or configuration"""


_APART_MS = 60_000  # beginnings that are further apart may explain missing keys


class _Topic(NamedTuple):
    """A topic, and the options of its cluster."""

    name: str
    cluster: str
    options: "ClusterOptions"


class _Selection(NamedTuple):
    """The parts of both topics that are compared; `share` of the keys is 0 to 1."""

    window: Window
    rule: ContentRule
    share: float


def register_compare(subparsers: Subparsers) -> None:
    """Add `compare` to the commands."""
    purpose = "compare the contents of two topics, key by key"
    parser = add_command(subparsers, "compare", purpose, _EXAMPLES)
    parser.add_argument("first", metavar="FIRST", help="a topic, or CLUSTER/TOPIC")
    parser.add_argument("second", metavar="SECOND", help="a topic, or CLUSTER/TOPIC")
    access = parser.add_mutually_exclusive_group()
    purpose = f"the configuration file, for its clusters; default: {CONFIG_DEFAULT}"
    add_config_option(access, purpose)
    parser.set_defaults(finds_config=True)
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
        "--margin",
        type=float,
        default=10.0,
        metavar="S",
        help="do not judge a key that differs and was written within so many seconds of --from or "
        "--to; default: 10",
    )
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="POINTER",
        help="part of the value to use as key instead of the record's key; may be repeated",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="POINTER",
        help="part of the value to ignore; may be repeated",
    )
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


def run_compare(args: argparse.Namespace) -> int:
    """Compare, report; return the exit code. Raises ConfigError, CommandError."""
    from headgate.kafka.logs import CutShortError

    selection = _selection(args)
    topics = _topics(args)
    line = progress(is_quiet=args.quiet)
    try:
        sides, has_before = asyncio.run(_read(topics, selection, line))
    except CutShortError as error:
        raise CommandError(str(error)) from error
    finally:
        line.end()
    comparison = compared((args.first, args.second), sides, has_before=has_before)
    if args.json:
        show_json(comparison.as_json())
    else:
        show(comparison)
    return FAILED if comparison.differs else OK


def _selection(args: argparse.Namespace) -> _Selection:
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
    return _Selection(Window(begin_ms, end_ms, int(args.margin * 1000)), rule, args.share)


def _topics(args: argparse.Namespace) -> list[_Topic]:
    from headgate.kafka.options import ClusterOptions, cluster_options

    if args.bootstrap_servers is not None:
        options = ClusterOptions(args.bootstrap_servers)
        return [_Topic(name, "the cluster", options) for name in (args.first, args.second)]
    clusters = load(args.config, os.environ).clusters
    ingest = next(name for name, each in clusters.items() if each.tier == "ingest")
    topics: list[_Topic] = []
    for text in (args.first, args.second):
        cluster, slash, name = text.rpartition("/")
        cluster = cluster if slash else ingest
        if cluster not in clusters:
            names = ", ".join(sorted(clusters))
            raise CommandError(f"{text}: no cluster {cluster} in {args.config}: {names}", USAGE)
        topics.append(_Topic(name, cluster, cluster_options(clusters[cluster])))
    return topics


async def _read(
    topics: list[_Topic], selection: _Selection, line: ProgressLine
) -> tuple[list[Side], bool]:
    """Read both topics; return also whether one has records before the window."""
    from headgate.kafka.logs import LogScan

    scans = [
        LogScan(
            topic.options,
            topic.name,
            await _partitions(topic),
            "headgate-compare",
            begin_ms=selection.window.begin_ms,
            committed=True,
        )
        for topic in topics
    ]
    sides = [Side(selection.window) for _ in topics]

    def report(topic: _Topic, reach: "Reach") -> None:
        line.show(Step(f"reading {topic.name}", reach.offsets, reach.total, "records"))

    for topic, scan, side in zip(topics, scans, sides, strict=True):
        await scan.run(partial(_see, side, selection), partial(report, topic))
    return sides, any(scan.has_before for scan in scans)


async def _partitions(topic: _Topic) -> int:
    """Return the number of a topic's partitions. Raises CommandError."""
    from headgate.kafka.topics import READ_ERRORS, TopicReader

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


def _see(side: Side, selection: _Selection, record: "LogRecord") -> None:
    if not selection.window.has(record.timestamp):
        return
    seen = selection.rule.see(record.key, record.value, record.headers)
    key = b"" if seen.key is None else seen.key
    if selection.share < 1 and part_of(key) >= selection.share:
        return
    side.see(seen.key, seen.content, len(record.value or b""), record.partition, record.timestamp)
    if seen.is_reference:
        side.refers(seen.key)


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison; `keyless` counts records without a key that only one of the topics has."""

    names: tuple[str, str]
    sides: Sequence[Side]
    findings: Mapping[Finding, Found]
    keyless: tuple[int, int]

    @property
    def differs(self) -> bool:
        """Return whether consumers would receive different contents."""
        return any(self.keyless) or any(finding.is_difference for finding in self.findings)

    @property
    def later(self) -> int | None:
        """Return the later beginning of the two, in ms, if they are a minute or more apart."""
        firsts = [side.first_ms for side in self.sides if side.first_ms is not None]
        apart = len(firsts) == 2 and max(firsts) - min(firsts) >= _APART_MS
        return max(firsts) if apart else None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison for scripts; bytes of keys that are not UTF-8 become \\xNN."""
        return {
            "topics": [
                {"topic": name, **{field: value for field, _, value in _figures(side)}}
                for name, side in zip(self.names, self.sides, strict=True)
            ],
            "keys": [
                {
                    "finding": finding.value,
                    "count": keys.keys,
                    "difference": finding.is_difference,
                    "judged": finding.is_judged,
                    "examples": [*map(_shown, keys.examples)],
                }
                for finding, keys in self.findings.items()
            ],
            "keyless_in_one_alone": [*self.keyless],
            "differs": self.differs,
        }


def compared(names: tuple[str, str], sides: Sequence[Side], *, has_before: bool) -> Compared:
    """Compare two topics.

    Args:
        names: The names of the topics.
        sides: Their records.
        has_before: Whether a topic has records before the ones that were read.
    """
    first, second = sides
    by_kind = findings(first, second, has_before=has_before)
    return Compared(names, sides, by_kind, keyless_only(first, second))


def show(comparison: Compared) -> None:
    """Print a comparison for people."""
    first, second = (_figures(side) for side in comparison.sides)
    columns = [Column(""), *(Column(name, right=True) for name in comparison.names)]
    rows = zip(first, second, strict=True)
    show_table(columns, ([title, _text(a), _text(b)] for (_, title, a), (_, _, b) in rows))
    say("")
    titles = (Column("keys"), Column("count", right=True), Column("for example"))
    show_table(titles, _finding_rows(comparison.findings.items()))
    if any(comparison.keyless):
        first_only, second_only = comparison.keyless
        say("")
        say(f"without a key: {first_only} only in the first, {second_only} only in the second")
    if comparison.later is not None and comparison.differs:
        say("")
        say(f"One topic begins later: --from {_time(comparison.later)} compares from there on.")
    write(f"\n{_verdict(comparison)}")


def _figures(side: Side) -> Iterator[tuple[str, str, int | str | None]]:
    """Yield field, title and value of each figure."""
    yield "records", "records", side.records
    yield "value_bytes", "value bytes", side.value_bytes
    yield "keys", "keys", len(side.keys)
    yield "repeats", "repeats of a content", side.repeats
    yield "tombstones", "tombstones", side.tombstones
    yield "keyless", "without a key", side.keyless.total()
    yield "first", "first record", _time(side.first_ms)
    yield "last", "last record", _time(side.last_ms)


def _finding_rows(findings: Iterable[tuple[Finding, Found]]) -> Iterator[list[str | Cell]]:
    for finding, (keys, examples) in findings:
        ink = Ink.BAD if finding.is_difference else Ink.GOOD if finding.is_judged else Ink.WARNING
        mark = "" if finding.is_judged else " (not judged)"
        named = ", ".join(map(_shown, examples)) if ink is not Ink.GOOD else ""
        yield [Cell(f"{finding.value}{mark}", ink), short(keys), named]


def _verdict(comparison: Compared) -> str:
    if comparison.differs:
        return painted("They differ.", Ink.BAD)
    records = [side.records for side in comparison.sides]
    saved = f", with {records[1]} records instead of {records[0]}" if records[0] else ""
    is_judged = any(finding.is_judged for finding in comparison.findings)
    if not is_judged and not any(side.keyless for side in comparison.sides):
        return painted("Nothing could be judged.", Ink.WARNING)
    return painted(f"No differences: a consumer learns the same{saved}.", Ink.GOOD)


def _text(value: int | str | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else value


def _shown(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _time(ms: int | None) -> str | None:
    return None if ms is None else shown_time(ms)
