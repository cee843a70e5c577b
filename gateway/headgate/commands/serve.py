"""Commands that run until a signal: `serve`, its `worker` processes, `coalesce` and `monitor`."""

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headgate.commands.command_line import FAILED, OK, USAGE, CommandError, add_command, add_config

if TYPE_CHECKING:
    from headgate.commands.command_line import Subparsers
    from headgate.config import Settings


_SERVE_HELP = """  headgate serve --config headgate.toml
  headgate serve --config headgate.toml --workers 3

signals: TERM and INT drain and end it (twice: at once), HUP reloads topics and producers
exit codes: 0 drained, 1 failed, 2 the configuration cannot be used"""

_WORKERS = "HEADGATE_HTTP__WORKERS"
_COALESCE_HELP = """  headgate coalesce --config headgate.toml

Coalescers form a consumer group and share the partitions of the held topics: start as many as you
like. Set coalescer.in_gateway = false, so that gateways leave the work to them. If coalescer.port
is set, the process serves /live, /ready and /metrics there.

signals: TERM and INT finish the transactions under way, leave the group and end it
exit codes: 0 ended by a signal, 1 failed, 2 the configuration cannot be used"""
_MONITOR_HELP = """  headgate monitor --config headgate.toml            watch, and answer /v1/groups
  headgate monitor --config headgate.toml --once     one poll, as a table
  headgate monitor --config headgate.toml --json     one poll, for programs
  curl -s 127.0.0.1:9096/v1/groups?pretty            or /v1/groups of any gateway

The monitor polls all groups of all clusters every monitor.interval_ms. If it may read
__consumer_offsets, it also follows every commit. One per installation is enough. On a terminal it
prints a table after every poll. The log, on standard error, names every commit that went back.

signals: TERM and INT end it
exit codes: 0 ended by a signal (or polled once), 1 failed, 2 the configuration cannot be used"""
_ONCE_S = 60.0


def register_serve(subparsers: "Subparsers") -> None:
    """Add `serve` to the commands."""
    purpose = "take events over HTTP and publish them to Kafka"
    parser = add_command(subparsers, "serve", purpose, _SERVE_HELP)
    add_config(parser, has_log=True)
    parser.add_argument(
        "--workers", metavar="N", help="processes that share the port (overrides http.workers)"
    )
    parser.add_argument(
        "--abandon-spool",
        action="store_true",
        help="start even if the configuration no longer names a spool that holds events",
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Import without garbage collection: a seventh of the time, and there is nothing to find."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run_serve(args: argparse.Namespace) -> int:
    """Serve until a signal ends it; return the exit code. Raises ConfigError."""
    with _no_collections():
        from headgate.config import load
        from headgate.metrics import logs
        from headgate.metrics.build import warn_unless_native
        from headgate.supervisor import parent

    environ, flags = dict(os.environ), {}
    if args.workers is not None:
        environ[_WORKERS] = args.workers
        flags[_WORKERS] = "--workers"
    settings = load(args.config, environ)
    logs.configure(settings.logs)
    _look_for_spools(args, settings.spool.path)
    warn_unless_native(parent.log)
    try:
        return asyncio.run(parent.serve(parent.Start(args.config, environ, flags=flags)))
    except parent.PortTakenError as error:
        raise CommandError(str(error), FAILED) from error


def _look_for_spools(args: argparse.Namespace, current: str | None) -> None:
    """Note the spool's folder.

    Raises:
        CommandError: Events lie in a spool that the configuration no longer names.
    """
    from headgate.spool.folders import SpoolFolders  # slow to import

    folders = SpoolFolders(args.config, os.environ)
    abandoned = folders.left_behind(current)
    if abandoned and not args.abandon_spool:
        text = "; ".join(map(str, abandoned))
        commands = " && ".join(
            f"headgate spool drain {spool.folder} --config {args.config}" for spool in abandoned
        )
        raise CommandError(
            f"spool.path: {text} would stay there, because the configuration no longer names it. "
            f"Publish them first: `{commands}`; or give --abandon-spool",
            USAGE,
        )
    for spool in abandoned:
        logging.getLogger("headgate.spool").warning(
            "spool abandoned because of --abandon-spool: %s", spool
        )
    folders.forget(abandoned)
    folders.note(current)


def register_worker(subparsers: "Subparsers") -> None:
    """Add `worker` to the commands, without a line in the help."""
    parser = subparsers.add_parser("worker", description="Started by `headgate serve`.")
    parser.add_argument("--config", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--index", required=True, type=int)
    parser.add_argument("--socket", action="append", default=[], type=int)


def run_worker(args: argparse.Namespace) -> int:
    """Serve as one process of the gateway; return the exit code. Raises ConfigError."""
    with _no_collections():
        from headgate.supervisor import worker  # slow to import

    files = worker.WorkerFiles(args.config, os.environ, args.folder, args.index, args.socket)
    return worker.run_worker(files)


def _configured(file: Path) -> "tuple[Settings, dict[str, Any]]":
    """Load the configuration, check its PEM files, and begin to log.

    Returns:
        The settings, and the fields of the log line of the start.
    """
    from headgate.config import load_with_origins, read_file
    from headgate.config.checks import refuse_bad_pem_files
    from headgate.metrics import logs
    from headgate.metrics.build import start_fields

    text = read_file(file)
    settings, origins = load_with_origins(file, os.environ, text=text)
    refuse_bad_pem_files(file, settings, origins)
    logs.configure(settings.logs)
    return settings, start_fields(file, text)


def register_coalesce(subparsers: "Subparsers") -> None:
    """Add `coalesce` to the commands."""
    purpose = "publish held events of coalescing topics, without a gateway"
    parser = add_command(subparsers, "coalesce", purpose, _COALESCE_HELP)
    add_config(parser, has_log=True)


def run_coalesce(args: argparse.Namespace) -> int:
    """Coalesce until a signal; return the exit code. Raises ConfigError."""
    import uvloop  # slow to import, as what follows

    from headgate.errors_in_words import listen_error
    from headgate.supervisor.coalescer_process import coalesce

    settings, fields = _configured(args.config)
    try:
        uvloop.run(coalesce(settings, fields))
    except OSError as error:
        raise CommandError(
            f"coalescer.port = {settings.coalescer.port}: {listen_error(error)}", FAILED
        ) from error
    return OK


def register_monitor(subparsers: "Subparsers") -> None:
    """Add `monitor` to the commands."""
    from headgate.commands.output import add_once

    purpose = "watch all consumer groups: lag, states and commits that were rewound"
    parser = add_command(subparsers, "monitor", purpose, _MONITOR_HELP)
    add_config(parser, has_log=True)
    add_once(parser)
    parser.add_argument(
        "--table", action="store_true", help="print the table even if the output is not a terminal"
    )


def run_monitor(args: argparse.Namespace) -> int:
    """Watch until a signal; return the exit code. Raises ConfigError, CommandError."""
    import uvloop  # slow to import, as what follows

    from headgate.commands.output import style, write
    from headgate.errors_in_words import listen_error
    from headgate.supervisor.active_config import TlsFilesError
    from headgate.supervisor.monitor_process import monitor

    settings, fields = _configured(args.config)
    if args.once or args.json:
        return _once(settings, args.json)
    show = write if args.table or sys.stdout.isatty() else None
    try:
        uvloop.run(monitor(settings, fields, show, style()))
    except TlsFilesError as error:
        raise CommandError(str(error), USAGE) from error
    except OSError as error:
        text = f"monitor.port = {settings.monitor.port}: {listen_error(error)}"
        raise CommandError(text, FAILED) from error
    return OK


def _once(settings: "Settings", as_json: bool) -> int:
    import orjson
    import uvloop

    from headgate.commands.output import style, write
    from headgate.model.text import escaped
    from headgate.supervisor.monitor_process import page_lines, poll_once

    try:
        poll = uvloop.run(poll_once(settings, _ONCE_S))
    except TimeoutError as error:
        raise CommandError("a cluster does not answer: see the log", FAILED) from error
    page = poll.groups_of_one_poll()
    write(escaped(orjson.dumps(page).decode()) if as_json else page_lines(page, style()))
    return OK
