"""The wall clock, and times on the command line."""

import time

from headgate.core import times
from headgate_spark.job.errors import USAGE, JobError


def now_ms() -> int:
    """The wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000


def parse_time(option: str, text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raises JobError naming the option."""
    try:
        return times.parse_time(option, text, now_ms)
    except times.TimeError as error:
        raise JobError(str(error), USAGE) from error
