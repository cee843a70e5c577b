"""One module per sub-command, each with `register(subparsers)` and `run(args) -> exit code`.

A module imports what it needs inside `run`, so that `headgate --help` and the other commands
stay quick.
"""

import argparse
from typing import TypeAlias

# argparse has no public name for what `add_subparsers` returns.
Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

OK, FAILED, USAGE = 0, 1, 2


class CommandError(Exception):
    """Ends a command: the text is for the user, `exit_code` FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def add_command(
    subparsers: Subparsers, name: str, purpose: str, examples: str
) -> argparse.ArgumentParser:
    """Add a sub-command whose --help ends with examples; return its parser."""
    return subparsers.add_parser(
        name,
        help=purpose,
        description=purpose,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
