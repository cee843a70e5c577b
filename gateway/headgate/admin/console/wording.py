"""Figures in words for people: numbers with units, times, shares."""

from collections.abc import Sequence
from datetime import UTC, datetime

from markupsafe import Markup, escape

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPARK = (120, 24)  # its viewBox
_NONE = "-"


def number(value: float | None) -> str:
    """Short: 12, 1.23 k, 45.6 M."""
    if value is None:
        return _NONE
    for size, name in _STEPS:
        if abs(value) >= size:
            return f"{_digits(value / size)} {name}"
    return _digits(value)


def count(value: float | None) -> str:
    """In full: 1,234,567."""
    return _NONE if value is None else f"{value:,.0f}"


def size(value: float | None) -> str:
    """Bytes: 12 B, 1.23 kB, 45.6 MB."""
    if value is None:
        return _NONE
    text = number(value)
    return f"{text}B" if text[-1].isalpha() else f"{text} B"


def rate(value: float | None, unit: str = "") -> str:
    """A second: 12.3/s; unit: B for bytes."""
    text = size(value) if unit == "B" else number(value)
    return text if text == _NONE else f"{text}/s"


def share(value: float | None) -> str:
    """Of 1: 12.3 %."""
    if value is None:
        return _NONE
    return "< 0.1 %" if 0 < value < 0.001 else f"{_digits(100 * value)} %"


def duration(seconds: float | None) -> str:
    """45 s, 12 min, 3.5 h, 2.1 d."""
    if seconds is None:
        return _NONE
    for length, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * length:
            return f"{_digits(seconds / length)} {name}"
    return f"{_digits(seconds)} s"


def breakable(name: str) -> Markup:
    """A long name, which a narrow page may break behind its underscores."""
    return Markup("_<wbr>").join(name.split("_"))


def _digits(value: float) -> str:
    """Three of them."""
    if value == 0 or abs(value) >= 99.95:
        return f"{value:.0f}"
    text = f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"
    return text.rstrip("0").rstrip(".") if float(text) else "< 0.01"


def moment(at: float | str | None) -> Markup:
    """A time: UTC as it is, which the page's script shows in the reader's zone. at: s since 1970
    or RFC 3339."""
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
    """An RFC 3339 time where no element can stand: UTC to the second."""
    return f"{at[:19].replace('T', ' ')} UTC"


def spark(values: Sequence[float], label: str) -> Markup:
    """A small line from 0 to its highest value."""
    highest = max(values, default=0.0)
    if not highest or len(values) < 2:
        return Markup('<span class="no-spark">{}</span>').format(_NONE)
    width, height = _SPARK
    points = " ".join(
        f"{place * width / (len(values) - 1):.0f},{height - 1 - (height - 2) * value / highest:.0f}"
        for place, value in enumerate(values)
    )
    text = '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">'
    line = Markup('<polyline points="{}"/></svg>').format(points)
    return Markup(text).format(width, height, label) + line
