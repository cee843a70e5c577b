"""Charts as inline SVG and HTML: a page that needs no network and no script, and prints.

A chart is drawn as wide as a telephone shows it, so that its text is never smaller than it says.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH, LEFT, RIGHT = 360, 44, 20
_HEIGHT, _TOP, _BOTTOM = 224, 10, 38
_MAX_TICKS = 5
_MAX_DOTS = 64  # of a line: more cannot be told apart


class Axis(NamedTuple):
    """name: what is measured, with its unit.  shown: a value of it, for people."""

    name: str
    shown: Callable[[float], str]


class Line(NamedTuple):
    """One line of a chart. kind: its class in the style sheet."""

    name: str
    kind: str
    points: Sequence[tuple[float, float]]


class Mark(NamedTuple):
    """A place on the x axis, and what is there."""

    x: float
    text: str


def percent(share: float) -> str:
    """A share (0 to 1); what is not nothing does not look like it."""
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share * 100:.3g}%"


def line_chart(
    title: str, lines: Sequence[Line], x: Axis, y: Axis, mark: Mark | None = None
) -> str:
    """Lines over common axes that begin at 0."""
    xs = _ticks(max((at for line in lines for at, _ in line.points), default=1.0))
    ys = _ticks(max((at for line in lines for _, at in line.points), default=1.0))
    drawn = [_grid(xs, ys, x, y)]
    if mark is not None:
        drawn.append(_mark(mark, xs[-1]))
    for line in lines:
        points = " ".join(f"{_x(a / xs[-1]):.1f},{_y(b / ys[-1]):.1f}" for a, b in line.points)
        drawn.append(f'<polyline class="{line.kind}" points="{points}"/>')
    for line in lines:  # above all lines, or one would lie over the dots of another
        drawn += _dots(line, xs[-1], ys[-1], x, y)
    legend = "".join(f'<li class="{line.kind}">{escape(line.name)}</li>' for line in lines)
    inside = f'<ul class="legend">{legend}</ul>{svg(title, "".join(drawn), _HEIGHT)}'
    return figure(title, y.name, inside)


def bars(title: str, unit: str, rows: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars: name, and share (0 to 1) of the unit."""
    top = max((share for _, share in rows), default=1.0) or 1.0
    drawn = "".join(
        f"<tr><th><code>{escape(name[:80])}</code></th>"
        f'<td><div class="bar" style="width:{max(0.5, 100 * share / top):.1f}%" '
        f'title="{escape(name)}: {escape(percent(share))} {escape(unit)}"></div></td>'
        f'<td class="n">{escape(percent(share))}</td></tr>'
        for name, share in rows
    )
    return figure(title, f"share {unit}", f'<table class="bars">{drawn}</table>')


def figure(title: str, unit: str, inside: str) -> str:
    """A chart under its name, and what it measures."""
    caption = f"<figcaption>{escape(title)}<small>{escape(unit)}</small></figcaption>"
    return f"<figure>{caption}{inside}</figure>"


def svg(title: str, inside: str, height: float) -> str:
    """The picture."""
    return (
        f'<svg role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}">{inside}</svg>'
    )


def _ticks(top: float) -> list[float]:
    """Round values from 0 to the first that is not below `top`."""
    top = top or 1.0
    step = 10.0 ** math.floor(math.log10(top / _MAX_TICKS))
    step = next(step * by for by in (1, 2, 5, 10) if top / (step * by) <= _MAX_TICKS + 1e-9)
    return [round(step * number, 12) for number in range(math.ceil(top / step - 1e-9) + 1)]


def _grid(xs: Sequence[float], ys: Sequence[float], x: Axis, y: Axis) -> str:
    base, right = _y(0), _x(1)
    drawn = [f'<path class="axis" d="M{LEFT} {_TOP}V{base:.1f}H{right:.1f}"/>']
    for value in ys:
        at = _y(value / ys[-1])
        drawn.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{right:.1f}"/>')
        drawn.append(text(LEFT - 5, at + 4, y.shown(value), "end"))
    drawn += [text(_x(one / xs[-1]), base + 15, x.shown(one), "middle") for one in xs]
    drawn.append(text((LEFT + right) / 2, _HEIGHT - 4, x.name, "middle"))
    return "".join(drawn)


def _mark(mark: Mark, widest: float) -> str:
    at = _x(mark.x / widest)
    anchor, beside = ("end", -4) if mark.x > widest / 2 else ("start", 4)
    line = f'<path class="mark" d="M{at:.1f} {_TOP}V{_y(0):.1f}"/>'
    return line + text(at + beside, _TOP + 9, mark.text, anchor)


def _dots(line: Line, widest: float, highest: float, x: Axis, y: Axis) -> Iterator[str]:
    """Each with its values, for who points at it; it is easier to point at than to see."""
    step = -(-len(line.points) // _MAX_DOTS) or 1
    for a, b in line.points[::step]:
        label = f"{line.name}: {x.shown(a)} {x.name}, {y.shown(b)} {y.name}"
        place = f'cx="{_x(a / widest):.1f}" cy="{_y(b / highest):.1f}"'
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
