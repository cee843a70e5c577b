"""`headgate replay` and `headgate offsets`: replays, and positions on the other tier."""

import argparse
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from headgate.commands.api_client import add_gateway, ask, read_argument
from headgate.commands.command_line import (
    FAILED,
    OK,
    USAGE,
    CommandError,
    add_action,
    add_command,
)
from headgate.commands.output import (
    add_formats,
    add_quiet,
    is_table,
    progress,
    show_facts,
    show_json,
    show_table,
)
from headgate.commands.terminal import Amount, Cell, Column, Ink, Step, duration, share, short

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers


_REPLAY_HELP = """  headgate replay create --topic orders --from 2h --producer checkout --wait
  headgate replay create --topic orders --from 2h --to now --dry-run
  headgate replay create --topic orders --from 2026-01-31T12:00:00Z --mode seek
  headgate replay create --topic orders --from '{"snapshot": "r17"}' --mode group --group billing
  headgate replay create --topic orders --from 7d --filter '{"equals": {"/status": "paid"}}'
  headgate replay list --state copying
  headgate replay show ID
  headgate replay pause ID
  headgate replay resume ID
  headgate replay cancel ID

A client of the gateway's control plane: --url (or HEADGATE_URL), --token-file (or HEADGATE_TOKEN).
It prints a table on a terminal, elsewhere the JSON that the API answers. Consumers of the result
need isolation.level=read_committed.

exit codes: 0 done, 1 refused or failed, 2 usage"""

# The options of the command line by the API's fields.
_REPLAY_OPTIONS = {
    "name": "--name", "topic": "--topic", "partitions": "--partitions", "from": "--from",
    "to": "--to", "filter": "--filter", "filter.producers": "--producer", "filter.keys": "--key",
    "deliver.mode": "--mode", "deliver.group": "--group", "deliver.ttl_s": "--ttl",
    "rate.bytes_per_s": "--bytes-per-s", "rate.records_per_s": "--records-per-s",
}  # fmt: skip
_POLL_S = 1.0
_UNFINISHED = ("pending", "planned", "copying")
_COLUMNS = (
    Column("id"), Column("state"), Column("topic"), Column("mode"), Column("done", right=True),
    Column("records", right=True), Column("by"), Column("created"), Column("name"),
)  # fmt: skip
_INKS = {
    "ready": Ink.GOOD,
    "completed": Ink.GOOD,
    "failed": Ink.BAD,
    "cancelled": Ink.FAINT,
    "expired": Ink.FAINT,
}
_FIELDS = ("id", "name", "state", "control", "reason", "topic", "from", "to", "filter", "by",
         "created_at", "changed_at", "expires_at")  # fmt: skip
_OFFSETS_HELP = """  headgate offsets translate --topic orders 0:1729
  headgate offsets translate --topic orders 0:5,9,17 3:0
  headgate offsets translate --topic orders --to ingest 0:1801

PARTITION:OFFSET[,OFFSET...], as many as you like. A client of the gateway's control plane: --url
(or HEADGATE_URL), --token-file (or HEADGATE_TOKEN). It prints JSON, on a terminal a table.

An offset that is not mirrored yet, or no longer, is `out_of_range`.

exit codes: 0 done, 1 refused or failed, 2 usage"""
_OFFSETS_OPTIONS = {"topic": "--topic", "to": "--to", "offsets": "PARTITION:OFFSETS"}


def register_replay(subparsers: "Subparsers") -> None:
    """Add `replay` to the commands."""
    parser = add_command(
        subparsers, "replay", "create and manage replays from the backfill tier", _REPLAY_HELP
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = add_action(actions, "replay", "create", "create a replay", _REPLAY_HELP)
    _add_create(create)
    add_quiet(create)
    listed = add_action(actions, "replay", "list", "list replays", _REPLAY_HELP)
    listed.add_argument("--topic", metavar="T", help="only those of this topic")
    listed.add_argument("--state", metavar="S", help="only those in this state")
    parsers = [create, listed]
    for name, purpose in {
        "show": "show one replay",
        "cancel": "cancel a replay for good",
        "pause": "pause copying",
        "resume": "resume copying",
    }.items():
        action = add_action(actions, "replay", name, purpose, _REPLAY_HELP)
        action.add_argument("id", metavar="ID", help="the replay's id")
        parsers.append(action)
    for action in parsers:
        add_gateway(action)
        add_formats(action)


def _add_create(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", required=True, metavar="T", help="the topic to replay")
    add(
        "--from",
        dest="start",
        required=True,
        metavar="WHEN",
        help="2h (ago), ISO 8601 with a zone, ms since 1970, or the API's JSON",
    )
    add("--to", dest="end", metavar="WHEN", help="the same, or now; default: now")
    add("--name", metavar="NAME", help="name for people; default: the topic and --from")
    add("--partitions", metavar="N,N", help="only these; default: all")
    add(
        "--producer",
        action="append",
        default=[],
        metavar="P",
        help="only its events; may be repeated",
    )
    add(
        "--key",
        action="append",
        default=[],
        metavar="K",
        help="only events with this key; may be repeated",
    )
    add("--filter", metavar="JSON", help="more conditions, as JSON or @FILE")
    add("--mode", choices=("seek", "topic", "group"), default="topic", help="default: topic")
    add("--group", metavar="G", help="with --mode group: the group whose offsets are set")
    add("--ttl", type=int, metavar="S", help="keep the result for this many seconds")
    add("--bytes-per-s", type=int, metavar="N", help="copy at most this many bytes per second")
    add("--records-per-s", type=int, metavar="N", help="copy at most this many records per second")
    add(
        "--allow-cold",
        action="store_true",
        help="read records that are not mirrored from the ingest tier",
    )
    add("--dry-run", action="store_true", help="only print the plan")
    add(
        "--idempotency-key",
        metavar="K",
        help="a repeated request gets the replay that the first one made",
    )
    add("--wait", action="store_true", help="wait until the replay is ready or has ended")


def run_replay(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    if args.action == "create":
        return _create(args)
    if args.action == "list":
        chosen = {"topic": args.topic, "state": args.state}
        query = urlencode({name: value for name, value in chosen.items() if value is not None})
        page = ask(args, "GET", f"/v1/replays?{query}")
        (show_replays if is_table(args) else show_json)(page)
        return OK
    path = f"/v1/replays/{quote(args.id, safe='')}"
    if args.action == "show":
        page = ask(args, "GET", path)
    elif args.action == "cancel":
        page = ask(args, "DELETE", path)
    else:
        page = ask(args, "POST", f"{path}/{args.action}")
    _show_replay(args, page)
    return OK


def _create(args: argparse.Namespace) -> int:
    key = args.idempotency_key
    headers = {} if key is None else {"Idempotency-Key": key}
    page = ask(args, "POST", "/v1/replays", _body(args), headers, _REPLAY_OPTIONS)
    if args.wait and page.get("state") in _UNFINISHED:
        page = _waited_for(args, page)
    _show_replay(args, page)
    return FAILED if page.get("state") in ("failed", "cancelled") else OK


def _waited_for(args: argparse.Namespace, page: dict[str, Any]) -> dict[str, Any]:
    line = progress(is_quiet=args.quiet)
    try:
        while True:
            line.show(replay_step(page))
            if page.get("state") not in _UNFINISHED:
                return page
            time.sleep(_POLL_S)
            page = ask(args, "GET", f"/v1/replays/{page['id']}")
    except KeyboardInterrupt:
        replay_id = page["id"]
        raise CommandError(
            f"stopped waiting: replay {replay_id} goes on (`headgate replay show {replay_id}`,"
            " or `cancel`)"
        ) from None
    finally:
        line.end()


def _show_replay(args: argparse.Namespace, page: dict[str, Any]) -> None:
    (show_replay if is_table(args) else show_json)(page)


def _body(args: argparse.Namespace) -> dict[str, Any]:
    deliver = {"mode": args.mode, "group": args.group, "ttl_s": args.ttl}
    rate = {"bytes_per_s": args.bytes_per_s, "records_per_s": args.records_per_s}
    only = {} if args.filter is None else read_argument("--filter", args.filter)
    if not isinstance(only, dict):
        raise CommandError("--filter: expected a JSON object", USAGE)
    only |= _given({"producers": args.producer or None, "keys": args.key or None})
    body = {
        "name": args.name or f"{args.topic} from {args.start}",
        "topic": args.topic,
        "from": _bound("--from", args.start),
        "deliver": _given(deliver),
        "to": None if args.end is None else _bound("--to", args.end),
        "partitions": _numbers(args.partitions),
        "filter": _given(only) or None,
        "rate": _given(rate) or None,
        "allow_cold": args.allow_cold or None,
        "dry_run": args.dry_run or None,
    }
    return _given(body)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _bound(option: str, text: str) -> Any:
    from headgate.replays.spec import FieldError, read_time

    if text.startswith(("{", "@")):
        return read_argument(option, text)
    if text == "now":
        return {"relative": "now"}
    if re.fullmatch(r"-?\d+(ms|s|m|h|d)", text):
        return {"relative": f"-{text.removeprefix('-')}"}
    time_ms = int(text) if text.isdecimal() else text
    try:
        read_time("timestamp", time_ms)
    except FieldError as error:
        raise CommandError(
            f"{option} {text}: expected 2h (ago), now, ISO 8601 with a zone "
            "(2026-01-31T12:00:00Z), ms since 1970, or the API's JSON",
            USAGE,
        ) from error
    return {"timestamp": time_ms}


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(number) for number in text.split(",")]
    except ValueError as error:
        raise CommandError(
            f"--partitions {text}: expected numbers separated by commas", USAGE
        ) from error


def show_replays(page: dict[str, Any]) -> None:
    """Print the list, and the clusters that could not be asked."""
    show_table(_COLUMNS, [_row(replay) for replay in page["replays"]])
    for cluster in page["unavailable"]:
        text = ", ".join(f"{name} {value}" for name, value in cluster.items())
        show_facts([("not asked", text)])


def show_replay(page: dict[str, Any]) -> None:
    """Print one replay, or the plan of a dry run."""
    show_facts(_facts(page))


def replay_step(page: dict[str, Any]) -> Step:
    """Return the progress: the part of the plan that has been read."""
    what, done = f"{page['id']} {page['state']}", page["done"]
    total, also = page["planned"]["records"], (Amount(done["bytes"], "B"),)
    return Step(what, done["read"], total, "records", f"{short(done['records'])} taken", also)


def _row(page: dict[str, Any]) -> list[str | Cell]:
    state = page["state"]
    is_paused = page["control"] == "pause" and _INKS.get(state) is None
    return [
        page["id"],
        Cell("paused" if is_paused else state, _INKS.get(state, Ink.PLAIN)),
        page["topic"],
        _mode(page),
        share(replay_step(page).part),
        short(page["done"]["records"]),
        page["by"] or "-",
        page["created_at"] or "-",
        page["name"],
    ]


def _facts(page: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _FIELDS:
        if (value := page.get(name)) is not None:
            yield name.replace("_", " "), _text(value)
    yield "deliver", _text(page.get("deliver", {}))
    planned = page["planned"]
    size = short(planned["bytes"], "B")
    covered = "covered" if planned["covered"] else "not covered by the backfill tier"
    records = f"{short(planned['records'])} records, {size}, {covered}"
    yield "planned", f"{records}, about {duration(planned['seconds'])} to copy"
    if (done := page.get("done")) is not None:
        percent = share(replay_step(page).part)
        yield "done", f"{percent}: {short(done['records'])} records, {short(done['bytes'], 'B')}"
    if (result := page.get("result")) is not None:
        yield "result", f"topic {result['topic']} at {result['bootstrap_servers']}"
        for partition, position in result["offsets"].items():
            yield f"partition {partition}", _text(position)


def _mode(page: dict[str, Any]) -> str:
    return str(page.get("deliver", {}).get("mode", "topic"))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return str(value)


def register_offsets(subparsers: "Subparsers") -> None:
    """Add `offsets` to the commands."""
    parser = add_command(
        subparsers, "offsets", "find a record's position on the other tier", _OFFSETS_HELP
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    action = add_command(
        actions,
        "translate",
        "translate offsets of one tier into offsets of the other",
        _OFFSETS_HELP,
    )
    action.add_argument("--topic", required=True, metavar="T", help="the topic")
    action.add_argument(
        "--to",
        choices=("backfill", "ingest"),
        default="backfill",
        help="the tier of the resulting offsets; default: backfill",
    )
    action.add_argument(
        "positions", nargs="+", metavar="PARTITION:OFFSETS", help="such as 0:1729, or 0:5,9,17"
    )
    add_gateway(action)
    add_formats(action)


def run_offsets(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    offsets: dict[str, list[int]] = {}
    for position in args.positions:
        partition, _, numbers = position.partition(":")
        try:
            given = [int(number) for number in numbers.split(",")]
            offsets.setdefault(str(int(partition)), []).extend(given)
        except ValueError as error:
            raise CommandError(
                f"{position}: expected PARTITION:OFFSET[,OFFSET...]", USAGE
            ) from error
    body = {"topic": args.topic, "to": args.to, "offsets": offsets}
    page = ask(args, "POST", "/v1/offsets/translate", body, options=_OFFSETS_OPTIONS)
    (_show_offsets if is_table(args) else show_json)(page)
    return OK


def _show_offsets(page: dict[str, Any]) -> None:
    inks = {"exact": Ink.GOOD, "next": Ink.WARNING, "out_of_range": Ink.BAD}
    titles = ("partition", "given", "offset", "result")
    columns = [Column(title, right=title != "result") for title in titles]
    rows = [
        [
            partition,
            str(each["source"]),
            "-" if each["offset"] is None else str(each["offset"]),
            Cell(each["result"] + ", deleted" * bool(each.get("deleted")), inks[each["result"]]),
        ]
        for partition, translated in page["offsets"].items()
        for each in translated
    ]
    show_table(columns, rows)
