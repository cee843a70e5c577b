"""Commands about the configuration: `config`, `check`, `init` and `token`."""

import argparse
import hashlib
import json
import os
import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headgate.commands.command_line import (
    CONFIG_DEFAULT,
    FAILED,
    OK,
    USAGE,
    add_command,
    add_config,
    add_config_option,
)
from headgate.commands.output import add_json, say, show_json
from headgate.commands.terminal import Ink
from headgate.config import ConfigError, Loaded, Problem, load, load_with_origins
from headgate.config.problems import toml_text
from headgate.config.reference import effective, reference_toml
from headgate.config.settings import dotted
from headgate.model.text import escaped, one_line

if TYPE_CHECKING:
    from headgate.check.rules import Finding
    from headgate.commands.command_line import Subparsers
    from headgate.commands.initialise import ReportLine


_CONFIG_HELP = """  headgate config --config headgate.toml
  HEADGATE_HTTP__PORT=8081 headgate config --config headgate.toml
  headgate config --config headgate.toml --json
  headgate config --reference          every option with its default, as TOML

exit codes: 0 printed, 2 the configuration cannot be used"""
_CHECK_HELP = """  headgate check --config headgate.toml
  headgate check --config headgate.toml --connect
  headgate check --config headgate.toml --connect --strict --json

exit codes: 0 nothing wrong (warnings are allowed, unless --strict), 1 an error or, with --strict,
a warning, 2 the configuration cannot be used"""
_INKS = {"ok": Ink.GOOD, "warn": Ink.WARNING, "error": Ink.BAD}
_INIT_HELP = """  headgate init --config headgate.toml
  headgate init --config headgate.toml --check     check them, create nothing

Topics that coalesce (coalesce_quiet_ms) need one internal topic each, headgate.held.<topic>.
A cluster that is another one's backfill tier needs headgate.offsets, the mirror's offset map.
Whatever exists is checked and never changed. Run it again whenever a topic begins to coalesce.

exit codes: 0 all there and right, 1 something is wrong or missing, 2 the configuration cannot
be used"""
_TOKEN_HELP = """  headgate token checkout
  headgate token checkout >> headgate.toml     append the section; the terminal shows the token

The token appears once, on standard error. The section with its hash is on standard output. To
replace a token, add the new hash to the existing section (docs/operate/secure.md).

exit codes: 0 printed, 2 usage"""
_RANDOM_BYTES = 32  # 256 bits: cannot be guessed, so an unsalted hash is enough
_PREFIX = "hg_"  # lets secret scanners and people recognise one
_TOKEN_NAME = r"[A-Za-z0-9][\w.\-]{0,99}"


def register_config(subparsers: "Subparsers") -> None:
    """Add `config` to the commands."""
    purpose = "show every active option and the source of its value; secrets are masked"
    parser = add_command(subparsers, "config", purpose, _CONFIG_HELP)
    source = parser.add_mutually_exclusive_group()
    add_config_option(source, f"the configuration file; default: {CONFIG_DEFAULT}")
    source.add_argument(
        "--reference", action="store_true", help="print all options with their defaults"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of TOML")
    parser.set_defaults(finds_config=True)


def run_config(args: argparse.Namespace) -> int:
    """Print, and return the exit code. Raises ConfigError."""
    if args.reference:
        sys.stdout.write(reference_toml())
        return OK
    loaded = load_with_origins(args.config, os.environ)
    sys.stdout.write(escaped(_as_json(loaded) if args.json else _as_toml(loaded)))
    return OK


def _as_json(loaded: Loaded) -> str:
    options = {
        f"{each.section}.{each.name}": {"value": each.value, "origin": each.origin}
        for each in effective(loaded)
    }
    return json.dumps(options, indent=2) + "\n"


def _as_toml(loaded: Loaded) -> str:
    lines: list[str] = []
    section = ""
    for each in effective(loaded):
        if each.section != section:
            section = each.section
            lines += ["", f"[{section}]"] if lines else [f"[{section}]"]
        unset = each.value is None
        text = f"# {each.name} is not set" if unset else f"{each.name} = {toml_text(each.value)}"
        lines.append(f"{text:<48} # {each.origin}")
    return "\n".join(lines) + "\n"


def register_check(subparsers: "Subparsers") -> None:
    """Add `check` to the commands."""
    purpose = "validate the configuration; with --connect also its topics and Redis"
    parser = add_command(subparsers, "check", purpose, _CHECK_HELP)
    add_config(parser)
    parser.add_argument("--connect", action="store_true", help="also ask Kafka and Redis")
    parser.add_argument("--strict", action="store_true", help="treat warnings as errors")
    add_json(parser)


def run_check(args: argparse.Namespace) -> int:
    """Check, report, and return the exit code."""
    try:
        findings = _check_findings(args.config, connect=args.connect)
    except ConfigError as wrong:
        _report_check(args, [_finding(problem) for problem in wrong.problems])
        return USAGE
    _report_check(args, findings)
    failing = ("error", "warn") if args.strict else ("error",)
    return FAILED if any(finding.level in failing for finding in findings) else OK


def _check_findings(file: Path, *, connect: bool) -> "list[Finding]":
    from headgate.check.local import judge_settings
    from headgate.check.rules import error, ok

    settings, origins = load_with_origins(file, os.environ)
    counts = f"{len(settings.clusters)} cluster(s), {len(settings.topics)} topic pattern(s)"
    findings = [ok("configuration", f"{file} is valid: {counts}")]
    findings += judge_settings(settings, origins)
    findings += _spools(file, settings.spool.path)
    if connect:
        import asyncio  # slow imports

        from headgate.check.connect import check_connections
        from headgate.errors_in_words import connection_error

        try:
            findings += asyncio.run(check_connections(settings))
        except Exception as unexpected:
            text = f"the connections cannot be checked: {connection_error(unexpected)}"
            fix = "Check the options of clusters and redis; if they are right, report this error."
            findings.append(error("connections", text, fix))
    return findings


def _spools(file: Path, current: str | None) -> "list[Finding]":
    """Return spools with events that the configuration does not name any more."""
    from headgate.check.rules import error
    from headgate.spool.folders import SpoolFolders  # slow to import

    return [
        error(
            "spool.path",
            f"{spool}, which the configuration does not name any more: a start is refused",
            f"headgate spool drain {spool.folder} --config {file}",
        )
        for spool in SpoolFolders(file, os.environ).left_behind(current)
    ]


def _finding(problem: Problem) -> "Finding":
    from headgate.check.rules import error

    where = f" ({problem.origin})" if problem.origin else ""
    text = f"{problem.given}{where}"
    if problem.expected:
        text += f"; expected {problem.expected}"
    return error(problem.option, text, problem.fix)


def _report_check(args: argparse.Namespace, findings: "Sequence[Finding]") -> None:
    from headgate.check.rules import folded

    if args.json:
        failed = any(finding.level == "error" for finding in findings)
        shown = [finding._asdict() for finding in findings]
        show_json({"config": str(args.config), "ok": not failed, "findings": shown})
        return
    for finding in folded(findings):
        level = f"{finding.level.upper():5}"
        say(f"{finding.subject}: {finding.text}", _INKS[finding.level], level)
        if finding.fix:
            say(f"      fix: {finding.fix}")


def register_init(subparsers: "Subparsers") -> None:
    """Add `init` to the commands."""
    purpose = "create or check the internal topics (headgate.*) of the configuration"
    parser = add_command(subparsers, "init", purpose, _INIT_HELP)
    add_config(parser)
    parser.add_argument("--check", action="store_true", help="only check, create nothing")
    add_json(parser)


def run_init(args: argparse.Namespace) -> int:
    """Create, check, report; return the exit code. Raises ConfigError."""
    import asyncio  # slow imports

    from headgate.commands.initialise import initialise

    settings = load(args.config, os.environ)
    lines = asyncio.run(initialise(settings, may_create=not args.check))
    if args.json:
        levels = ["error" if line.is_bad else "ok" for line in lines]  # as those of `check`
        shown = zip(levels, lines, strict=True)
        show_json({"topics": [{"level": level, **line._asdict()} for level, line in shown]})
    else:
        _show_init(lines)
    return FAILED if any(line.is_bad for line in lines) else OK


def _show_init(lines: "Sequence[ReportLine]") -> None:
    for line in lines:
        ink = Ink.BAD if line.is_bad else Ink.GOOD
        say(f"{line.subject}: {line.text}", ink, f"{line.word:7}")
    if not lines:
        say("ok      no topic of the configuration needs an internal topic")


def register_token(subparsers: "Subparsers") -> None:
    """Add `token` to the commands."""
    purpose = "create a token for a producer; only its hash is stored, so keep the token"
    parser = add_command(subparsers, "token", purpose, _TOKEN_HELP)
    parser.add_argument("name", metavar="NAME", help="the producer's name")


def run_token(args: argparse.Namespace) -> int:
    """Print a token to standard error, and the section with its hash to standard output.

    The section can be pasted or redirected into the configuration, and never carries the token.
    """
    if not re.fullmatch(_TOKEN_NAME, args.name):
        sys.stderr.write(
            f'"{one_line(args.name)}" is not a producer\'s name: '
            'letters, digits, ".", "-" and "_", at most 100\n'
        )
        return USAGE
    token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
    digest = hashlib.sha256(token.encode()).hexdigest()
    sys.stderr.write(
        f"Token for {args.name}, shown once. {args.name} sends it as `Authorization: Bearer "
        f"TOKEN`:\n\n    {token}\n\n"
        "Section for the configuration (two hashes are allowed while one replaces the other):\n\n"
    )
    sys.stderr.flush()
    sys.stdout.write(f'[{dotted(("producers", args.name))}]\ntoken_sha256 = ["{digest}"]\n')
    return OK
