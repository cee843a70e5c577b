"""The heat map: bytes by partition and time, with the values of each cell."""

from collections.abc import Sequence
from html import escape

import numpy as np

from headgate.charts.charts import LEFT, RIGHT, WIDTH, figure, svg, text
from headgate.core.times import shown_time
from headgate_spark.audit.judgement.measures import Load

_COLUMNS = 72  # more are put together
_ROWS_HIGH = 300.0  # of all rows, unless there are many
_SHADES = 5  # of the scale
_LABELS = 12  # of the rows, at most


def heat_map(title: str, heat: Load, from_ms: int, numbers: Sequence[int], bucket_ms: int) -> str:
    """One row a partition, one column a stretch of time; the darker, the more.

    from_ms: where the first column begins.  numbers: of the rows.  bucket_ms: of a column.
    """
    heat, together = _narrowed(heat)
    stretch_ms = together * bucket_ms
    side = max(3.0, min(18.0, _ROWS_HIGH / heat.shape[0]))
    below = heat.shape[0] * side
    ends = from_ms + heat.shape[1] * stretch_ms
    inside = (
        f'<rect class="nothing" x="{LEFT}" y="0" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{below:.1f}"/><g class="heat">{_cells(heat, from_ms, numbers, stretch_ms, side)}'
        f"</g>{_rows(numbers, side)}{_times(from_ms, ends, below)}"
        f"{_scale(float(heat.max()), below + 44)}"
    )
    unit = f"bytes in {span(stretch_ms)}, one row for each partition"
    return figure(title, unit, svg(title, inside, below + 58))


def span(ms: int) -> str:
    """A stretch of time for people."""
    minutes = ms // 60_000
    return f"{minutes} minutes" if minutes < 120 else f"{minutes / 60:g} hours"


def size(count: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def minute(ms: int) -> str:
    """A time for people, in UTC, to the minute."""
    return shown_time(ms)[:16].replace("T", " ")


def _cells(heat: Load, from_ms: int, numbers: Sequence[int], stretch_ms: int, side: float) -> str:
    wide = (WIDTH - LEFT - RIGHT) / heat.shape[1]
    top = heat.max() or 1.0
    drawn = []
    for row, column in np.argwhere(heat > 0):
        value, began = heat[row, column], from_ms + int(column) * stretch_ms
        label = (
            f"partition {numbers[row]}, {minute(began)} to {minute(began + stretch_ms)}: "
            f"{size(value)}"
        )
        drawn.append(
            f'<rect x="{LEFT + column * wide:.1f}" y="{row * side:.1f}" width="{wide:.2f}" '
            f'height="{side:.1f}" fill-opacity="{max(0.03, value / top):.3f}">'
            f"<title>{escape(label)}</title></rect>"
        )
    return "".join(drawn)


def _rows(numbers: Sequence[int], side: float) -> str:
    step = -(-len(numbers) // _LABELS)
    labels = list(enumerate(numbers))[::step]
    return "".join(text(LEFT - 5, (row + 0.5) * side + 4, str(one), "end") for row, one in labels)


def _times(from_ms: int, ends_ms: int, below: float) -> str:
    first, last = minute(from_ms), minute(ends_ms)
    return (
        text(LEFT, below + 15, first, "start")
        + text(WIDTH - RIGHT, below + 15, last, "end")
        + text((LEFT + WIDTH - RIGHT) / 2, below + 30, "UTC", "middle")
    )


def _scale(top: float, y: float) -> str:
    """What the shades mean, from nothing to the darkest cell."""
    boxes = "".join(
        f'<rect x="{LEFT + 14 + 22 * step}" y="{y:.0f}" width="22" height="10" '
        f'fill-opacity="{(step + 1) / _SHADES:.2f}"/>'
        for step in range(_SHADES)
    )
    right = LEFT + 20 + 22 * _SHADES
    return (
        f'<g class="heat">{boxes}</g>{text(LEFT + 8, y + 9, "0", "end")}'
        f"{text(right, y + 9, size(top), 'start')}"
    )


def _narrowed(heat: Load) -> tuple[Load, int]:
    """Neighbouring windows put together until they fit, and how many of them make one."""
    factor = -(-heat.shape[1] // _COLUMNS)
    missing = -heat.shape[1] % factor
    padded = np.pad(heat, ((0, 0), (0, missing)))
    together: Load = padded.reshape(heat.shape[0], -1, factor).sum(axis=2)
    return together, factor
