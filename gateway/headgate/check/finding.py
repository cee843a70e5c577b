"""What a check found."""

from enum import StrEnum
from typing import NamedTuple


class Level(StrEnum):
    """ok: as it should be.  warn: works, and will bite.  error: does not work."""

    OK = "ok"
    WARN = "warn"
    ERROR = "error"


class Finding(NamedTuple):
    """One thing that was looked at. fix: what to do about it; empty for `ok`."""

    level: Level
    subject: str
    text: str
    fix: str = ""


def ok(subject: str, text: str) -> Finding:
    """Everything as it should be."""
    return Finding(Level.OK, subject, text)


def warn(subject: str, text: str, fix: str) -> Finding:
    """Works, and will bite."""
    return Finding(Level.WARN, subject, text, fix)


def error(subject: str, text: str, fix: str) -> Finding:
    """Does not work."""
    return Finding(Level.ERROR, subject, text, fix)
