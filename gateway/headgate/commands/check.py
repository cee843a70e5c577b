"""`headgate check`: is the configuration right, and what will bite in Kafka and Redis."""

import argparse
import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.check.local import judge_settings
from headgate.check.rules import Finding, Level, error, ok
from headgate.commands import FAILED, OK, USAGE, add_command
from headgate.commands.config_file import add_config
from headgate.commands.output import add_json, say, show_json
from headgate.config import ConfigError, Problem, load_with_origins
from headgate.core.terminal.style import Ink

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate check --config headgate.toml
  headgate check --config headgate.toml --connect
  headgate check --config headgate.toml --connect --strict --json

exit codes: 0 nothing wrong (warnings are allowed, unless --strict), 1 an error or, with --strict,
a warning, 2 the configuration cannot be used"""

_INKS = {Level.OK: Ink.GOOD, Level.WARN: Ink.WARNING, Level.ERROR: Ink.BAD}


def register(subparsers: "Subparsers") -> None:
    """Add `check` to the commands."""
    purpose = "validate the configuration; with --connect also its topics and Redis"
    parser = add_command(subparsers, "check", purpose, _EXAMPLES)
    add_config(parser)
    parser.add_argument("--connect", action="store_true", help="also ask Kafka and Redis")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Check, report, and return the exit code."""
    try:
        findings = _check(args.config, connect=args.connect)
    except ConfigError as wrong:
        _report(args, [_finding(problem) for problem in wrong.problems])
        return USAGE
    _report(args, findings)
    failing = {Level.ERROR, Level.WARN} if args.strict else {Level.ERROR}
    return FAILED if any(finding.level in failing for finding in findings) else OK


def _check(file: Path, *, connect: bool) -> list[Finding]:
    settings, origins = load_with_origins(file, os.environ)
    found = f"{len(settings.clusters)} cluster(s), {len(settings.topics)} topic pattern(s)"
    findings = [ok("configuration", f"{file} is valid: {found}")]
    findings += judge_settings(settings, origins)
    findings += _spools(file, settings.spool.path)
    if connect:
        from headgate.check.connect import check_connections  # slow to import

        # what aiokafka would write to standard error is a finding already
        logging.getLogger("aiokafka").addHandler(logging.NullHandler())
        findings += asyncio.run(check_connections(settings))
    return findings


def _spools(file: Path, current: str | None) -> list[Finding]:
    """Events that lie in a spool that the configuration does not name any more."""
    from headgate.spool.folders import SpoolFolders  # slow to import

    return [
        error(
            "spool.path",
            f"{left}, which the configuration does not name any more: a start is refused",
            f"headgate spool drain {left.folder} --config {file}",
        )
        for left in SpoolFolders(file, os.environ).left_behind(current)
    ]


def _finding(problem: Problem) -> Finding:
    where = f" ({problem.origin})" if problem.origin else ""
    text = f"{problem.found}{where}; expected {problem.expected}"
    return error(problem.option, text, problem.fix)


def _report(args: argparse.Namespace, findings: Sequence[Finding]) -> None:
    if args.json:
        failed = any(finding.level is Level.ERROR for finding in findings)
        shown = [finding._asdict() for finding in findings]
        show_json({"config": str(args.config), "ok": not failed, "findings": shown})
        return
    for finding in findings:
        level = f"{finding.level.upper():5}"
        say(f"{finding.subject}: {finding.text}", _INKS[finding.level], level)
        if finding.fix:
            say(f"      fix: {finding.fix}")
