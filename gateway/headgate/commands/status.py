"""`headgate status`: the verdict of a gateway on the installation, as text and as exit code."""

import argparse
from typing import TYPE_CHECKING, Any

from headgate.commands.api_client import add_gateway, ask
from headgate.commands.command_line import CommandError, add_command
from headgate.commands.output import add_formats, is_table, say, show_json
from headgate.commands.terminal import Ink

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers

_HELP = """  headgate status                        the state and its reasons, the worst first
  headgate status --json | jq -r '.reasons[] | [.severity, .subject, .what] | @tsv'
  headgate status --table --url https://gateway-1:9090 --token-file viewer.token || notify-on-call

A client of the gateway's control plane: --url (or HEADGATE_URL), --token-file (or
HEADGATE_TOKEN). The role is `view`. It prints lines on a terminal, elsewhere the JSON that the API
answers. The gateway asks `headgate monitor`; if it cannot, that is a reason.

exit codes: 0 ok, 1 degraded, 2 down (or usage), 3 the gateway cannot be asked"""
_CODES = {"ok": 0, "degraded": 1, "down": 2}
_CANNOT_BE_ASKED = 3
_TITLES = {"ok": "All is well", "degraded": "Degraded", "down": "Down"}
_INKS = {"ok": Ink.GOOD, "degraded": Ink.WARNING, "down": Ink.BAD}
_ANSWER_S = 15.0


def register_status(subparsers: "Subparsers") -> None:
    """Add `status` to the commands."""
    parser = add_command(subparsers, "status", "show the state of the installation", _HELP)
    add_gateway(parser)
    add_formats(parser)


def run_status(args: argparse.Namespace) -> int:
    """Ask, print the answer; return the exit code. Raises CommandError."""
    try:
        page = ask(args, "GET", "/v1/status", timeout_s=_ANSWER_S)
    except CommandError as error:
        raise CommandError(str(error), _CANNOT_BE_ASKED) from error
    if not isinstance(page, dict) or page.get("state") not in _CODES:
        text = f"--url {args.url}: the answer is not that of a gateway of this version"
        raise CommandError(text, _CANNOT_BE_ASKED)
    if is_table(args):
        _show(page, args.url.rstrip("/"))
    else:
        show_json(page)
    return _CODES[page["state"]]


def _show(page: dict[str, Any], url: str) -> None:
    state = page["state"]
    say(f"since {page['since']}", _INKS[state], _TITLES[state])
    for reason in page["reasons"]:
        ink = Ink.BAD if reason["severity"] == "critical" else Ink.WARNING
        say(f"{reason['what']} Since {reason['since']}", ink, reason["severity"])
        if reason.get("detail"):
            say(f"  {reason['detail']}")
        say(f"  {url}{reason['href']}")
