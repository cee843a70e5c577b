"""`headgate groups`, `pause`, `resume` and `log`: consumer groups and the installation log."""

import argparse
import sys
from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from headgate.commands.api_client import add_gateway, ask
from headgate.commands.command_line import OK, USAGE, CommandError, add_command
from headgate.commands.output import add_formats, is_table, show_facts, show_json, show_table
from headgate.commands.terminal import Cell, Column, Ink
from headgate.model.text import closest, counted, one_line, path_segment
from headgate.top.readings import GROUP_COLUMNS, cluster_notes, group_cells

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers

_CLIENT = """A client of the gateway's control plane: --url (or HEADGATE_URL), --token-file (or
HEADGATE_TOKEN). It prints a table on a terminal, elsewhere the JSON that the API answers."""
_EXIT_CODES = "exit codes: 0 done, 1 refused or failed, 2 usage"
_GROUPS_HELP = f"""  headgate groups                        all consumer groups, worst first
  headgate groups --topic orders         only those of a topic
  headgate groups billing                one group: its diagnosis, causes, next steps, partitions

{_CLIENT}
The role is `view`. The gateway asks `headgate monitor`, which must run.

{_EXIT_CODES}"""
_PAUSE_HELP = f"""  headgate pause billing --reason deploy
  headgate pause billing --reason INC-17 --topic orders --partition 3
  headgate resume billing --reason deploy

{_CLIENT}
The role is `operate`. Members need `headgate.consumer` with a pause store; those that do not
obey are reported on stderr. A group reads again once every reason is
removed: resume with the same reason, topic and partition.

`pause` asks the monitor whether the group exists, and refuses an unknown name. --force pauses a
group before its first member appears. Without an answer of the monitor every name is taken.

{_EXIT_CODES}"""
_LOG_HELP = f"""  headgate log                           the newest entries of the installation log
  headgate log --kind reloaded,changed --limit 20
  headgate log --since 2026-01-31T12:00:00Z --json

{_CLIENT} The role is `view`.

{_EXIT_CODES}"""
# Answers without a page of groups: not allowed, no such group, no monitor.
_UNCHECKED = (HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE)
_PAGE = 1000  # rows of a request
_LOG_COLUMNS = (Column("at"), Column("level"), Column("kind"), Column("subject"), Column("text"))
_LEVEL_INKS = {"error": Ink.BAD, "warning": Ink.WARNING}
_PARTITION_COLUMNS = (
    Column("cluster"), Column("topic"), Column("partition", right=True), Column("state"),
    Column("committed", right=True), Column("end", right=True), Column("lag", right=True),
    Column("owner"),
)  # fmt: skip


def register_groups(subparsers: "Subparsers") -> None:
    """Add `groups` to the commands."""
    parser = add_command(
        subparsers, "groups", "show the consumer groups of a gateway", _GROUPS_HELP
    )
    parser.add_argument("group", nargs="?", metavar="GROUP", help="only this group, with details")
    parser.add_argument("--topic", metavar="T", help="only the groups of this topic")
    _add_client(parser)


def register_pause(subparsers: "Subparsers") -> None:
    """Add `pause` to the commands."""
    parser = add_command(subparsers, "pause", "pause a consumer group, for a reason", _PAUSE_HELP)
    parser.add_argument("--force", action="store_true", help="pause an unknown group as well")
    _add_pause(parser)


def register_resume(subparsers: "Subparsers") -> None:
    """Add `resume` to the commands."""
    purpose = "remove a reason for which a consumer group is paused"
    _add_pause(add_command(subparsers, "resume", purpose, _PAUSE_HELP))


def register_log(subparsers: "Subparsers") -> None:
    """Add `log` to the commands."""
    parser = add_command(subparsers, "log", "show the installation log of a gateway", _LOG_HELP)
    parser.add_argument("--kind", metavar="K,K", help="only these kinds")
    parser.add_argument(
        "--since", metavar="WHEN", help="only since this time, ISO 8601 with a zone"
    )
    parser.add_argument("--limit", metavar="N", help="at most so many, newest first; default: 100")
    _add_client(parser)


def _add_pause(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="the consumer group")
    parser.add_argument("--reason", required=True, metavar="TEXT", help="the reason, for people")
    parser.add_argument("--topic", metavar="T", help="only this topic; default: all")
    parser.add_argument("--partition", type=int, metavar="N", help="only this partition of --topic")
    _add_client(parser)


def _add_client(parser: argparse.ArgumentParser) -> None:
    add_gateway(parser)
    add_formats(parser)


def run_groups(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    if args.group is not None:
        page = ask(args, "GET", f"/v1/groups/{path_segment(args.group)}")
        (_show_group if is_table(args) else show_json)(page)
        return OK
    page = _every_group(args)
    if not is_table(args):
        show_json(page)
        return OK
    show_table(GROUP_COLUMNS, [group_cells(group) for group in page["groups"]])
    show_facts(("note", note) for note in cluster_notes(page))
    return OK


def _every_group(args: argparse.Namespace) -> dict[str, Any]:
    """Return the page of all groups; the API answers at most 1,000 at a time."""
    query = {"limit": str(_PAGE)} | ({} if args.topic is None else {"topic": args.topic})
    page: dict[str, Any] = ask(args, "GET", f"/v1/groups?{urlencode(query)}")
    following = page
    while following.get("next") is not None:
        after = query | {"after": following["next"]}
        following = ask(args, "GET", f"/v1/groups?{urlencode(after)}")
        page["groups"] += following["groups"]
    return page | {"next": None}


def _show_group(page: dict[str, Any]) -> None:
    diagnoses = [group["diagnosis"] for group in page["on"] if "diagnosis" in group]
    show_facts(("diagnosis", each["sentence"]) for each in diagnoses)
    show_facts(("cause", cause) for each in diagnoses for cause in each["causes"])
    show_facts(("next", step) for each in diagnoses for step in each["next"])
    show_table(GROUP_COLUMNS, [group_cells(group) for group in page["on"]])
    show_table(_PARTITION_COLUMNS, list(_partitions(page)))
    show_facts(("hint", hint) for group in page["on"] for hint in group["hints"])
    show_facts(
        ("paused", f"{pause['scope']}: {pause['reason']} (by {pause['by']}, {pause['at']})")
        for pause in page["on"][0]["pauses"] or ()
    )


def _partitions(page: dict[str, Any]) -> Iterator[list[str | Cell]]:
    for group in page["on"]:
        for row in group["partitions"]:
            committed = "-" if row["committed"] is None else f"{row['committed']:,}"
            figures = [committed, f"{row['end']:,}", f"{row['lag']:,}"]
            place = [group["cluster"], row["topic"], str(row["partition"]), row["state"]]
            yield [*place, *figures, row["owner"] or "-"]


def run_pause(args: argparse.Namespace) -> int:
    """Pause, print the reasons; return the exit code. Raises CommandError."""
    if not args.force:
        for group in _known_group(args):
            if deaf := group.get("deaf_members"):
                sys.stderr.write(f"headgate: {_deaf(deaf, group['members'])}\n")
    return _change(args, "PUT")


def _deaf(deaf: int, members: int) -> str:
    return (
        f"{deaf} of {counted(members, 'member')} will go on reading: they do not use Headgate's "
        "consumer library with a pause store"
    )


def _known_group(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the group on each cluster; raise CommandError if the monitor knows no such group.

    A pause must work without a monitor, and for callers that may not read groups.
    """
    path = f"/v1/groups/{path_segment(args.group)}"
    group = ask(args, "GET", path, also=_UNCHECKED)
    if group.get("status") != HTTPStatus.NOT_FOUND:
        on: list[dict[str, Any]] = group.get("on", [])
        return on
    page = ask(args, "GET", f"/v1/groups?limit={_PAGE}", also=_UNCHECKED)
    hint = closest(args.group, (group["group"] for group in page.get("groups", ())))
    raise CommandError(
        f'no consumer group "{one_line(args.group)}" is known to the monitor. '
        f"{hint or 'See `headgate groups`.'} To pause it before its first member appears, add "
        "--force"
    )


def run_resume(args: argparse.Namespace) -> int:
    """Resume, print the remaining reasons; return the exit code. Raises CommandError."""
    return _change(args, "DELETE")


def _change(args: argparse.Namespace, method: str) -> int:
    if args.partition is not None and args.topic is None:
        raise CommandError("--partition needs --topic", USAGE)
    scope: Any = "all"
    if args.topic is not None:
        scope = {"topic": args.topic}
        if args.partition is not None:
            scope["partition"] = args.partition
    body = {"scope": scope, "reason": args.reason}
    options = {"scope": "--topic", "reason": "--reason"}
    path = f"/v1/pauses/{path_segment(args.group)}"
    page = ask(args, method, path, body, options=options)
    if is_table(args):
        rows = [_pause_cells(pause) for pause in page["intents"]]
        show_table([Column(name) for name in ("scope", "reason", "by", "at")], rows)
    else:
        show_json(page)
    return OK


def _pause_cells(pause: dict[str, Any]) -> list[str | Cell]:
    scope = pause["scope"]
    if isinstance(scope, dict):
        partition = scope.get("partition")
        scope = scope["topic"] if partition is None else f"{scope['topic']}-{partition}"
    return [scope, pause["reason"], pause["by"] or "-", pause["at"]]


def run_log(args: argparse.Namespace) -> int:
    """Ask, print the entries; return the exit code. Raises CommandError."""
    chosen = {"kind": args.kind, "since": args.since, "limit": args.limit}
    query = urlencode({name: value for name, value in chosen.items() if value is not None})
    page = ask(args, "GET", f"/v1/log?{query}")
    if is_table(args):
        show_table(_LOG_COLUMNS, [_log_cells(entry) for entry in page["entries"]])
    else:
        show_json(page)
    return OK


def _log_cells(entry: dict[str, Any]) -> list[str | Cell]:
    level = Cell(entry["level"], _LEVEL_INKS.get(entry["level"], Ink.PLAIN))
    return [entry["at"], level, entry["kind"], entry["subject"], entry["text"]]
