"""`headgate dev`: the whole stack on this machine, for trying things out and for tests."""

import argparse
import logging
import os
import sys
import time
import tomllib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from headgate.commands.command_line import FAILED, USAGE, CommandError, Subparsers, add_command
from headgate.errors_in_words import file_error

_EXAMPLES = """\
  headgate dev                       start; Ctrl-C stops everything, the data stays
  headgate dev --demo                with sample traffic and consumers, monitor and mirror
  headgate dev --operations          with monitor, mirror and replay runner, for traffic of your own
  headgate dev --fresh --state /tmp/headgate
                                     empty, data and logs in a folder of your choice
  headgate dev --config mine.toml    your sections over the sample configuration
  headgate dev --port 8081 --management-port 9091
                                     the gateway's ports
  headgate dev --json > ready.json    one line for programs when all is ready

exit codes: 0 stopped, 1 failed, 2 usage or configuration"""


def register_dev(subparsers: Subparsers) -> None:
    """Declare the options."""
    parser = add_command(
        subparsers, "dev", "run Kafka (two tiers), Redis and the gateway on this machine", _EXAMPLES
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="also start sample traffic and consumers, monitor, mirror and replay runner",
    )
    parser.add_argument(
        "--operations",
        action="store_true",
        help="also start the monitor, the mirror and the replay runner, without samples",
    )
    parser.add_argument("--fresh", action="store_true", help="start empty: delete earlier data")
    parser.add_argument(
        "--state",
        type=Path,
        default=Path(".headgate"),
        metavar="DIR",
        help="folder for data and logs; default: .headgate",
    )
    parser.add_argument(
        "-c",
        "--config",
        type=Path,
        metavar="F",
        help="TOML sections to add or override; topics named there are created",
    )
    parser.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help="the gateway's data port; default: http.port of --config, else 8080 or a free one",
    )
    parser.add_argument(
        "--management-port",
        type=_port,
        metavar="N",
        help="its management port; default: http.management_port of --config, else 9090 or a free "
        "one",
    )
    parser.add_argument(
        "--jmx", action="store_true", help="brokers serve their metrics, for `headgate monitor`"
    )
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON when everything is ready"
    )


def run_dev(args: argparse.Namespace) -> int:
    """Run until stopped. Exit code 1 when a process could not start or ended too often."""
    from headgate.devstack.child import StartError
    from headgate.devstack.java import JarsError, JavaMissingError
    from headgate.devstack.servers import RedisMissingError
    from headgate.devstack.session import Options, StateInUseError, run_session

    options = Options(
        state=args.state.absolute(),
        overlay=_with_ports(_read_overlay(args.config), args, os.environ),
        is_fresh=args.fresh,
        is_demo=args.demo,
        is_json=args.json,
        has_operations=args.operations or args.demo,
        has_jmx=args.jmx,
    )
    leave_out_known_lines()
    try:
        return run_session(options, os.environ, sys.stdout, sys.stderr)
    except (JavaMissingError, JarsError, RedisMissingError, StartError, StateInUseError) as error:
        raise CommandError(str(error), FAILED) from error


def leave_out_known_lines() -> None:
    """Let only unknown errors of libraries reach the terminal.

    The session itself reports brokers that end. The consumers of the demo need no lines besides.
    """
    from headgate.metrics.library_lines import LibraryLines, later_on_thread
    from headgate.metrics.logs import Lines

    logging.getLogger("headgate").addHandler(logging.NullHandler())
    unknown = Lines(sys.stderr, time.monotonic, later_on_thread)
    unknown.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S")
    )
    unknown.addFilter(LibraryLines(logging.INFO, None))
    logging.getLogger("aiokafka").addHandler(unknown)


def _port(text: str) -> int:
    port = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < port < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: give a number from 1 to 65535")
    return port


def _with_ports(
    overlay: dict[str, Any], args: argparse.Namespace, environ: MutableMapping[str, str]
) -> dict[str, Any]:
    """Return the sections with the ports of the command line, else of the environment.

    The variables are taken out of the environment: the gateway's process would put them over the
    ports that were chosen.
    """
    http = overlay.get("http", {})
    if not isinstance(http, dict):
        return overlay  # the check of the configuration reports it
    for option, given in (("port", args.port), ("management_port", args.management_port)):
        variable = environ.pop(f"HEADGATE_HTTP__{option.upper()}", None)
        if given is not None:
            http = {**http, option: given}
        elif variable is not None:
            try:
                http = {**http, option: _port(variable)}
            except argparse.ArgumentTypeError as error:
                raise CommandError(f"HEADGATE_HTTP__{option.upper()}: {error}", USAGE) from error
    return {**overlay, "http": http} if http else overlay


def _read_overlay(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise CommandError(f"--config {file}: it is not TOML: {error}", USAGE) from error
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--config {file}: {file_error(error)}", USAGE) from error
