"""Times on the command line: ISO 8601, milliseconds since 1970, or before now (2h, -2h)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from headgate_spark.errors import USAGE, JobError

_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970. A time without zone is UTC. Raises JobError."""
    if text == "now":
        return now_ms
    if relative := re.fullmatch(r"-?(\d+)([smhd])", text):
        return now_ms - int(relative[1]) * _UNITS_MS[relative[2]]
    if re.fullmatch(r"\d{12,}", text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise JobError(
            f"{text!r} is no time: 2026-01-31T12:00:00Z, ms since 1970, 2h (ago), or now",
            USAGE,
        ) from error
    return int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)


def shown_time(ms: int) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
