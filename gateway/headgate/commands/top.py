"""`headgate top`: producers, topics and groups of a gateway, live in the terminal."""

import argparse
import sys
import time
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from headgate.commands.api_client import add_gateway, ask, check_gateway
from headgate.commands.command_line import OK, USAGE, CommandError, Subparsers, add_command
from headgate.commands.output import add_once, show_json, show_table, style
from headgate.top.readings import (
    GroupsPage,
    Health,
    Listed,
    OddPageError,
    ProducersPage,
    Reading,
    TopicsPage,
    View,
    checked,
    groups_read,
    producers_read,
    topics_read,
)
from headgate.top.session import NoAnswerError, Options, run_live
from headgate.top.views import SORTS, Sort, json_rows, listing

_EXAMPLES = """  headgate top                                      live; the last line has the keys
  headgate top --view groups --interval 5           lag of all consumer groups
  headgate top --url http://gateway-1:9090 --token-file viewer.token
  headgate top --once --view topics --sort bytes    one table, measured for one interval
  headgate top --json | jq .rows                    the same for machines

keys: p producers, t topics, g groups; sort by r rate, b bytes, x rejects, u unchanged, n name,
w the monitor's order of groups; arrows or j and k, space and page up to scroll; q quits

Rates cover the last polls, up to 10 s. The command asks only the gateway at --url. The token needs
the role `view`. Groups need a running `headgate monitor`. If the gateway does not answer, the
screen shows that and polls continue. If the output is not a terminal, the command prints one table.

signals: TERM and INT end it
exit codes: 0 ended (or printed once), 1 failed, 2 usage"""

_MIN_INTERVAL_S = 1.0
_ANSWER_S = 10.0
_PAGE, _MAX_PAGES = "limit=1000", 100  # more rows are no table for people


def register_top(subparsers: Subparsers) -> None:
    """Add `top` to the commands."""
    purpose = "show a gateway's producers, topics and groups, live in the terminal"
    parser = add_command(subparsers, "top", purpose, _EXAMPLES)
    parser.add_argument(
        "--view", choices=list(map(str, View)), default="producers", help="default: producers"
    )
    parser.add_argument(
        "--sort",
        choices=list(map(str, Sort)),
        help="default: rate; for groups worst, the monitor's order",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=2.0,
        metavar="S",
        help="seconds between two polls; at least 1, default: 2",
    )
    add_once(parser)
    add_gateway(parser)


def run_top(args: argparse.Namespace) -> int:
    """Show until the user quits; return the exit code. Raises CommandError."""
    if not args.interval >= _MIN_INTERVAL_S:  # also nan
        raise CommandError(f"--interval {args.interval:g}: at least {_MIN_INTERVAL_S:g}", USAGE)
    view = View(args.view)
    sort = SORTS[view][0] if args.sort is None else Sort(args.sort)
    if sort not in SORTS[view]:
        raise CommandError(f"--sort {sort}: {view} are sorted by {', '.join(SORTS[view])}", USAGE)
    if args.once or args.json or not (style().is_terminal and sys.stdin.isatty()):
        _print_once(args, view, sort)
        return OK
    check_gateway(args)

    def poll(wanted: View) -> Reading:
        try:
            return _read(args, wanted)
        except CommandError as error:
            raise NoAnswerError(str(error)) from error

    run_live(Options(args.url, view, sort, args.interval), poll, style())
    return OK


def _print_once(args: argparse.Namespace, view: View, sort: Sort) -> None:
    first = _read(args, view)
    time.sleep(args.interval)
    readings, now = [first, _read(args, view)], datetime.now(UTC)
    if args.json:
        rows = json_rows(readings, sort)
        show_json({"at": now.isoformat(timespec="milliseconds"), "view": view, "rows": rows})
    else:
        show_table(*listing(readings, sort, now))


def _read(args: argparse.Namespace, view: View) -> Reading:
    """Poll the gateway. Raises CommandError."""
    try:
        health = checked(_ask(args, "/ready", also=(HTTPStatus.SERVICE_UNAVAILABLE,)), Health)
        if view is View.GROUPS:
            pages = list(_pages(args, "/v1/groups", GroupsPage))
            return groups_read(time.monotonic(), health, pages)
        pages_of_producers = [page for page, _ in _pages(args, "/v1/producers", ProducersPage)]
        at_s = time.monotonic()
        producers = [each for page in pages_of_producers for each in page.producers]
        if view is View.PRODUCERS:
            return producers_read(at_s, health, producers)
        topics_pages = _pages(args, "/v1/topics", TopicsPage)
        topics = [each for page, _ in topics_pages for each in page.topics]
        return topics_read(at_s, health, topics, producers)
    except OddPageError as error:
        text = f"--url {args.url}: what answers is not a gateway of this version ({error})"
        raise CommandError(text) from error


def _pages(args: argparse.Namespace, path: str, kind: type[Listed]) -> Iterator[tuple[Listed, Any]]:
    """Yield each page, checked and as received. Raises CommandError, OddPageError."""
    following = ""
    for _ in range(_MAX_PAGES):
        given = _ask(args, f"{path}?{_PAGE}{following}")
        page = checked(given, kind)
        yield page, given
        if page.next is None:
            return
        following = f"&after={quote(page.next, safe='')}"


def _ask(args: argparse.Namespace, path: str, also: Collection[int] = ()) -> Any:
    return ask(args, "GET", path, timeout_s=_ANSWER_S, also=also)
