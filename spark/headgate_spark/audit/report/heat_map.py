"""The heat map: bytes by partition and time, with the values of each cell."""

from collections.abc import Sequence
from html import escape

import numpy as np

from headgate.charts.charts import LEFT, RIGHT, WIDTH, figure, svg, text
from headgate.core.times import shown_time
from headgate_spark.audit.judgement.figures import Heat

_ROWS_HIGH = 300.0  # of all rows, unless there are many
_SHADES = 5  # of the scale
_LABELS = 12  # of the rows, at most


def heat_map(title: str, heat: Heat, partitions: int) -> str:
    """One row a partition, one column a stretch of time; the darker, the more.

    partitions: how many could have a row; the fullest ones have.
    """
    rows, columns = heat.bytes.shape
    side = max(3.0, min(18.0, _ROWS_HIGH / rows))
    below = rows * side
    ends = heat.from_ms + columns * heat.stretch_ms
    inside = (
        f'<rect class="nothing" x="{LEFT}" y="0" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{below:.1f}"/><g class="heat">{_cells(heat, side)}'
        f"</g>{_rows(heat.numbers, side)}{_times(heat.from_ms, ends, below)}"
        f"{_scale(float(heat.bytes.max()), below + 44)}"
    )
    which = "one row for each partition"
    if rows < partitions:
        which = f"one row for each of the {rows} fullest of {partitions:,} partitions"
    unit = f"bytes in {span(heat.stretch_ms)}, {which}"
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


def _cells(heat: Heat, side: float) -> str:
    wide = (WIDTH - LEFT - RIGHT) / heat.bytes.shape[1]
    top = heat.bytes.max() or 1.0
    drawn = []
    for row, column in np.argwhere(heat.bytes > 0):
        value, began = heat.bytes[row, column], heat.from_ms + int(column) * heat.stretch_ms
        label = (
            f"partition {heat.numbers[row]}, {minute(began)} to "
            f"{minute(began + heat.stretch_ms)}: {size(value)}"
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
