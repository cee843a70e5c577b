"""`headgate config`: every option's effective value, and where it is from."""

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from headgate.commands import OK, add_command
from headgate.commands.config_file import CONFIG_DEFAULT, add_config_option
from headgate.config import Loaded, load_with_origins
from headgate.config.problems import toml_text
from headgate.config.reference import effective, reference_toml
from headgate.core.terminal.text import escaped

if TYPE_CHECKING:
    from headgate.commands import Subparsers

_EXAMPLES = """  headgate config --config headgate.toml
  HEADGATE_HTTP__PORT=8081 headgate config --config headgate.toml
  headgate config --config headgate.toml --json
  headgate config --reference          every option with its default, as TOML"""


def register(subparsers: "Subparsers") -> None:
    """Add `config` to the commands."""
    purpose = "show every active option and the source of its value; secrets are masked"
    parser = add_command(subparsers, "config", purpose, _EXAMPLES)
    source = parser.add_mutually_exclusive_group()
    add_config_option(source, f"the configuration file; default: {CONFIG_DEFAULT}")
    source.add_argument(
        "--reference", action="store_true", help="print all options with their defaults"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of TOML")
    parser.set_defaults(finds_config=True)


def run(args: argparse.Namespace) -> int:
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
