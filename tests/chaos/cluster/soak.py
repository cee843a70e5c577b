"""An hour in figures: what processes hold over time, how it moves, and a picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from redis import Redis

from chaos.cluster.levels import level
from headgate.devstack.ports import LOOPBACK
from support.process.stack import Gateway, RunningRedis

_WIDE, _HIGH, _LEFT, _TOP, _GAP = 640, 120, 70, 24, 40
_COLOURS = ("#1b6ca8", "#c0392b", "#2d8a4e", "#8e44ad")


class Sample(NamedTuple):
    """at: seconds since the beginning; values: of each series."""

    at: float
    values: dict[str, float]


def sample(at: float, gateways: Sequence[Gateway], redis: RunningRedis) -> Sample:
    """What all hold now. Series are named `WHAT of WHOM`."""
    values: dict[str, float] = {}
    for number, gateway in enumerate(gateways):
        whom = f"gateway {number}"
        now = level(gateway)
        values[f"RSS, MiB of {whom}"] = now.rss / 2**20
        values[f"file descriptors of {whom}"] = now.fds
        if now.tasks is not None:
            values[f"tasks of {whom}"] = now.tasks
        values[f"log lines of {whom}"] = gateway.log().count("\n")
    with Redis(LOOPBACK, redis.port) as asked:
        values["memory, MiB of Redis"] = asked.info("memory")["used_memory"] / 2**20
    return Sample(at, values)


class Trend(NamedTuple):
    """A straight line through a series by least squares.

    slope: for each hour.  noise: the standard deviation of what is left, in the series' own unit.
    """

    slope: float
    noise: float
    mean: float


def trend(points: Sequence[tuple[float, float]]) -> Trend:
    """points: (seconds, value), two or more."""
    count = len(points)
    mean_at = sum(at for at, _ in points) / count
    mean = sum(value for _, value in points) / count
    spread = sum((at - mean_at) ** 2 for at, _ in points) or 1.0
    slope = sum((at - mean_at) * (value - mean) for at, value in points) / spread
    left = [value - mean - slope * (at - mean_at) for at, value in points]
    noise = (sum(one * one for one in left) / count) ** 0.5
    return Trend(slope * 3600, noise, mean)


def series(samples: Sequence[Sample], since: float = 0.0) -> dict[str, list[tuple[float, float]]]:
    """By name, the points at or after a moment."""
    found: dict[str, list[tuple[float, float]]] = {}
    for one in samples:
        if one.at >= since:
            for name, value in one.values.items():
                found.setdefault(name, []).append((one.at, value))
    return found


def picture(samples: Sequence[Sample], faults: Sequence[tuple[float, str]]) -> str:
    """An SVG: a chart for each kind of series, a line for each of whom, a mark for each fault."""
    kinds: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for name, points in series(samples).items():
        kind, _, whom = name.rpartition(" of ")
        kinds.setdefault(kind, {})[whom] = points
    long_s = max(one.at for one in samples) or 1.0
    drawn = []
    for number, (kind, lines) in enumerate(kinds.items()):
        drawn.append(_chart(_TOP + number * (_HIGH + _GAP), kind, lines, long_s, faults))
    height = _TOP + len(kinds) * (_HIGH + _GAP)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDE + 20}" height="{height}" '
        'font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>'
        + "".join(drawn)
        + "</svg>\n"
    )


def _chart(
    top: float,
    kind: str,
    lines: dict[str, list[tuple[float, float]]],
    long_s: float,
    faults: Sequence[tuple[float, str]],
) -> str:
    highest = max(value for points in lines.values() for _, value in points) * 1.05 or 1.0
    bottom = top + _HIGH
    parts = [
        f'<text x="{_LEFT}" y="{top - 6}" font-weight="bold">{escape(kind)}</text>',
        f'<path d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDE}" fill="none" stroke="#555"/>',
        f'<text x="{_LEFT - 6}" y="{top + 8}" text-anchor="end">{highest:.0f}</text>',
        f'<text x="{_LEFT - 6}" y="{bottom}" text-anchor="end">0</text>',
        f'<text x="{_LEFT + _WIDE}" y="{bottom + 14}" text-anchor="end">'
        f"{long_s / 60:.0f} min</text>",
    ]
    for at, name in faults:
        x = _LEFT + _WIDE * at / long_s
        parts.append(
            f'<path d="M{x:.1f} {top}V{bottom}" stroke="#bbb" stroke-dasharray="2 2">'
            f"<title>{escape(name)}</title></path>"
        )
    for number, (whom, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        drawn = " ".join(
            f"{_LEFT + _WIDE * at / long_s:.1f},{bottom - _HIGH * value / highest:.1f}"
            for at, value in points
        )
        parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}"/>')
        parts.append(
            f'<text x="{_LEFT + 130 + 110 * number}" y="{top - 6}" fill="{colour}">'
            f"{escape(whom)}</text>"
        )
    return "".join(parts)
