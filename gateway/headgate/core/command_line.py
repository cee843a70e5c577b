"""What both commands, `headgate` and `headgate-spark`, do with a command line before argparse."""

import re
from collections.abc import Sequence

_BEFORE_NOW = re.compile(r"-\d+(ms|s|m|h|d)")


def with_times_joined(arguments: Sequence[str]) -> list[str]:
    """`--from -2h` as `--from=-2h`: argparse would take -2h for an option."""
    joined: list[str] = []
    for one in arguments:
        if joined and joined[-1] in ("--from", "--to") and _BEFORE_NOW.fullmatch(one):
            joined[-1] += f"={one}"
        else:
            joined.append(one)
    return joined
