"""Times as people give them to commands (ISO 8601, ms since 1970, 2h ago) and are shown them.

As in replays (`headgate.replays.spec`), a time without a zone is refused: who asks thinks of
their own, and the hours between would be left out without a word.
"""

import re
from datetime import UTC, datetime, timedelta

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
_1970 = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class TimeError(ValueError):
    """What is no time, in a sentence that names the option and what it may be."""


def parse_time(option: str, text: str, now_ms: int) -> int:
    """Milliseconds since 1970. Raises TimeError naming the option."""
    found = _parsed(option, text, now_ms)
    if not 0 <= found <= _LAST_MS:
        raise TimeError(f"{option} {text}: outside of 1970 to 9999: milliseconds, or -2h?")
    return found


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
    """ISO 8601 in UTC, to the millisecond.

    Producers may stamp records with anything (microseconds, say): what no year has a number for
    is shown as the first or the last moment that has one.
    """
    moment = _1970 + timedelta(milliseconds=min(max(ms, _FIRST_MS), _LAST_MS))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
