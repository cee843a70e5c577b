"""The commands of the jobs: exit codes, errors, times, paths, and messages for people."""

import argparse
import logging
import re
import time
from pathlib import Path

from headgate.commands.output import progress
from headgate.commands.terminal import ProgressLine
from headgate.model import times
from headgate.model.text import indented

OK, FAILED, USAGE = 0, 1, 2


class SayingError(Exception):
    """An error whose text is a complete sentence."""


class JobError(Exception):
    """The end of a job. The text names the fix; `exit_code` is FAILED or USAGE."""

    def __init__(self, text: str, exit_code: int = FAILED) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def in_words(error: BaseException) -> str:
    """Return the text of an error with its kind; a TimeoutError has no text of its own."""
    name, text = type(error).__name__, str(error).strip()
    if isinstance(error, JobError | SayingError):
        return text
    if text in ("", name, f"{name}:"):
        return "nothing came in time" if isinstance(error, TimeoutError) else name
    return text if text.startswith(name) else f"{name}: {text}"


def reason_of(error: Exception) -> str:
    """Return the line with the reason of an error of Spark or its JVM, without the stack trace."""
    lines = str(error).splitlines()
    causes = [line for line in lines if line.startswith("Caused by: ")]
    # py4j begins with the name of the call, and goes on with ": " and what Java said
    said = [line.removeprefix(": ") for line in lines if line.startswith(": ")] or lines
    return causes[-1].removeprefix("Caused by: ") if causes else "".join(said[:1])


# ---- the wall clock, and times on the command line


def now_ms() -> int:
    """Return the wall clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def parse_time(option: str, text: str, now_ms: int) -> int:
    """Return milliseconds since 1970. Raises JobError with the option's name."""
    try:
        return times.parse_time(option, text, now_ms)
    except times.TimeError as error:
        raise JobError(str(error), USAGE) from error


# ---- log lines of the jobs and of Spark's Python workers, which configure no log


class _Indented(logging.Formatter):
    """A formatter without control characters, whose further lines do not look like first lines."""

    def format(self, record: logging.LogRecord) -> str:
        return indented(super().format(record))


def format_task_log() -> None:
    """Remove control characters from warnings, which Python writes to standard error by itself.

    Handlers that exist in this process stay unchanged.
    """
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Indented())


# ---- messages for people


def report_to_people(*, is_quiet: bool = False) -> ProgressLine:
    """Write a message to standard error, with the name of the command."""
    return progress("headgate-spark: ", is_quiet=is_quiet)


# ---- paths on the command line


_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


def local_path(text: str) -> Path:
    """Read a path. A URI is refused: it would become a folder below the current one."""
    if _URI.match(text):
        raise argparse.ArgumentTypeError(
            f"{text} is a URI: give a path on a local or shared file system, such as NFS, and copy "
            "what is there to HDFS or an object store afterwards"
        )
    return Path(text)
