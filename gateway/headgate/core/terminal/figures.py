"""Figures as people read them: three digits, and what they count."""

from math import isfinite

_THOUSANDS = ("", "k", "M", "G", "T", "P", "E")
_NONE = "-"  # also for what is no number


def short(number: float | None, unit: str = "") -> str:
    """`950`, `1.25k`, `12.5k`, `3.04M`; with a unit `1.25 kB`. None: `-`."""
    if number is None or not isfinite(number):
        return _NONE
    size, power = abs(number), 0
    while size >= 999.5 and power < len(_THOUSANDS) - 1:
        size, power = size / 1000, power + 1
    digits = 0 if power == 0 and (size >= 100 or size == int(size)) else _digits(size)
    text = f"{'-' if number < 0 else ''}{size:.{digits}f}"
    return f"{text} {_THOUSANDS[power]}{unit}" if unit else f"{text}{_THOUSANDS[power]}"


def counted(number: int, name: str, many: str = "") -> str:
    """`1 record`, `2 records`, `1,234 records`. many: where an s does not do."""
    return f"{number:,} {name if number == 1 else many or name + 's'}"


def share(part: float | None) -> str:
    """0.5 as `50 %`; None, of nothing: `-`."""
    if part is None or not isfinite(part):
        return _NONE
    digits = 1 if 0 < part < 0.0995 else 0
    return f"{100 * part:.{digits}f} %"


def duration(seconds: float | None) -> str:
    """`42 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`. None: `-`."""
    if seconds is None or not isfinite(seconds):
        return _NONE
    whole = round(seconds)
    for size, name, below, lesser in (
        (86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {lesser}" if rest else "")
    return f"{whole} s"


def _digits(size: float) -> int:
    return 2 if size < 9.995 else 1 if size < 99.95 else 0
