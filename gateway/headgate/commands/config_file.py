"""The configuration file that a command uses: the option, or the first of the known places."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

CONFIG_DEFAULT = "HEADGATE_CONFIG, ./headgate.toml or /etc/headgate/headgate.toml"
VARIABLE = "HEADGATE_CONFIG"
LOCAL_FILE, SYSTEM_FILE = Path("headgate.toml"), Path("/etc/headgate/headgate.toml")


class NoConfigFileError(Exception):
    """No place has a configuration file; the text names the places."""


def add_config(parser: argparse.ArgumentParser, purpose: str = "the configuration file") -> None:
    """Add `--config` to a command that needs it; `find_config` finds a default."""
    add_config_option(parser, f"{purpose}; default: {CONFIG_DEFAULT}")
    parser.set_defaults(finds_config=True)


def add_config_option(
    parser: "argparse.ArgumentParser | argparse._ActionsContainer", purpose: str
) -> None:
    """Add `--config` with its short name."""
    parser.add_argument("-c", "--config", type=Path, metavar="F", help=purpose)


def find_config(
    chosen: argparse.Namespace, environ: Mapping[str, str], say: Callable[[str], None]
) -> None:
    """Set `chosen.config` of a command of `add_config` to the file that it uses.

    Args:
        chosen: The parsed command line.
        environ: The environment, for HEADGATE_CONFIG.
        say: Takes a line with the file's name, if the command line does not name the file.

    Raises:
        NoConfigFileError: No place has a configuration file.
    """
    needs_file = getattr(chosen, "finds_config", False) and not getattr(chosen, "reference", False)
    if not needs_file or chosen.config is not None:
        return
    if named := environ.get(VARIABLE):
        chosen.config = Path(named)
        say(f"configuration file: {named} ({VARIABLE})")
        return
    for file in (LOCAL_FILE, SYSTEM_FILE):
        if file.exists():
            chosen.config = file
            say(f"configuration file: {file}")
            return
    raise NoConfigFileError(
        f"no configuration file: {VARIABLE} is not set, and neither ./{LOCAL_FILE} nor "
        f"{SYSTEM_FILE} exists. Name one with --config FILE, or write one: "
        f"headgate config --reference > {LOCAL_FILE}"
    )
