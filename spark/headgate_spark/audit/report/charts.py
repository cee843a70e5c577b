"""Charts as inline SVG: a page that needs no network and no script."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from headgate_spark.audit.judgement.measures import Load

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 520, 240, 48, 34
_COLUMNS = 96  # of the heat map: more are put together
_SHADES, _SCALE_HEIGHT = 5, 16  # of its scale


class Line(NamedTuple):
    """One line of a chart. kind: its class in the style sheet."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


def line_chart(title: str, lines: Sequence[Line], x_name: str, y_name: str) -> str:
    """Lines over common axes that begin at 0."""
    xs = [x for line in lines for x, _ in line.points]
    ys = [y for line in lines for _, y in line.points]
    widest, highest = max(xs, default=1) or 1, (max(ys, default=1) or 1) * 1.05
    drawn = [_axes(widest, highest, x_name, y_name)]
    for number, line in enumerate(lines):
        points = " ".join(f"{_x(x / widest):.1f},{_y(y / highest):.1f}" for x, y in line.points)
        drawn.append(f'<polyline class="{line.kind}" points="{points}"/>')
        drawn += [_dot(line.kind, x / widest, y / highest, x, y) for x, y in line.points[:64]]
        drawn.append(
            f'<text class="{line.kind}" x="{_LEFT + 10}" y="{16 + 14 * number}">'
            f"{escape(line.name)}</text>"
        )
    return _svg(title, "".join(drawn), _HEIGHT)


def _dot(kind: str, x: float, y: float, real_x: float, real_y: float) -> str:
    label = f"{real_x:g}: {real_y:.3g}"
    return (
        f'<circle class="{kind}" cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="2.5">'
        f"<title>{label}</title></circle>"
    )


def heat_map(
    title: str, heat: Load, names: Sequence[str], numbers: Sequence[int], minutes: int
) -> str:
    """One row a partition, one column a stretch of time; the darker, the more.

    names: of the first and of the last column.  numbers: of the rows.  minutes: of a column.
    """
    heat, together = _narrowed(heat)
    rows, columns = heat.shape
    side = max(4.0, min(18.0, 360 / max(1, rows)))
    wide = (_WIDTH - _LEFT - 8) / max(1, columns)
    top = heat.max() or 1.0
    cells = [
        f'<rect x="{_LEFT + column * wide:.1f}" y="{row * side:.1f}" width="{wide:.2f}" '
        f'height="{side:.1f}" fill-opacity="{heat[row, column] / top:.3f}"/>'
        for row in range(rows)
        for column in range(columns)
        if heat[row, column]
    ]
    step = max(1, rows // 12)
    labels = [
        f'<text x="{_LEFT - 6}" y="{(row + 0.8) * side:.1f}" text-anchor="end">{number}</text>'
        for row, number in list(enumerate(numbers))[::step]
    ]
    below = rows * side + 16
    labels += [
        f'<text x="{_LEFT}" y="{below:.0f}">{escape(names[0])}</text>',
        f'<text x="{_WIDTH - 8}" y="{below:.0f}" text-anchor="end">{escape(names[1])}</text>',
    ]
    scale = _scale(float(heat.max()), below + 12, f"in {together * minutes} minutes")
    inside = f'<g class="heat">{"".join(cells)}</g>{"".join(labels)}{scale}'
    return _svg(title, inside, below + 12 + _SCALE_HEIGHT)


def _scale(top: float, y: float, stretch: str) -> str:
    """What the shades mean, from nothing to the darkest cell."""
    boxes = "".join(
        f'<rect x="{_LEFT + 24 * step}" y="{y:.0f}" width="24" height="10" '
        f'fill-opacity="{step / _SHADES:.2f}"/>'
        for step in range(1, _SHADES + 1)
    )
    right = _LEFT + 24 * (_SHADES + 1) + 6
    return (
        f'<g class="heat">{boxes}</g><text x="{_LEFT + 18}" y="{y + 10:.0f}" text-anchor="end">0'
        f'</text><text x="{right}" y="{y + 10:.0f}">{_bytes(top)} {stretch}</text>'
    )


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _narrowed(heat: Load) -> tuple[Load, int]:
    """Neighbouring windows put together until they fit, and how many of them make one."""
    factor = -(-heat.shape[1] // _COLUMNS)
    missing = -heat.shape[1] % factor
    padded = np.pad(heat, ((0, 0), (0, missing)))
    together: Load = padded.reshape(heat.shape[0], -1, factor).sum(axis=2)
    return together, factor


def bars(title: str, rows: Sequence[tuple[str, float, str]]) -> str:
    """Horizontal bars: name, share of the longest possible (0 to 1), and what is written."""
    top = max((share for _, share, _ in rows), default=1) or 1
    drawn = []
    for number, (name, share, text) in enumerate(rows):
        y = number * 20
        short = name if len(name) <= 24 else name[:23] + "…"
        drawn.append(
            f'<text x="150" y="{y + 14}" text-anchor="end">{escape(short)}</text>'
            f'<rect class="bar" x="156" y="{y + 3}" width="{max(1.0, 230 * share / top):.1f}" '
            f'height="14"><title>{escape(name)}</title></rect>'
            f'<text x="{162 + max(1.0, 230 * share / top):.1f}" y="{y + 14}">{escape(text)}</text>'
        )
    return _svg(title, "".join(drawn), 20 * len(rows) + 6)


def _axes(widest: float, highest: float, x_name: str, y_name: str) -> str:
    base, right = _HEIGHT - _BOTTOM, _WIDTH - 8
    return (
        f'<path class="axis" d="M{_LEFT} 4V{base}H{right}"/>'
        f'<text x="{right}" y="{base + 28}" text-anchor="end">{escape(x_name)}</text>'
        f'<text x="{right}" y="{base + 14}" text-anchor="end">{widest:g}</text>'
        f'<text x="{_LEFT}" y="{base + 14}">0</text>'
        f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">0</text>'
        f'<text x="{_LEFT - 6}" y="14" text-anchor="end">{highest / 1.05:.3g}</text>'
        f'<text x="12" y="{base / 2:.0f}" transform="rotate(-90 12 {base / 2:.0f})">'
        f"{escape(y_name)}</text>"
    )


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - 8)


def _y(share: float) -> float:
    base = _HEIGHT - _BOTTOM
    return base - share * (base - 4)


def _svg(title: str, inside: str, height: float) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg role="img" '
        f'aria-label="{escape(title)}" viewBox="0 0 {_WIDTH} {height:.0f}" width="{_WIDTH}">'
        f"{inside}</svg></figure>"
    )
