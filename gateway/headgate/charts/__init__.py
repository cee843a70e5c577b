"""Charts as inline SVG and HTML, for pages without network or scripts that can be printed.

A chart is as wide as a telephone's screen, so that its text is never scaled down. Shapes have their
values as titles. The markup contains no styles, since a strict content policy forbids them.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

# ---- scales: positions of values on an axis, and its labelled round values


_MAX_TICKS = 5
_MAX_POWERS = 9


class Scale(NamedTuple):
    """A scale of an axis.

    Attributes:
        ticks: Round values; the first and the last are the ends of the axis.
        is_log: Whether the scale is logarithmic.
    """

    ticks: Sequence[float]
    is_log: bool = False

    def at(self, value: float) -> float:
        """Return a value's position, as a share of the axis."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def from_zero(values: Sequence[float]) -> Scale:
    """Return a scale from 0 to the first round value that is not below any of the values."""
    top = max(values, default=1.0) or 1.0
    step = 10.0 ** math.floor(math.log10(top / _MAX_TICKS))
    step = next(step * by for by in (1, 2, 5, 10) if top / (step * by) <= _MAX_TICKS + 1e-9)
    last = math.ceil(top / step - 1e-9)
    return Scale([round(step * number, 12) for number in range(last + 1)])


def logarithmic(values: Sequence[float]) -> Scale:
    """Return a scale of powers of two. All values must be above 0."""
    low = math.floor(math.log2(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log2(max(values, default=2.0))))
    step = -(-(high - low) // (_MAX_POWERS - 1))
    powers = range(low, high + step, step)
    return Scale([2.0**power for power in powers], is_log=True)


WIDTH, LEFT, RIGHT = 360, 44, 20
_HEIGHT, _TOP, _BOTTOM = 224, 10, 38
_MAX_DOTS = 64  # of a line: more cannot be distinguished
STYLE = Path(__file__).with_name("charts.css")  # for servers that serve it as a file


class Axis(NamedTuple):
    """An axis of a chart.

    Attributes:
        name: Measured quantity, with its unit.
        shown: Formats a value for people.
        is_log: Whether the axis is logarithmic; otherwise it begins at 0.
    """

    name: str
    shown: Callable[[float], str]
    is_log: bool = False

    def over(self, values: Sequence[float]) -> Scale:
        """Return a scale that contains all values."""
        return logarithmic(values) if self.is_log else from_zero(values)


class Line(NamedTuple):
    """One line of a chart. `kind` is its class in the style sheet."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """A labelled position on the x axis. `kind` is its style class: `mark` or `mark chosen`."""

    x: float
    text: str
    kind: str = "mark"


def style() -> str:
    """Return the style sheet; works also if the package is imported from an archive."""
    from importlib.resources import files  # loads zipfile, for pages alone

    return files("headgate.charts").joinpath(STYLE.name).read_text(encoding="utf-8")


def percent(share: float) -> str:
    """Format a share (0 to 1) as a percentage; small shares do not become 0."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share * 100:.3g}%"


def line_chart(
    title: str, lines: Sequence[Line], x: Axis, y: Axis, marks: Sequence[Mark] = ()
) -> str:
    """Draw lines over common axes.

    Args:
        title: Title of the chart.
        lines: Lines to draw.
        x: Horizontal axis.
        y: Vertical axis.
        marks: Labelled positions on the x axis.
    """
    xs = x.over([at for line in lines for at, _ in line.points])
    ys = y.over([at for line in lines for _, at in line.points])
    drawn = [_rows(ys, y), _names(xs, x)]
    drawn += [_mark(mark, xs, row) for row, mark in enumerate(marks)]
    for line in lines:
        points = " ".join(f"{_x(xs.at(a)):.1f},{_y(ys.at(b)):.1f}" for a, b in line.points)
        drawn.append(f'<polyline class="{line.kind}" points="{points}"/>')
    for line in lines:  # after all lines, so that no line covers the dots of another
        drawn += _dots(line, xs, ys, x, y)
    legend = "".join(f'<li class="{line.kind}">{escape(line.name)}</li>' for line in lines)
    inside = f'<ul class="legend">{legend}</ul>{svg(title, "".join(drawn), _HEIGHT)}'
    return figure(title, y.name, inside)


def columns(title: str, x: str, y: Axis, heights: Sequence[tuple[str, float]]) -> str:
    """Draw vertical bars over an axis that begins at 0.

    Args:
        title: Title of the chart.
        x: Label of the horizontal axis.
        y: Vertical axis.
        heights: Name and value of each bar.
    """
    ys = y.over([height for _, height in heights])
    wide = (WIDTH - LEFT - RIGHT) / max(1, len(heights))
    drawn = [_rows(ys, y), text((LEFT + WIDTH - RIGHT) / 2, _HEIGHT - 4, x, "middle")]
    step = -(-len(heights) // 12) or 1
    for index, (name, height) in enumerate(heights):
        x_left, top = LEFT + index * wide, _y(ys.at(height))
        label = f"{name}: {y.shown(height)} {y.name}"
        drawn.append(
            f'<g><title>{escape(label)}</title><rect class="near" x="{x_left:.1f}" y="{_TOP}" '
            f'width="{wide:.2f}" height="{_y(0) - _TOP:.1f}"/><rect class="column" '
            f'x="{x_left + wide / 10:.1f}" y="{top:.1f}" width="{0.8 * wide:.2f}" '
            f'height="{_y(0) - top:.1f}"/></g>'
        )
        if index % step == 0:
            drawn.append(text(x_left + wide / 2, _y(0) + 15, name.rpartition(" ")[2], "middle"))
    return figure(title, y.name, svg(title, "".join(drawn), _HEIGHT))


def bars(title: str, unit: str, rows: Sequence[tuple[str, float]]) -> str:
    """Draw horizontal bars.

    Args:
        title: Title of the chart.
        unit: Unit of the shares.
        rows: Name and share (0 to 1) of each bar.
    """
    top = max((share for _, share in rows), default=1.0) or 1.0
    drawn = "".join(
        f"<tr><th><code>{escape(name[:80])}</code></th>"
        f'<td><svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f"<title>{escape(name)}: {escape(percent(share))} {escape(unit)}</title>"
        f'<rect width="{max(0.5, 100 * share / top):.1f}" height="10"/></svg></td>'
        f'<td class="n">{escape(percent(share))}</td></tr>'
        for name, share in rows
    )
    return figure(title, f"share {unit}", f'<table class="bars">{drawn}</table>')


def figure(title: str, unit: str, inside: str) -> str:
    """Return a chart with its title and unit."""
    caption = f"<figcaption>{escape(title)}<small>{escape(unit)}</small></figcaption>"
    return f'<figure class="chart">{caption}{inside}</figure>'


def svg(title: str, inside: str, height: float) -> str:
    """Return an SVG image; the title is its text for screen readers."""
    return (
        f'<svg role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}">{inside}</svg>'
    )


def _rows(ys: Scale, y: Axis) -> str:
    base, right = _y(0), _x(1)
    drawn = [f'<path class="axis" d="M{LEFT} {_TOP}V{base:.1f}H{right:.1f}"/>']
    for value in ys.ticks:
        at = _y(ys.at(value))
        drawn.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right:.1f}"/>')
        drawn.append(text(LEFT - 5, at + 4, y.shown(value), "end"))
    return "".join(drawn)


def _names(xs: Scale, x: Axis) -> str:
    drawn = [text(_x(xs.at(tick)), _y(0) + 15, x.shown(tick), "middle") for tick in xs.ticks]
    drawn.append(text((LEFT + _x(1)) / 2, _HEIGHT - 4, x.name, "middle"))
    return "".join(drawn)


def _mark(mark: Mark, xs: Scale, row: int) -> str:
    """Draw a mark.

    Args:
        mark: The mark.
        xs: Scale of the x axis.
        row: Row of its text, so that the texts of two marks do not overlap.
    """
    share = xs.at(mark.x)
    at = _x(share)
    anchor, beside = ("end", -4) if share > 0.5 else ("start", 4)
    line = f'<path class="{mark.kind}" d="M{at:.1f} {_TOP}V{_y(0):.1f}"/>'
    return line + text(at + beside, _TOP + 9 + 13 * row, mark.text, anchor)


def _dots(line: Line, xs: Scale, ys: Scale, x: Axis, y: Axis) -> Iterator[str]:
    """Draw a line's points, with their values as titles and a large area to point at."""
    step = -(-len(line.points) // _MAX_DOTS) or 1
    for a, b in line.points[::step]:
        label = f"{line.name}: {x.shown(a)} {x.name}, {y.shown(b)} {y.name}"
        centre = f'cx="{_x(xs.at(a)):.1f}" cy="{_y(ys.at(b)):.1f}"'
        yield (
            f'<g><title>{escape(label)}</title><circle class="near" {centre} r="9"/>'
            f'<circle class="{line.kind}" {centre} r="2.5"/></g>'
        )


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Return text in an image.

    Args:
        x: Horizontal position.
        y: Vertical position.
        words: The text.
        anchor: Alignment: start, middle or end.
    """
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    base = _HEIGHT - _BOTTOM
    return base - share * (base - _TOP)
