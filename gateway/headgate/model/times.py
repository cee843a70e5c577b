# Not compiled: no event passes it.
"""Times in commands and their output: ISO 8601, milliseconds since 1970, or `2h` ago.

As in replays (`headgate.replays.spec`), a time without a zone is refused: a guessed zone would
silently shift the range by hours.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class TimeError(ValueError):
    """A text that is not a time; the message names the option and the accepted forms."""


def parse_time(option: str, text: str, now_ms: int) -> int:
    """Parse a time.

    Args:
        option: Name of the option, for the error text.
        text: The text of the time.
        now_ms: The current time, in milliseconds since 1970.

    Returns:
        Milliseconds since 1970.

    Raises:
        TimeError: The text is not a time.
    """
    time_ms = _parsed(option, text, now_ms)
    if not 0 <= time_ms <= _LAST_MS:
        raise TimeError(f"{option} {text}: outside of 1970 to 9999: milliseconds, or -2h?")
    return time_ms


def _parsed(option: str, text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if relative := re.fullmatch(r"-?(\d+)([smhd])", text):
        return now_ms - int(relative[1]) * _UNITS_MS[relative[2]]
    if re.fullmatch(r"\d{12,}", text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise TimeError(
            f"{option} {text}: expected 2026-01-31T12:00:00Z, ms since 1970, 2h (ago), or now"
        ) from error
    if parsed.tzinfo is None:
        raise TimeError(f"{option} {text}: in which zone? {_with_zone(parsed)}")
    # in integers: as a float, one time in 160 would be a millisecond too early
    return (parsed - _1970) // timedelta(milliseconds=1)


def _with_zone(parsed: datetime) -> str:
    text = parsed.isoformat()
    return f"{text}Z is UTC, {text}+02:00 two hours before it"


def shown_time(ms: int) -> str:
    """Format a time as ISO 8601 in UTC, with milliseconds.

    Producers may write any timestamp, such as microseconds. A time outside of the years 1 to 9999
    is shown as the first or the last moment of this range.
    """
    moment = _1970 + timedelta(milliseconds=min(max(ms, _FIRST_MS), _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# ---- begin, end and duration of a dependency's outage


class Outage:
    """State of one dependency; `clock` is monotonic, in seconds."""

    __slots__ = ("_clock", "_since")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock: Final = clock
        self._since: float | None = None

    def begins(self) -> bool:
        """Record the begin of an outage; return False if it had begun already."""
        if self._since is not None:
            return False
        self._since = self._clock()
        return True

    def ends(self) -> float | None:
        """Record the end of an outage; return its duration in seconds, or None."""
        since, self._since = self._since, None
        return None if since is None else round(self._clock() - since, 3)
