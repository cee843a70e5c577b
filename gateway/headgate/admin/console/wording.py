"""Formatting of figures for people: numbers with units, times, shares."""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup, escape

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPARK = (120, 24)  # its viewBox
_NONE = "-"


def number(value: float | None) -> str:
    """Format a number with few digits: 12, 1.23 k, 45.6 M."""
    if value is None:
        return _NONE
    for size, name in _STEPS:
        if abs(value) >= size:
            return f"{_digits(value / size)} {name}"
    return _digits(value)


def count(value: float | None) -> str:
    """Format a number with all digits: 1,234,567."""
    return _NONE if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Format a number of bytes: 12 B, 1.23 kB, 45.6 MB."""
    if value is None:
        return _NONE
    text = number(value)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def rate(value: float | None, unit: str = "") -> str:
    """Format a rate per second: 12.3/s. `unit` is B for bytes."""
    text = size(value) if unit == "B" else number(value)
    return text if text == _NONE else f"{text}/s"


def share(value: float | None) -> str:
    """Format a share (0 to 1): 12.3 %."""
    if value is None:
        return _NONE
    return "< 0.1 %" if 0 < value < 0.001 else f"{_digits(100 * value)} %"


def duration(seconds: float | None) -> str:
    """Format a duration: 45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return _NONE
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{_digits(seconds / length)} {name}"
    return f"{_digits(seconds)} s"


def breakable(name: str) -> Markup:
    """Return a long name that narrow pages may break after its underscores."""
    return Markup("_<wbr>").join(name.split("_"))


def _digits(value: float) -> str:
    """Format a number with three digits."""
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if float(text) else "< 0.01"


def moment(at: float | str | None) -> Markup:
    """Return a time in UTC, which the page's script converts to the reader's zone.

    Args:
        at: Seconds since 1970, or RFC 3339.
    """
    if not at:
        return Markup("<span>{}</span>").format(_NONE)
    try:
        parsed = (
            datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
        )
    except (ValueError, OverflowError, OSError):
        return escape(at)
    utc = parsed.astimezone(UTC)
    machine = utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, shown, shown)


def clock(at: str) -> str:
    """Format an RFC 3339 time as plain text: UTC to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def spark(values: Sequence[float], label: str) -> Markup:
    """Draw a small line from 0 to its highest value."""
    highest = max(values, default=0.0)
    if not highest or len(values) < 2:
        return Markup('<span class="no-spark">{}</span>').format(_NONE)
    width, height = _SPARK
    points = " ".join(
        f"{index * width / (len(values) - 1):.0f},{height - 1 - (height - 2) * value / highest:.0f}"
        for index, value in enumerate(values)
    )
    text = '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
    line = Markup('<polyline points="{}"/></svg>').format(points)
    return Markup(text).format(width, height, label) + line
