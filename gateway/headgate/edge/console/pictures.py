"""A partition's commits as a picture: offset over time, by member; those that went back in red."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

from markupsafe import Markup

_WIDTH, _HEIGHT, _LEFT, _EDGE = 640.0, 190.0, 64.0, 22.0
_COLOURS = 6  # m1 to m6 of console.css; m0: nobody knows who

class Dot(NamedTuple):
    """One commit. at: seconds since 1970.  by: client and member, or empty."""

    at: float
    offset: int
    by: str


class Picture(NamedTuple):
    """members: name and class of each colour that is used."""

    svg: Markup
    members: Sequence[tuple[str, str]]


def dots_of(partition: Mapping[str, Any], falls: Iterable[Mapping[str, Any]]) -> list[Dot]:
    """What is known of its commits, oldest first; those that went back are kept for longer."""
    found = {
        Dot(_seconds(one["at"]), one["offset"], _who(one["by"])) for one in partition["commits"]
    }
    place = partition["topic"], partition["partition"]
    for fall in falls:
        if (fall["topic"], fall["partition"]) == place:
            at = _seconds(fall["at"])
            found.add(Dot(at, fall["to"], _who(fall["committer"])))
            if not any(one.at < at and one.offset == fall["from"] for one in found):
                found.add(Dot(at - 1, fall["from"], ""))
    return sorted(found)


def picture(dots: Sequence[Dot], end: int, now: float, label: str) -> Picture | None:
    """end: of the log.  now: seconds since 1970, up to where the newest one holds.  None: no dot.

    A partition that is stuck is a flat line below the end of the log.
    """
    if not dots:
        return None
    names = sorted({one.by for one in dots if one.by})
    classes = {name: f"m{place % _COLOURS + 1}" for place, name in enumerate(names)} | {"": "m0"}
    first, last = dots[0].at, max(now, dots[-1].at)
    lowest = min(one.offset for one in dots)
    highest = max(end, *(one.offset for one in dots))

    def across(at: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 12) * (at - first) / ((last - first) or 1), 1)

    def down(offset: int) -> float:
        span = (highest - lowest) or 1
        return round(_HEIGHT - _EDGE - (_HEIGHT - 2 * _EDGE) * (offset - lowest) / span, 1)

    parts = [
        Markup('<line class="end" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            _LEFT, _WIDTH, down(end), down(end)
        ),
        _text(4, down(highest) + 4, f"{highest:,}"),
        _text(4, down(lowest) + 4, f"{lowest:,}"),
        _text(_LEFT, _HEIGHT - 4, _clock(first)),
        _text(_WIDTH - 4, _HEIGHT - 4, _clock(last), anchor="end"),
        _text(_WIDTH - 4, max(11.0, down(end) - 4), "log end", anchor="end"),
    ]
    for one, other in pairwise(dots):
        kind = "back" if other.offset < one.offset else "way"
        steps = (across(one.at), down(one.offset), across(other.at), down(other.offset))
        way = Markup('<polyline class="{}" points="{},{} {},{} {},{}"/>')
        parts.append(way.format(kind, steps[0], steps[1], steps[2], steps[1], steps[2], steps[3]))
    held = Markup('<line class="way" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    height = down(dots[-1].offset)
    parts.append(held.format(across(dots[-1].at), across(last), height, height))
    for one in dots:
        circle = Markup('<circle class="{}" cx="{}" cy="{}" r="4"><title>{}</title></circle>')
        said = f"{one.offset:,} at {_clock(one.at)} by {one.by or 'an unknown member'}"
        parts.append(circle.format(classes[one.by], across(one.at), down(one.offset), said))
    head = Markup('<svg class="commits" viewBox="0 0 {} {}" role="img" aria-label="{}">')
    svg = head.format(int(_WIDTH), int(_HEIGHT), label) + Markup("").join(parts) + Markup("</svg>")
    used = [(name, classes[name]) for name in names]
    return Picture(svg, [*used, ("unknown", "m0")] if any(not one.by for one in dots) else used)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, text)


def _clock(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S} UTC"


def _seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _who(by: Mapping[str, Any] | None) -> str:
    return "" if by is None else f"{by['client']} ({by['member']})"
