"""What a job says to whoever started it."""

from headgate.commands.output import progress
from headgate.core.terminal import ProgressLine


def report_to_people(*, is_quiet: bool = False) -> ProgressLine:
    """Under the name of the command, on standard error."""
    return progress("headgate-spark: ", is_quiet=is_quiet)
