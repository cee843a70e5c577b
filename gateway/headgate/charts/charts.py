"""Charts as inline SVG and HTML: a page that needs no network and no script, and prints.

A chart is drawn as wide as a telephone shows it, so that its text is never smaller than it says.
Its values are titles of what is drawn. No style is in the markup: a strict policy forbids it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

# Where values lie on an axis, and the round ones among them that are written beside it.


_MAX_TICKS = 5
_MAX_POWERS = 9


class Scale(NamedTuple):
    """ticks: the round values, the first and the last of which are the ends.

    is_log: equal ratios are equally wide.
    """

    ticks: Sequence[float]
    is_log: bool = False

    def at(self, value: float) -> float:
        """Where it lies, as a share of the axis."""
        low, high = self.ticks[0], self.ticks[-1]
        if self.is_log:
            return math.log(value / low) / math.log(high / low)
        return (value - low) / (high - low)


def from_zero(values: Sequence[float]) -> Scale:
    """From 0 to the first round value that is not below any of them."""
    top = max(values, default=1.0) or 1.0
    step = 10.0 ** math.floor(math.log10(top / _MAX_TICKS))
    step = next(step * by for by in (1, 2, 5, 10) if top / (step * by) <= _MAX_TICKS + 1e-9)
    last = math.ceil(top / step - 1e-9)
    return Scale([round(step * number, 12) for number in range(last + 1)])


def logarithmic(values: Sequence[float]) -> Scale:
    """Powers of two. values: above 0."""
    low = math.floor(math.log2(min(values, default=1.0)))
    high = max(low + 1, math.ceil(math.log2(max(values, default=2.0))))
    step = -(-(high - low) // (_MAX_POWERS - 1))
    powers = range(low, high + step, step)
    return Scale([2.0**power for power in powers], is_log=True)


WIDTH, LEFT, RIGHT = 360, 44, 20
_HEIGHT, _TOP, _BOTTOM = 224, 10, 38
_MAX_DOTS = 64  # of a line: more cannot be told apart
STYLE = Path(__file__).with_name("charts.css")  # for who serves it as a file


class Axis(NamedTuple):
    """name: what is measured, with its unit.  shown: a value of it, for people.

    is_log: equal ratios are equally wide; else the axis begins at 0.
    """

    name: str
    shown: Callable[[float], str]
    is_log: bool = False

    def over(self, values: Sequence[float]) -> Scale:
        """The scale that has all of them."""
        return logarithmic(values) if self.is_log else from_zero(values)


class Line(NamedTuple):
    """One line of a chart. kind: its class in the style sheet."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """A place on the x axis, and what is there. kind: of style sheet `mark` or `mark chosen`."""

    x: float
    text: str
    kind: str = "mark"


def style() -> str:
    """The style sheet; also where the package is imported from an archive."""
    return files("headgate.charts").joinpath(STYLE.name).read_text(encoding="utf-8")


def percent(share: float) -> str:
    """A share (0 to 1); what is not nothing does not look like it."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share * 100:.3g}%"


def line_chart(
    title: str, lines: Sequence[Line], x: Axis, y: Axis, marks: Sequence[Mark] = ()
) -> str:
    """Lines over common axes."""
    xs = x.over([at for line in lines for at, _ in line.points])
    ys = y.over([at for line in lines for _, at in line.points])
    drawn = [_rows(ys, y), _names(xs, x)]
    drawn += [_mark(mark, xs, row) for row, mark in enumerate(marks)]
    for line in lines:
        points = " ".join(f"{_x(xs.at(a)):.1f},{_y(ys.at(b)):.1f}" for a, b in line.points)
        drawn.append(f'<polyline class="{line.kind}" points="{points}"/>')
    for line in lines:  # above all lines, or one would lie over the dots of another
        drawn += _dots(line, xs, ys, x, y)
    legend = "".join(f'<li class="{line.kind}">{escape(line.name)}</li>' for line in lines)
    inside = f'<ul class="legend">{legend}</ul>{svg(title, "".join(drawn), _HEIGHT)}'
    return figure(title, y.name, inside)


def columns(title: str, x: str, y: Axis, heights: Sequence[tuple[str, float]]) -> str:
    """Upright bars over an axis that begins at 0. x: what they are.  heights: name and value."""
    ys = y.over([height for _, height in heights])
    wide = (WIDTH - LEFT - RIGHT) / max(1, len(heights))
    drawn = [_rows(ys, y), text((LEFT + WIDTH - RIGHT) / 2, _HEIGHT - 4, x, "middle")]
    step = -(-len(heights) // 12) or 1
    for place, (name, height) in enumerate(heights):
        left, top = LEFT + place * wide, _y(ys.at(height))
        label = f"{name}: {y.shown(height)} {y.name}"
        drawn.append(
            f'<g><title>{escape(label)}</title><rect class="near" x="{left:.1f}" y="{_TOP}" '
            f'width="{wide:.2f}" height="{_y(0) - _TOP:.1f}"/><rect class="column" '
            f'x="{left + wide / 10:.1f}" y="{top:.1f}" width="{0.8 * wide:.2f}" '
            f'height="{_y(0) - top:.1f}"/></g>'
        )
        if place % step == 0:
            drawn.append(text(left + wide / 2, _y(0) + 15, name.rpartition(" ")[2], "middle"))
    return figure(title, y.name, svg(title, "".join(drawn), _HEIGHT))


def bars(title: str, unit: str, rows: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars: name, and share (0 to 1) of the unit."""
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
    """A chart under its name, and what it measures."""
    caption = f"<figcaption>{escape(title)}<small>{escape(unit)}</small></figcaption>"
    return f'<figure class="chart">{caption}{inside}</figure>'


def svg(title: str, inside: str, height: float) -> str:
    """The picture."""
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
    drawn = [text(_x(xs.at(one)), _y(0) + 15, x.shown(one), "middle") for one in xs.ticks]
    drawn.append(text((LEFT + _x(1)) / 2, _HEIGHT - 4, x.name, "middle"))
    return "".join(drawn)


def _mark(mark: Mark, xs: Scale, row: int) -> str:
    """row: of its words, so that those of two marks do not lie over each other."""
    share = xs.at(mark.x)
    at = _x(share)
    anchor, beside = ("end", -4) if share > 0.5 else ("start", 4)
    line = f'<path class="{mark.kind}" d="M{at:.1f} {_TOP}V{_y(0):.1f}"/>'
    return line + text(at + beside, _TOP + 9 + 13 * row, mark.text, anchor)


def _dots(line: Line, xs: Scale, ys: Scale, x: Axis, y: Axis) -> Iterator[str]:
    """Each with its values, for who points at it; it is easier to point at than to see."""
    step = -(-len(line.points) // _MAX_DOTS) or 1
    for a, b in line.points[::step]:
        label = f"{line.name}: {x.shown(a)} {x.name}, {y.shown(b)} {y.name}"
        place = f'cx="{_x(xs.at(a)):.1f}" cy="{_y(ys.at(b)):.1f}"'
        yield (
            f'<g><title>{escape(label)}</title><circle class="near" {place} r="9"/>'
            f'<circle class="{line.kind}" {place} r="2.5"/></g>'
        )


def text(x: float, y: float, words: str, anchor: str) -> str:
    """Words in a picture. anchor: start, middle or end."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    base = _HEIGHT - _BOTTOM
    return base - share * (base - _TOP)
